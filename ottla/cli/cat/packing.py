"""-s: keys and values that are numbers, in a notation like that of Python's struct.

A pack string reads bytes from left to right and writes them as text: `-s 'i s'` shows four bytes as a number, a space,
and the rest as it is. Whatever the string does not reach is left out, unless it ends in $.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import click

from ottla.cli.formats import Shown

AVRO = "avro"
NUMBERS = "bBhHiIqQ"
_WHAT_THERE_IS = (
    "< little endian, > big endian, b B h H i I q Q numbers of 1, 2, 4 and 8 bytes, c a character, s the rest, "
    "$ the end, or a space; or avro"
)


Step = Callable[[bytes, int, list[bytes]], int]
"""Reads from a place on, writes what is there, and says where the next one begins."""


class Unreadable(ValueError):
    """A key or a value that is not what -s says."""


class Serdes(NamedTuple):
    """What -s says of keys and of values: a pack string, `avro`, or nothing."""

    key: str | None = None
    value: str | None = None


def serdes(words: tuple[str, ...]) -> Serdes:
    """`key=`, `value=`, or both at once. Raises click.UsageError."""
    found = Serdes()
    for word in words:
        if word.startswith("key="):
            found = found._replace(key=_checked(word, word.removeprefix("key=")))
        elif word.startswith("value="):
            found = found._replace(value=_checked(word, word.removeprefix("value=")))
        else:
            found = Serdes(_checked(word, word), _checked(word, word))
    return found


def _checked(word: str, pack: str) -> str:
    if pack != AVRO:
        strange = [each for each in pack if each not in f" <>cs${NUMBERS}"]
        if strange or not pack:
            reason = f"{strange[0]!r} is no token" if strange else "the pack string is empty"
            raise click.UsageError(f"-s {word}: {reason}; there are {_WHAT_THERE_IS}")
    return pack


def unpacking(pack: str, what: str) -> Shown:
    """Writes bytes as the pack string says; raises `Unreadable`. `what` is the key or the value."""
    steps: list[Step] = []
    order = ">"
    for token in pack:
        if token in "<>":
            order = token
        elif token in NUMBERS:
            steps.append(_number(struct.Struct(order + token), token, what))
        else:
            steps.append(_OTHERS[token](what))

    def show(data: bytes) -> bytes:
        position = 0
        written: list[bytes] = []
        for step in steps:
            position = step(data, position, written)
        return b"".join(written)

    return show


def _number(form: struct.Struct, token: str, what: str) -> Step:
    def step(data: bytes, position: int, written: list[bytes]) -> int:
        if len(data) - position < form.size:
            raise Unreadable(
                f"{what} truncated, expected {form.size} bytes to unpack {token} "
                f"but only {len(data) - position} bytes remaining"
            )
        (number,) = form.unpack_from(data, position)
        written.append(b"%d" % number)
        return position + form.size

    return step


def _character(what: str) -> Step:
    def step(data: bytes, position: int, written: list[bytes]) -> int:
        if position >= len(data):
            raise Unreadable(f"{what} truncated, expected 1 bytes to unpack c but only 0 bytes remaining")
        written.append(data[position : position + 1])
        return position + 1

    return step


def _rest(what: str) -> Step:
    def step(data: bytes, position: int, written: list[bytes]) -> int:
        written.append(data[position:])
        return len(data)

    return step


def _space(what: str) -> Step:
    def step(data: bytes, position: int, written: list[bytes]) -> int:
        written.append(b" ")
        return position

    return step


def _end(what: str) -> Step:
    def step(data: bytes, position: int, written: list[bytes]) -> int:
        if position < len(data):
            raise Unreadable(f"expected {what} end-of-input, but {len(data) - position} bytes remaining")
        return position

    return step


_OTHERS: dict[str, Callable[[str], Step]] = {"c": _character, "s": _rest, " ": _space, "$": _end}
