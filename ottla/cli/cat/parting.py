"""From pieces of an input to records, as kcat does it, and to which partition each of them goes.

A piece that is empty is no record. With -K a piece is a key and a value, or a value alone where there is no delimiter
in it. Keys are spread over partitions as librdkafka does by default, by their CRC-32: that is not how Java's producers
and `ottla produce` do it, which -X partitioner=murmur2_random stands for.
"""

import random
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from ottla.cli.cat.wanted import Input
from ottla.cli.sending.inputs import Block
from ottla.cli.sending.parcels import Fault, Parcel, Value
from ottla.core.errors import ConfigError

Choose = Callable[[Value, int], int | None]
"""The partition of a key, of so many; None leaves it to the producer."""


def _consistent(key: Value, partitions: int) -> int:
    return zlib.crc32(key or b"") % partitions


def _consistent_random(key: Value, partitions: int) -> int | None:
    return zlib.crc32(key) % partitions if key else None


def _random(key: Value, partitions: int) -> int:
    return random.randrange(partitions)


def _in_turn() -> Choose:
    turns = count()
    return lambda key, partitions: next(turns) % partitions


_CHOOSERS: dict[str, Choose | None] = {
    "consistent_random": _consistent_random,
    "consistent": _consistent,
    "murmur2_random": None,
    "murmur2": None,
    "default": None,
    "random": _random,
}
_ROUND_ROBIN = "round_robin"


def chooser(name: str | None) -> Choose | None:
    """That of -X partitioner; None leaves everything to the producer, which does as Java's. Raises ConfigError."""
    if name is None:
        return _consistent_random
    if name == _ROUND_ROBIN:
        return _in_turn()
    if name not in _CHOOSERS:
        raise ConfigError(f"partitioner is {name!r}, but must be {', '.join([*_CHOOSERS, _ROUND_ROBIN])}")
    return _CHOOSERS[name]


class Pieces:
    """A parser for the engine of `ottla produce`."""

    noun = "message"

    def __init__(
        self, said: Input, partitions: int, choose: Choose | None, *, has_nulls: bool, is_whole: bool
    ) -> None:
        """`is_whole` says that a piece is a file: it is the value as it is."""
        self._key, self._between = said.fixed_key, None if is_whole else said.key_delimiter
        self._is_tee = said.is_tee and not is_whole
        self._partitions, self._choose = partitions, choose if partitions > 1 else None
        self._has_nulls = has_nulls

    def __call__(self, block: Block) -> tuple[list[Parcel], Fault | None]:
        values = [each for each in block.pieces if each]
        places: Sequence[int] = range(len(values))
        if len(values) != len(block.pieces):
            places = [index for index, each in enumerate(block.pieces) if each]
        if self._is_tee:
            _tee(values)
        if not values:
            return [], None
        if self._between is not None:
            keys, kept = self._cut(values)
            return self._parcels(places, kept, keys), None
        fixed = None if self._key is None else [self._key] * len(values)
        return self._parcels(places, values, fixed), None

    def _cut(self, pieces: Iterable[bytes]) -> tuple[list[Value], list[Value]]:
        """Keys and values. With -Z what is empty of them is null; a key that is missing is that of -k."""
        between, fixed, has_nulls = self._between, self._key, self._has_nulls
        assert between is not None, "only with -K"
        keys: list[Value] = []
        values: list[Value] = []
        for piece in pieces:
            key, found, value = piece.partition(between)
            if not found:
                keys.append(fixed)
                values.append(piece)
            else:
                keys.append(key if key or not has_nulls else fixed)
                values.append(value if value or not has_nulls else None)
        return keys, values

    def _parcels(
        self, places: Sequence[int], values: Sequence[Value], keys: Sequence[Value] | None
    ) -> list[Parcel]:
        choose = self._choose
        if choose is None or (keys is None and choose is _consistent_random):
            return [Parcel(places, values, keys)]
        shares: dict[int | None, tuple[list[int], list[Value], list[Value]]] = {}
        for place, value, key in zip(places, values, keys or [None] * len(values), strict=True):
            share = shares.setdefault(choose(key, self._partitions), ([], [], []))
            share[0].append(place)
            share[1].append(value)
            share[2].append(key)
        return [Parcel(*share, None, partition) for partition, share in shares.items()]


def _tee(pieces: Sequence[bytes]) -> None:
    """What is sent, without delimiters, as kcat has it."""
    sys.stdout.buffer.write(b"".join(pieces))
    sys.stdout.buffer.flush()
