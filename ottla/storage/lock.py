"""One broker per data directory: two of them writing the same segments would spoil both.

The file is called as Kafka calls it, and holds the number of the process. On Linux it keeps a broker of Kafka out, too,
and is kept out by one; tools that only read do not ask for it.
"""

from ottla.core.errors import OttlaError
from ottla.storage.files import Files

LOCK_NAME = ".lock"
_PID_DIGITS_MAX = 10


class DirectoryInUseError(OttlaError):
    """Another broker has the data directory. `pid` is its process, if it could be told."""

    def __init__(self, directory: str, pid: int | None) -> None:
        owner = "another process" if pid is None else f"process {pid}"
        super().__init__(f"the data directory {directory} is in use by {owner}")
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """A data directory that is ours until `close`. It must exist. The operating system takes back what a killed
    process held."""

    def __init__(self, files: Files, directory: str) -> None:
        path = f"{directory}/{LOCK_NAME}"
        try:
            self._lock = files.lock(path)
        except BlockingIOError:
            raise DirectoryInUseError(directory, _owner(files, path)) from None
        self.directory = directory

    def close(self) -> None:
        # The file stays: whoever removes it could take the lock of somebody who has just opened it.
        self._lock.release()


def _owner(files: Files, path: str) -> int | None:
    try:
        text = files.read(path).decode("ascii", "replace").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and len(text) <= _PID_DIGITS_MAX else None
