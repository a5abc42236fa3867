"""Types that several packages share."""

from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that can be read by position. Hot paths take any of the three and never copy to make them alike."""


class Stretch(Protocol):
    """Bytes that lie somewhere else, in a file, and are read when they are sent."""

    @property
    def size(self) -> int: ...

    def read_into(self, start: int, buffer: memoryview) -> int:
        """Fill `buffer` with what lies from byte `start` of the stretch on; how many bytes there were."""


Part: TypeAlias = Buffer | Stretch
"""A piece of a message on its way to the socket."""
