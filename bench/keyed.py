"""Records with keys, in batches as producers send them: what a compacted topic is fed with."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record

RECORD_BYTES = 1 << 10
RECORDS_PER_BATCH = 16  # 16 KiB, the usual batch.size
NOW_MS = 1_700_000_000_000
_VALUE_BYTES = RECORD_BYTES - 28  # lengths, deltas and a key of 16 bytes take up the rest
_WORDS, _WORD_LETTERS = 2000, "etaoinshrdlucmfw"


def drawn(count: int, keys: int, seed: int) -> list[int]:
    """Any key at any place, as often as chance will have it."""
    source = random.Random(seed)
    return [source.randrange(keys) for _ in range(count)]


def in_pairs(count: int, seed: int) -> list[int]:
    """Each key twice, anywhere."""
    keys = [number // 2 for number in range(count)]
    random.Random(seed).shuffle(keys)
    return keys


class Values:
    """Values of one size, cut from a text of invented words: something that codecs have to work on."""

    def __init__(self, seed: int = 7) -> None:
        source = random.Random(seed)
        words = ["".join(source.choices(_WORD_LETTERS, k=source.randint(2, 11))) for _ in range(_WORDS)]
        self._text = " ".join(source.choices(words, k=200_000)).encode()
        self._starts = range(len(self._text) - _VALUE_BYTES)

    def of(self, number: int) -> bytes:
        start = self._starts[number * 7919 % len(self._starts)]
        return self._text[start : start + _VALUE_BYTES]


def batches(
    keys: Sequence[int], values: Values, codec: Codec = Codec.NONE, offsets: Iterable[int] | None = None
) -> Iterator[bytes]:
    """Full batches of the records with these keys, or of those of them that have these offsets."""
    numbers = iter(range(len(keys)) if offsets is None else offsets)
    while some := list(islice(numbers, RECORDS_PER_BATCH)):
        records = [
            Record(place, NOW_MS + place, b"key-%012d" % keys[number], values.of(number))
            for place, number in enumerate(some)
        ]
        yield build(records, codec=codec)
