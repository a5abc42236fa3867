"""Where bytes go before anything in their place changes: copied, synced, and never touched again.

orders-0.00000000000000000000.log.4096-8192.quarantine      bytes 4096 to 8192 of that segment
orders-0.leader-epoch-checkpoint.quarantine                 a whole file
recovery-point-offset-checkpoint.1.quarantine               the second of that name

They are plain files in the log directory, beside the partitions. No broker minds them there, Kafka's neither (which
would not start with a directory that is no partition), and they stay when their partition is deleted.
"""

from ottla.storage.files import File, Files
from ottla.storage.scan import SCAN_BYTES

SUFFIX = ".quarantine"
COPIES_MAX = 10_000
_NAME_LENGTH_MAX = 255 - len(".tmp")


class Quarantine:
    """The quarantine of one log directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.directory = directory

    def keep(self, path: str, owner: str = "", start: int = 0, end: int | None = None) -> str:
        """Copy bytes of a file of `owner`, a partition; returns where to. The same bytes are kept once."""
        source = self._files.open(path)
        try:
            size = source.size()
            stretch = "" if end is None else f".{start}-{end}"
            stop = size if end is None else min(end, size)
            target, is_there = self._place(source, start, stop, owner, path.rpartition("/")[2] + stretch)
            if not is_there:
                self._copy(source, start, stop, target)
                self._files.sync_directory(self.directory)
            return target
        finally:
            source.close()

    def _place(self, source: File, start: int, end: int, owner: str, name: str) -> tuple[str, bool]:
        """A path that nothing else has, or one that has these bytes already: of a run that was interrupted."""
        for number in range(COPIES_MAX):
            ending = f"{name}.{number}{SUFFIX}" if number else f"{name}{SUFFIX}"
            target = f"{self.directory}/{_owned(owner, ending)}"
            if not self._files.exists(target):
                return target, False
            if self._is_same(source, start, end, target):
                return target, True
        raise OSError(None, f"has more than {COPIES_MAX} copies in quarantine", name)

    def _is_same(self, source: File, start: int, end: int, target: str) -> bool:
        try:
            kept = self._files.open(target)
        except OSError:
            return False  # a directory, or a link that leads nowhere: the name is taken, that is all
        try:
            if kept.size() != end - start:
                return False
            return all(
                source.read_at(at, min(SCAN_BYTES, end - at)) == kept.read_at(at - start, SCAN_BYTES)
                for at in range(start, end, SCAN_BYTES)
            )
        finally:
            kept.close()

    def _copy(self, source: File, start: int, end: int, target: str) -> None:
        temporary = self._files.open(f"{target}.tmp", create=True)
        try:
            temporary.truncate(0)
            copy(source, start, end, temporary)
            temporary.sync()
        finally:
            temporary.close()
        self._files.rename(f"{target}.tmp", target)


def _owned(owner: str, name: str) -> str:
    """A long topic is cut so that the name still fits."""
    if not owner:
        return name
    topic, _, number = owner.rpartition("-")
    tail = f"-{number}.{name}" if topic else f"{number}.{name}"
    return topic[: _NAME_LENGTH_MAX - len(tail)] + tail


def copy(source: File, start: int, end: int, target: File, at: int = 0) -> None:
    """Bytes [start, end) of one file to byte `at` of another, a little at a time."""
    for position in range(start, end, SCAN_BYTES):
        data = source.read_at(position, min(SCAN_BYTES, end - position))
        target.write_at(at + position - start, data)
