"""Types that several packages share."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that can be read by position. Hot paths take any of the three and never copy to make them alike."""
