"""Segments that replace others: compaction writes `.cleaned`, renames it to `.swap`, removes what it replaces, and
gives it its name. A crash between these steps is completed or undone when the log is opened.

A `.cleaned` file may be half-written and is thrown away. A `.swap` file is whole and synced: from then on the
originals are the ones to go. If a `.cleaned` one is still there beside it, the set of replacements was not complete,
and the swaps from its offset on are thrown away too, while their originals are still there.
"""

from ottla.storage.files import Files, remove_all
from ottla.storage.scan import BrokenChain, walk
from ottla.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    offset_of,
)
from ottla.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX

SWAP_SUFFIX, CLEANED_SUFFIX = ".swap", ".cleaned"
_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def finish_swaps(files: Files, directory: str) -> None:
    """Leave no `.swap` or `.cleaned` file behind."""
    names = files.names(directory)
    cleaned = [o for n in names if (o := offset_of(n, LOG_SUFFIX + CLEANED_SUFFIX)) is not None]
    swaps = sorted(o for n in names if (o := offset_of(n, LOG_SUFFIX + SWAP_SUFFIX)) is not None)
    undone_from = min(cleaned, default=None)
    for base_offset in swaps:
        if undone_from is not None and base_offset >= undone_from:
            continue
        _finish(files, directory, base_offset, names)
    leftovers = [n for n in files.names(directory) if n.endswith((SWAP_SUFFIX, CLEANED_SUFFIX))]
    remove_all(files, (f"{directory}/{n}" for n in leftovers))
    if swaps or leftovers:
        files.sync_directory(directory)


def _finish(files: Files, directory: str, base_offset: int, names: list[str]) -> None:
    """Remove the segments that the swap covers, then give it its name."""
    end_offset = _end_of_swap(files, f"{directory}/{file_name(base_offset, LOG_SUFFIX + SWAP_SUFFIX)}")
    covered = range(base_offset, max(end_offset, base_offset + 1))
    # Snapshots from within do not fit what is left: a marker that ends a transaction which they know of may be gone.
    snapshots = [n for n in names if offset_of(n, SNAPSHOT_SUFFIX) in covered]
    remove_all(files, (f"{directory}/{n}" for n in snapshots))
    # The log comes last, each time. While the new one is a swap, all of this can be done again; and when the old one is
    # gone, an index of its name must not be the old one's.
    for base in sorted(b for n in names if (b := offset_of(n, LOG_SUFFIX)) is not None and b in covered):
        remove_all(files, (f"{directory}/{file_name(base, suffix)}" for suffix in reversed(_SUFFIXES)))
    for suffix in reversed(_SUFFIXES):
        swap = f"{directory}/{file_name(base_offset, suffix + SWAP_SUFFIX)}"
        if files.exists(swap):
            files.rename(swap, swap.removesuffix(SWAP_SUFFIX))
    files.sync_directory(directory)


def _end_of_swap(files: Files, path: str) -> int:
    file = files.open(path)
    end = 0
    try:
        for batch in walk(file, 0, file.size()):
            end = batch.next_offset
    except BrokenChain:
        pass  # whatever it covers, it covers up to here
    finally:
        file.close()
    return end
