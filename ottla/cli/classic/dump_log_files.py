"""The files that `kafka-dump-log` opens: only to read, and only regular ones. Java's words for what is missing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.cli.classic.java import Illegal
from ottla.cli.inspection.files import ReadOnlyFile
from ottla.records.compression import OUTPUT_BYTES_MAX
from ottla.storage.files import File

_OFFSET_MAX = 2**63 - 1


@contextmanager
def opened(path: str) -> Iterator[File]:
    """Raises Illegal if there is none."""
    try:
        file = ReadOnlyFile(path)
    except FileNotFoundError:
        raise Illegal(f"java.nio.file.NoSuchFileException: {path}\nThere is no such file.") from None
    try:
        yield file
    finally:
        file.close()


def whole(path: str) -> bytes:
    """All of a file that is small when it is what its name says. Raises Illegal, FileNotFoundError."""
    file = ReadOnlyFile(path)
    try:
        if file.size() > OUTPUT_BYTES_MAX:
            raise Illegal(f"{path}: {file.size()} bytes are too many for such a file")
        return file.read_at(0, file.size())
    finally:
        file.close()


def base_offset_of(path: str) -> int:
    """The offset in a file's name. Raises Illegal if there is none."""
    name = os.path.basename(path).split(".")[0]
    digits = name[1:] if name[:1] in ("+", "-") else name
    if not (digits.isascii() and digits.isdigit() and int(name) <= _OFFSET_MAX):
        raise Illegal(
            f'java.lang.NumberFormatException: For input string: "{name}"\n'
            f"{path}: the name of a segment or an index is its first offset, as in 00000000000000000000.log"
        )
    return int(name)


def beside(path: str, suffix: str) -> str:
    """The file of the same segment with another suffix."""
    absolute = os.path.abspath(path)
    return os.path.join(os.path.dirname(absolute), os.path.basename(path).split(".")[0] + suffix)
