"""The segment that replaces a group, while it is being written."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from ottla.core.types import Buffer
from ottla.records.batch import BatchHeader
from ottla.records.errors import invalid
from ottla.storage.cleaning.job import Stats
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.segment import AppendRefused, Segment
from ottla.storage.swap import CLEANED_SUFFIX

SYNC_BYTES = 32 << 20
"""How much is copied before the disk is asked to write it."""


class Output:
    """The segment that replaces a group: written in large pieces, and under names that no log opens."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: TopicConfig, buffer_bytes: int
    ) -> None:
        self._files = files
        self.segment = Segment(files, directory, base_offset, config, CLEANED_SUFFIX)
        self.segment.remove()  # of a cleaning that was given up: whoever still writes there writes to nowhere
        self.segment = Segment.create(files, directory, base_offset, config, CLEANED_SUFFIX)
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._headers: list[BatchHeader] = []
        self._end_offset = base_offset
        self._disk = ThreadPoolExecutor(1, "sync")
        self._syncing: Future[None] | None = None
        self._syncs_at = SYNC_BYTES
        self.records_read = self.bytes_read = self.records_kept = self.bytes_kept = 0

    def read(self, records: int, size: int) -> None:
        self.records_read += records
        self.bytes_read += size

    def write(self, header: BatchHeader, batch: Buffer) -> None:
        base_offset, _, _, _, _, _, last_offset_delta, _, _, _, _, _, count = header
        if base_offset < self._end_offset:
            raise invalid(f"offset {base_offset} stands where {self._end_offset} was expected")
        self._end_offset = base_offset + last_offset_delta + 1
        self.records_kept += count
        self.bytes_kept += len(batch)
        self._buffer += batch
        self._headers.append(header)
        if len(self._buffer) >= self._buffer_bytes:
            self._flush()

    def finish(self, modified_ms: int) -> Stats:
        self._flush()
        self._end_sync()
        self.segment.seal()
        self.segment.sync()
        self._files.set_modified(self.segment.path, modified_ms)
        self.segment.close()
        return Stats(self.records_read, self.bytes_read, self.records_kept, self.bytes_kept)

    def remove(self) -> None:
        with suppress(OSError):
            self._end_sync()
        self.segment.remove()

    def _sync_meanwhile(self) -> None:
        """Have the disk write what is there while more is copied; in the end little is left to wait for."""
        if self._syncing is None or self._syncing.done():
            self._end_sync()
            self._syncing = self._disk.submit(self.segment.file.sync)

    def _end_sync(self) -> None:
        """Raises OSError if the disk refused."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def _flush(self) -> None:
        if self._buffer:
            try:
                self.segment.append(self._buffer, self._headers)
            except AppendRefused as refused:
                # Compiled code sets no __cause__, but both know in the midst of what it was raised.
                raise refused.__context__ or refused from None
            self._buffer.clear()
            self._headers.clear()
            if self.segment.size >= self._syncs_at:
                self._syncs_at = self.segment.size + SYNC_BYTES
                self._sync_meanwhile()
