"""Compaction of segments of magic 0 and 1: what stays of them is in today's format afterwards, and says the same."""

import random

import pytest

from ottla.records import frames
from ottla.records.batch import BatchHeader, check
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Done, Event, Failed, Group, Job
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.log import Log
from ottla.storage.replacement import Replacement
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, config, open_log, put
from tests.unit.storage.legacy_segments import (
    NOW,
    SHAPES,
    STAMPED_AT,
    OldLog,
    Shape,
    compressed,
    lay,
    message,
    old_log,
    old_records,
    stored,
    written,
)

KEPT_MS = 1000
SETTINGS = config(
    cleanup_policy="compact", segment_bytes=1 << 20, index_interval_bytes=200, delete_retention_ms=KEPT_MS
)
MIXED = [Shape(0, Codec.LZ4), Shape(0), Shape(1, Codec.SNAPPY), Shape(1), Shape(2, Codec.ZSTD), Shape(2)]


def opened(segments: dict[int, bytes]) -> Log:
    """A log of these segments, with an empty one behind them: the last one of a log is never cleaned."""
    disk = SimDisk()
    lay(disk, HERE, segments)
    log = open_log(disk, SETTINGS, clean=True)
    log.roll()
    log.advance_high_watermark(log.end_offset)
    return log


def compact(log: Log, now_ms: int = NOW) -> Event:
    """Clean all that can be; the last event."""
    job = Job.of(
        log,
        cleanable(log, None, now_ms),
        map_bytes=1 << 16,
        load_factor=0.9,
        io_buffer_bytes=1 << 16,
        now_ms=now_ms,
    )
    event: Event | None = None
    for event in clean(log.files, job):
        if isinstance(event, Group):
            replacement = Replacement(log, event.base_offsets)
            replacement.prepare()
            assert replacement.commit(now_ms)
            replacement.finish()
    assert event is not None
    return event


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches, each with its records. Fails where one is not of magic 2."""
    found = []
    for segment in log.segments:
        data = segment.file.read_at(0, segment.size)
        found += [
            (check(data, frame.position), list(frames.records_of(data, frame)))
            for frame in frames.iter_frames(data)
        ]
    return found


def records_of(log: Log) -> list[Record]:
    return [record for _, records in batches_of(log) for record in records]


def newest_of_each_key(records: list[Record]) -> list[Record]:
    newest = {record.key: record.offset for record in records}
    return [r for r in records if r.key is not None and r.offset == newest[r.key]]


def named(shapes):
    return pytest.mark.parametrize("shape", shapes, ids=str)


@named(SHAPES)
@pytest.mark.parametrize("gaps", [False, True])
def test_the_newest_record_of_each_key_stays_with_its_offset_and_time(shape, gaps):
    old = old_log(shape, gaps=gaps)
    log = opened(old.segments)
    assert isinstance(compact(log), Done)
    assert records_of(log) == newest_of_each_key(old.records)
    assert log.end_offset == old.records[-1].offset + 1


@named(SHAPES)
def test_codec_and_kind_of_time_stay_what_they_were(shape):
    log = opened(old_log(shape).segments)
    compact(log)
    for header, records in batches_of(log):
        if records:
            assert (header.codec, header.timestamp_type) == (shape.codec, int(shape.is_stamped))
            assert header.max_timestamp == max(record.timestamp for record in records)
        assert (header.producer_id, header.leader_epoch) == (-1, -1)


def test_all_formats_in_one_log_become_one():
    old = old_log(*MIXED, segments=3)
    log = opened(old.segments)
    compact(log)
    assert records_of(log) == newest_of_each_key(old.records)
    offsets = [record.offset for record in records_of(log)]
    assert offsets == sorted(set(offsets))


@named(SHAPES)
def test_tombstones_get_a_horizon_and_go_when_it_has_passed(shape):
    records = [Record(0, NOW, b"a", b"1"), Record(1, NOW, b"b", b"2"), Record(2, NOW, b"a", None)]
    log = opened({0: written(shape, records)})
    compact(log)
    assert records_of(log) == stored(shape, records[1:])
    assert {h.delete_horizon_ms for h, rows in batches_of(log) if any(r.value is None for r in rows)} == {
        NOW + KEPT_MS
    }
    compact(log, NOW + KEPT_MS - 1)
    assert [r.offset for r in records_of(log)] == [1, 2]
    compact(log, NOW + KEPT_MS)
    assert [r.offset for r in records_of(log)] == [1]


@named([Shape(0), Shape(1)])
def test_single_messages_are_gathered_into_batches(shape):
    records = [Record(at, NOW + at, b"key %d" % at, b"value" * 5) for at in range(2000)]
    old = written(shape, records)
    log = opened({0: old})
    compact(log)
    assert records_of(log) == stored(shape, records)
    assert len(batches_of(log)) < 20
    assert log.segments[0].size < len(old)


def test_single_messages_that_the_broker_stamped_at_once_are_gathered_too():
    records = [Record(at, STAMPED_AT, b"key %d" % at, b"value" * 5) for at in range(2000)]
    old = written(Shape(1, is_stamped=True), records)
    log = opened({0: old})
    compact(log)
    assert records_of(log) == records
    assert len(batches_of(log)) < 20
    assert log.segments[0].size < len(old)


def test_times_of_the_broker_are_not_mixed_up():
    shape = Shape(1, is_stamped=True)
    messages = [message(at, b"key %d" % at, b"v", shape.magic, 8, NOW + at // 3) for at in range(9)] + [
        message(9, b"key 9", b"v", 1, 0, NOW)
    ]
    log = opened({0: b"".join(messages)})
    compact(log)
    found = [(record.offset, record.timestamp) for record in records_of(log)]
    assert found == [*((at, NOW + at // 3) for at in range(9)), (9, NOW)]
    assert [header.timestamp_type for header, _ in batches_of(log)][-1] == 0


@named(SHAPES)
def test_times_and_offsets_are_found_after_a_cleaning_as_before(shape):
    old = old_log(shape, count=200)
    log = opened(old.segments)
    compact(log)
    kept = records_of(log)
    assert log.newest_timestamp() == max(record.timestamp for record in kept)
    for record in kept:
        assert log.read(record.offset, 1).offset <= record.offset
        if record.timestamp >= 0:
            first = next(r for r in kept if r.timestamp >= record.timestamp)
            assert log.offset_by_time(record.timestamp).offset == first.offset


@named(SHAPES)
def test_new_records_supersede_old_ones(shape):
    old = old_records(20)
    newer = [Record(20, NOW, record.key, b"newer") for record in old if record.key is not None]
    newer = [record.with_(offset=20 + number) for number, record in enumerate(newer)]
    log = opened({0: written(shape, old), 20: written(Shape(2), newer)})
    compact(log)
    assert records_of(log) == newest_of_each_key(newer)
    put(log, b"goes on", producer=(1, 0, 0))


@pytest.mark.parametrize("seed", range(30))
def test_any_mixture_of_formats_is_compacted_as_if_it_had_been_written_today(seed):
    source = random.Random(seed)
    segments: dict[int, bytes] = {}
    expected: list[Record] = []
    base = offset = 0
    for number in range(source.randrange(1, 9)):
        if source.random() < 0.4:
            base = offset
        shape = source.choice([*SHAPES, Shape(2), Shape(2, Codec.GZIP)])
        records = old_records(
            source.randrange(1, 30), offset, seed=seed * 100 + number, gaps=source.random() < 0.5
        )
        segments[base] = segments.get(base, b"") + written(shape, records, source.randrange(1, 9))
        expected += stored(shape, records)
        offset = records[-1].offset + 1
    log = opened(segments)
    assert isinstance(compact(log), Done)
    assert records_of(log) == newest_of_each_key(expected)
    log.close()
    again = open_log(log.files, SETTINGS)
    assert records_of(again) == newest_of_each_key(expected)
    assert not again.recovery.damage and not again.recovery.cut_bytes


def wrapped(*messages: bytes, offset: int = 9) -> bytes:
    return message(offset, None, compressed(Codec.GZIP, b"".join(messages), 1), 1, Codec.GZIP, NOW)


HOSTILE = {
    "offsets that go back": wrapped(message(5, b"a", b"", 1), message(2, b"b", b"", 1)),
    "offsets that stand still": wrapped(message(5, b"a", b"", 1), message(5, b"b", b"", 1)),
    "offsets that one batch cannot number": wrapped(
        message(0, b"a", b"", 1), message(2**31, b"b", b"", 1), offset=2**31
    ),
    "a wrapper in a wrapper": wrapped(wrapped(message(0, b"a", b"", 1), offset=0)),
    "a bomb": wrapped(message(0, b"a", bytes(80 << 20), 1)),
    "nothing": wrapped(),
    "offsets behind its own": wrapped(message(2**40, b"a", b"", 1), offset=0),
    "offsets before those of another": written(Shape(1), [Record(8, NOW, b"z", b"1")])
    + wrapped(message(0, b"a", b"", 1), message(3, b"b", b"", 1), offset=9),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_no_broker_wrote_ends_the_cleaning_and_nothing_else(data):
    log = opened({0: data})
    before = {name: log.files.read(f"{HERE}/{name}") for name in log.files.names(HERE)}
    event = compact(log)
    assert isinstance(event, Failed)
    assert event.reason
    assert {name: log.files.read(f"{HERE}/{name}") for name in log.files.names(HERE)} == before


def test_an_empty_key_is_a_key():
    log = opened(
        OldLog({0: written(Shape(0), [Record(0, -1, b"", b"1"), Record(1, -1, b"", b"2")])}, []).segments
    )
    compact(log)
    assert records_of(log) == [Record(1, -1, b"", b"2")]
