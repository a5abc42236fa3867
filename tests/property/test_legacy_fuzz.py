"""Old segments that no broker wrote: opening, reading, searching, cutting and compacting them ends in our own words."""

import random
import struct
import zlib
from contextlib import suppress

import pytest

from ottla.core.errors import OttlaError
from ottla.records import frames
from ottla.records.compression import Codec
from ottla.storage.cleaning.job import Done, Failed
from ottla.storage.log import Log
from ottla.storage.scan import walk
from ottla.testing.disk import SimDisk
from tests.unit.storage.legacy_segments import NOW, SHAPES, compressed, lay, message, old_log
from tests.unit.storage.test_legacy_cleaning import HERE, SETTINGS, compact

ROUNDS = 60
LENGTHS = [-1, 0, 1, 13, 14, 22, 0x7FFFFFFF, -(2**31)]


def mutated(data: bytes, source: random.Random) -> bytes:
    """Flips, cuts and lying lengths; half of the time with checksums that fit what came out."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 5)):
        at = source.randrange(len(changed) + 1)
        match source.randrange(5):
            case 0 if at < len(changed):
                changed[at] = source.randrange(256)
            case 1:
                del changed[at : at + source.randint(1, 60)]
            case 2:
                changed[at:at] = source.randbytes(source.randint(1, 40))
            case 3:
                changed[at : at + 4] = struct.pack(">i", source.choice(LENGTHS))
            case _:
                changed[at:at] = changed[at : at + source.randint(1, 90)]
    return sealed(changed) if source.random() < 0.5 else bytes(changed)


def sealed(data: bytearray) -> bytes:
    """The same with good checksums, as far as messages can be told apart."""
    with suppress(OttlaError):
        for frame in frames.iter_frames(bytes(data)):
            if frame.magic < 2:
                body = data[frame.position + 16 : frame.position + frame.size]
                struct.pack_into(">I", data, frame.position + 12, zlib.crc32(body))
    return bytes(data)


def crafted(source: random.Random) -> bytes:
    """Messages and wrappers that are sound outside, and anything inside."""
    inner = b"".join(
        message(
            source.choice([0, 1, 2, 5, -1, 2**31, 2**63 - 1]),
            source.choice([None, b"", b"k"]),
            source.choice([None, b"", b"v" * 20]),
            source.choice([0, 1, 1, 1]),
            source.choice([0, 0, 0, 1, 2, 3, 7, 8]),
            source.choice([-1, 0, NOW, 2**63 - 1, -(2**63)]),
        )
        for _ in range(source.randrange(5))
    )
    codec = source.choice([Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    attributes = codec if source.random() < 0.8 else source.randrange(256) - 128
    value = compressed(codec, mutated(inner, source) if source.random() < 0.3 else inner, 1)
    offset = source.choice([0, 3, 9, 2**31 - 2])
    return message(
        offset, None, value, source.choice([0, 1, 1]), attributes, source.choice([-1, NOW, 2**63 - 1])
    )


def put_through(data: bytes, source: random.Random) -> None:
    """All that a broker does with a segment. Whatever is refused, what is left is a log."""
    disk = SimDisk()
    lay(disk, HERE, {0: data})
    end = source.choice([0, 0, 40])
    try:
        log = Log.open(disk, HERE, SETTINGS, recovery_point=end)
    except OttlaError:
        return
    for ask in (
        lambda: log.offset_by_time(NOW),
        lambda: log.offset_by_time(2**62),
        log.newest_timestamp,
        lambda: read_all(log),
        lambda: compact_all(log),
        lambda: log.truncate_to(source.randrange(log.end_offset + 1)),
    ):
        with suppress(OttlaError):
            ask()
    assert log.log_start_offset <= log.end_offset
    for segment in log.segments:
        assert sum(batch.size for batch in walk(segment.file, 0, segment.size)) == segment.size


def read_all(log: Log) -> None:
    at = log.log_start_offset
    while data := log.read(at, 300).read():
        for frame in frames.iter_frames(data, partial=True):
            with suppress(OttlaError):
                list(frames.records_of(data, frame))
        at = max(at + 1, 1 + max(frame.offset for frame in frames.iter_frames(data, partial=True)))
        if at > log.end_offset:
            break


def compact_all(log: Log) -> None:
    if log.end_offset == log.segments.active.base_offset:
        return  # nothing in it could be believed
    log.roll()
    log.advance_high_watermark(log.end_offset)
    assert isinstance(compact(log), Done | Failed)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mutated_old_segments_are_borne(shape):
    source = random.Random(f"old {shape}")
    good = old_log(shape, count=20, gaps=True).segments[0]
    for number in range(ROUNDS):
        data = mutated(good, source)
        try:
            put_through(data, source)
        except Exception as error:
            error.add_note(f"round {number}: {data!r}")
            raise


def test_crafted_wrappers_are_borne():
    source = random.Random("crafted")
    for number in range(ROUNDS * 10):
        data = b"".join(crafted(source) for _ in range(source.randint(1, 4)))
        try:
            put_through(data, source)
        except Exception as error:
            error.add_note(f"round {number}: {data!r}")
            raise
