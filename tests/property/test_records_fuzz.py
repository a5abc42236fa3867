"""No bytes whatsoever make a reader of records raise anything but ProtocolError, or cost more than its cap.

Mutations start from good bytes, with checksums mended so that the readers behind them are reached.
"""

import random
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.records import batch, builder, control, convert, frames, legacy, section
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec, compress, decompress
from ottla.records.record import Record

CAP = 1 << 20
ROUNDS = 1500
RECORDS = [
    Record(i, 1000 + 40 * i, b"key" * (i % 3) or None, b"value " * i, (("h", b"x" * i), ("", None))[: i % 3])
    for i in range(12)
]
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def read_everything(buffer):
    """Every door into the package, each of which may refuse."""
    doors = (
        lambda: batch.check(buffer),
        lambda: [header.codec for _, header in batch.iter_batches(buffer)],
        lambda: list(batch.iter_batches(buffer, partial=True)),
        lambda: [control.decode_marker(record) for record in batch.records_of(buffer, limit=CAP)],
        lambda: list(batch.rows_of(memoryview(buffer), limit=CAP)),
        lambda: batch.walk(buffer, limit=CAP),
        lambda: batch.walk(buffer, consecutive=True, limit=CAP),
        lambda: [list(legacy.records_of(buffer, at, limit=CAP)) for at, _ in legacy.iter_messages(buffer)],
        lambda: list(legacy.iter_messages(buffer, partial=True)),
        lambda: [list(frames.records_of(buffer, f, limit=CAP)) for f in frames.iter_frames(buffer)],
        lambda: convert.up_convert(buffer, limit=CAP),
        lambda: convert.down_convert(buffer, 0, limit=CAP),
        lambda: convert.down_convert(buffer, 1, limit=CAP),
    )
    for door in doors:
        with suppress(ProtocolError):
            door()


def mutated(good, chance):
    bad = bytearray(good)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        kind = chance.randrange(5)
        at = chance.randrange(len(bad)) if bad else 0
        if kind == 0 and bad:
            bad[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and bad:
            bad[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del bad[at : at + chance.randrange(1, 9)]
        elif kind == 3:
            bad[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 4 and bad:
            other = chance.randrange(len(bad))
            bad[at : at + 8] = bad[other : other + 8]
    return bad


def mend_batch(bad):
    """A length and a CRC that fit, most of the time a magic too."""
    if len(bad) >= batch.HEADER_SIZE:
        bad[batch.MAGIC_AT] = 2
        struct.pack_into(">i", bad, batch.LENGTH_AT, len(bad) - batch.LENGTH_OVERHEAD)
        struct.pack_into(">I", bad, batch.CRC_AT, crc32c(bad, batch.ATTRIBUTES_AT))
    return bad


def mend_message(bad):
    if len(bad) >= 34:
        struct.pack_into(">i", bad, 8, len(bad) - 12)
        struct.pack_into(">I", bad, 12, zlib.crc32(bad[16:]))
    return bad


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_in_order(data):
    read_everything(data)


@pytest.mark.parametrize("codec", list(Codec))
def test_mutated_batches_are_refused_in_order(codec):
    chance = random.Random(f"batch {codec}")
    good = builder.build(RECORDS, codec=codec)
    for _ in range(ROUNDS):
        bad = mutated(good, chance)
        read_everything(bad if chance.random() < 0.2 else mend_batch(bad))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_mutated_message_sets_are_refused_in_order(magic, codec):
    chance = random.Random(f"set {magic} {codec}")
    good = legacy.build(RECORDS if codec else RECORDS[3:4], magic, codec=codec)
    for _ in range(ROUNDS // 2):
        bad = mutated(good, chance)
        read_everything(bad if chance.random() < 0.2 else mend_message(bad))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_mutated_sections_inside_good_compression_are_refused_in_order(codec):
    chance = random.Random(f"inside {codec}")
    plain = builder.build(RECORDS)
    header, good = plain[: batch.HEADER_SIZE], plain[batch.HEADER_SIZE :]
    for _ in range(ROUNDS // 3):
        bad = bytearray(header + compress(codec, mutated(good, chance)))
        bad[batch.ATTRIBUTES_AT + 1] = codec
        read_everything(mend_batch(bad))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_mutated_compressed_bytes_never_pass_the_cap(codec):
    chance = random.Random(f"compressed {codec}")
    goods = [compress(codec, bytes(200_000)), compress(codec, b"some text " * 50), compress(codec, b"")]
    for _ in range(ROUNDS):
        bad = mutated(chance.choice(goods), chance)
        with suppress(ProtocolError):
            assert len(decompress(codec, bad, 250_000)) <= 250_000


def test_what_the_walker_accepts_the_reader_reads():
    chance = random.Random("walk")
    out = bytearray()
    for record in RECORDS:
        section.encode(out, record.offset, record.timestamp, record.key, record.value, record.headers)
    accepted = 0
    for _ in range(ROUNDS * 4):
        bad = bytes(mutated(out, chance))
        try:
            section.walk(bad, 0, len(bad), len(RECORDS), len(RECORDS) - 1, True)
        except ProtocolError:
            continue
        accepted += 1
        records, end = section.decode(bad, 0, len(bad), len(RECORDS), 0, 0, False, False)
        assert [record.offset for record in records] == list(range(len(RECORDS)))
        assert end == len(bad)
    assert accepted > 20, "some mutations only change values"
