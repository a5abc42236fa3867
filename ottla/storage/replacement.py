"""A cleaned segment takes the place of those it was made from, in a log that is in use.

    prepare   .cleaned -> .swap, on the disk when it returns: a crash before ends in the old log, one after in the new
    commit    the log's owner takes the old ones out, as retention does, and gives the new one its name
    finish    the names are on the disk

`prepare` and `finish` wait for the disk and run in a thread. In between the log may be cut, or lose old segments: then
the replacement speaks of batches that are gone, and is taken back before they go, or a crash would bring them again.
"""

import logging
import threading
from typing import TYPE_CHECKING

from ottla.storage.files import remove_all
from ottla.storage.segment import Segment
from ottla.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX

if TYPE_CHECKING:
    from ottla.storage.log import Log

logger = logging.getLogger(__name__)


class Replacement:
    """One cleaned segment on its way into a log. `log.replacement` while it is."""

    def __init__(self, log: "Log", base_offsets: list[int]) -> None:
        wanted = set(base_offsets)
        self._files = log.files
        self._log = log
        self._sources = [segment for segment in log.segments if segment.base_offset in wanted]
        self._sizes = [segment.size for segment in self._sources]
        self._is_whole = len(self._sources) == len(base_offsets)
        self._base_offset = base_offsets[0]
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._is_begun = False  # are the originals on their way out?
        log.replacement = self

    def prepare(self) -> None:
        """May run in a thread. The log goes last: until then there is no `.swap` that anybody believes."""
        with self._lock:
            if self._is_cancelled:
                return
            cleaned = self._paths(CLEANED_SUFFIX)
            for path in reversed(cleaned):
                if self._files.exists(path):
                    self._files.rename(path, path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
            self._files.sync_directory(self._log.directory)

    def commit(self, monotonic_ms: int) -> bool:
        """Put it in place. False, and nothing of it stays, if the log is not any more what it was made from."""
        if self._is_cancelled or not self._is_up_to_date():
            self.cancel()
            return False
        self._log.replacement = None
        self._is_begun = True
        self._log.replace(self._sources, self._put_in_place, monotonic_ms)
        return True

    def finish(self) -> None:
        """May run in a thread."""
        self._files.sync_directory(self._log.directory)

    def cancel(self) -> None:
        """Take it back, whatever was done up to `commit`: the originals are all there.

        Of one that `commit` could not bring to its end nothing may go: it is all that is left of some of them, and the
        next start completes it.
        """
        with self._lock:
            if self._is_begun:
                return
            self._is_cancelled = True
            if self._log.replacement is self:
                self._log.replacement = None
            # The log first: without it the other files are swept up by the next start.
            remove_all(self._files, [*self._paths(SWAP_SUFFIX), *self._paths(CLEANED_SUFFIX)])
            self._files.sync_directory(self._log.directory)

    def is_made_of(self, segments: list[Segment]) -> bool:
        """Of any of these?"""
        return any(segment in self._sources for segment in segments)

    def _is_up_to_date(self) -> bool:
        here = [segment for segment in self._log.segments if segment in self._sources]
        return (
            self._is_whole
            and here == self._sources
            and self._log.segments.active not in self._sources
            and [segment.size for segment in self._sources] == self._sizes
        )

    def _put_in_place(self) -> Segment:
        """As a start would after a crash: the log gets its name last, so that this can be done again."""
        for path in reversed(self._paths(SWAP_SUFFIX)):
            if self._files.exists(path):
                self._files.rename(path, path.removesuffix(SWAP_SUFFIX))
        segment = Segment.open(self._files, self._log.directory, self._base_offset, self._log.config)
        _ = segment.file  # else a thread that syncs it and a reader may both open it, and one keeps its name
        return segment

    def _paths(self, suffix: str) -> list[str]:
        """The log's first."""
        return Segment(self._files, self._log.directory, self._base_offset, self._log.config, suffix).paths
