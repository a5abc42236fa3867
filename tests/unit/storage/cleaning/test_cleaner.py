"""What a cleaning does to a log, and what it does not do when something is in its way."""

import errno
import struct

import pytest

from ottla.records import section
from ottla.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.cleaning import output
from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.copying import sealed
from ottla.storage.cleaning.job import (
    Done,
    Event,
    Failed,
    Group,
    Job,
    Mapped,
    Progress,
    event_from_json,
    event_to_json,
)
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.files import Files
from ottla.storage.log import Log
from ottla.storage.replacement import Replacement
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, NOW, config, open_log

ENOUGH = 1 << 16


def write(log: Log, *pairs: tuple[bytes | None, bytes | None]) -> None:
    records = [Record(number, NOW, key, value) for number, (key, value) in enumerate(pairs)]
    log.append(build(records), 0, NOW)
    log.advance_high_watermark(log.end_offset)


def job_of(log: Log, *, map_bytes: int = ENOUGH, now_ms: int = NOW) -> Job:
    return Job.of(
        log,
        cleanable(log, None, now_ms),
        map_bytes=map_bytes,
        load_factor=0.9,
        io_buffer_bytes=4096,
        now_ms=now_ms,
    )


def replaced(disk: Files, log: Log, now_ms: int = NOW) -> None:
    """Clean the log, and put in place what comes out of it."""
    for event in clean(disk, job_of(log, now_ms=now_ms)):
        assert not isinstance(event, Failed), event.reason
        if isinstance(event, Group):
            replacement = Replacement(log, event.base_offsets)
            replacement.prepare()
            assert replacement.commit(now_ms)
            replacement.finish()


def compacted(disk: SimDisk, segments: int = 2, keys: int = 4) -> Log:
    """A log whose every segment holds the same keys."""
    log = open_log(disk, config(cleanup_policy="compact", segment_bytes=4096, segment_index_bytes=4096))
    for number in range(segments):
        write(log, *((b"key %d" % key, b"value %d" % number) for key in range(keys)))
        log.roll()
    return log


def names(disk: SimDisk) -> list[str]:
    return [name for name in disk.names(HERE) if ".cleaned" in name]


def test_events_and_jobs_travel_as_json():
    disk = SimDisk()
    job = job_of(compacted(disk))
    assert Job.from_json(job.to_json()) == job
    events = list(clean(disk, job))
    assert [event_from_json(event_to_json(event)) for event in events] == events
    assert [type(event) for event in events] == [Progress, Mapped, Group, Done]
    assert events[1] == Mapped(8, 4, events[1].keys_max)
    assert events[3].end_offset == 8
    assert (events[3].stats.records_read, events[3].stats.records_kept) == (8, 4)


def test_nothing_but_cleaned_files_is_written():
    disk = SimDisk()
    log = compacted(disk)
    before = {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE)}
    list(clean(disk, job_of(log)))
    after = {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE) if ".cleaned" not in name}
    assert after == before
    assert names(disk) == [
        "00000000000000000000.index.cleaned",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.timeindex.cleaned",
    ]
    kept = list(records_of(disk.read(f"{HERE}/00000000000000000000.log.cleaned")))
    assert [(r.offset, r.key, r.value) for r in kept] == [
        (4 + key, b"key %d" % key, b"value 1") for key in range(4)
    ]


def test_a_segment_with_more_keys_than_the_map_has_room_for_is_an_error_that_names_both_numbers():
    disk = SimDisk()
    events = list(clean(disk, job_of(compacted(disk, keys=12), map_bytes=24 * 7)))
    assert isinstance(events[-1], Failed) and events[-1].errno is None
    for part in ("12 records", "the 6 for which", "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"):
        assert part in events[-1].reason
    assert names(disk) == []


def test_a_damaged_batch_ends_the_cleaning_and_is_not_given_a_new_checksum():
    disk = SimDisk()
    log = compacted(disk)
    file = disk.open(log.segments[1].path)
    file.write_at(log.segments[1].size - 3, b"?")
    events = list(clean(disk, job_of(log)))
    assert isinstance(events[-1], Failed)
    assert "00000000000000000004.log: a batch fails its checksum at byte 0" in events[-1].reason
    assert not [event for event in events if isinstance(event, Group)]


@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_full_disk_ends_the_cleaning_and_gets_its_room_back(operation):
    disk = SimDisk()
    log = compacted(disk)
    job = job_of(log)
    disk.fail_next(operation, errno.ENOSPC)
    events: list[Event] = list(clean(disk, job))
    assert isinstance(events[-1], Failed) and events[-1].errno == errno.ENOSPC
    assert names(disk) == []
    assert [type(event) for event in clean(disk, job)][-1] is Done


def test_whoever_stops_asking_leaves_nothing_behind():
    disk = SimDisk()
    log = compacted(disk, segments=4, keys=40)
    running = clean(disk, job_of(log))
    for event in running:
        if isinstance(event, Mapped):
            break
    next(running)
    running.close()
    assert disk.names(HERE) == [*dict.fromkeys(name for name in disk.names(HERE))]


def test_a_transaction_index_that_makes_no_sense_ends_the_cleaning():
    disk = SimDisk()
    log = compacted(disk)
    disk.open(f"{HERE}/00000000000000000004.txnindex", create=True).write_at(0, b"\x07" * 34)
    events = list(clean(disk, job_of(log)))
    assert isinstance(events[-1], Failed) and "impossible entry" in events[-1].reason


def test_the_replacement_is_as_old_as_the_last_of_those_it_was_made_from():
    disk = SimDisk()
    log = compacted(disk)
    disk.set_modified(log.segments[1].path, 4711)
    list(clean(disk, job_of(log)))
    assert disk.modified_ms(f"{HERE}/00000000000000000000.log.cleaned") == 4711


def test_a_throttle_hears_of_all_that_is_read_and_written():
    disk = SimDisk()
    log = compacted(disk)
    heard: list[int] = []
    *_, done = clean(disk, job_of(log), heard.append)
    assert isinstance(done, Done)
    size = sum(segment.size for segment in log.segments)
    assert sum(heard) == 2 * size + done.stats.bytes_kept


def test_tombstones_can_be_kept_for_ever_and_their_times_with_them():
    """`delete.retention.ms` as large as a number gets: the horizon cannot be told, and timestamps count from it."""
    disk = SimDisk()
    log = open_log(disk, config(cleanup_policy="compact", delete_retention_ms=2**63 - 1))
    write(log, (b"a", None), (b"b", b"1"), (b"c", None))
    log.roll()
    write(log, (b"c", b"2"))
    log.roll()
    replaced(disk, log)
    write(log, (b"b", b"2"))
    log.roll()
    replaced(disk, log)
    first = next(log.segments[0].batches())
    assert (first.base_offset, first.records, first.max_timestamp) == (0, 1, NOW)
    data = log.segments[0].file.read_at(first.position, first.size)
    assert [(r.key, r.value, r.timestamp) for r in records_of(data)] == [(b"a", None, NOW)]


def test_a_log_that_is_cut_behind_the_part_to_be_cleaned_is_no_broken_disk():
    """A follower's may be at any time: segments that were listed are gone when they are opened."""

    class Cut(SimDisk):
        def names(self, directory: str) -> list[str]:
            return [*super().names(directory), "00000000000000000099.txnindex"]

    disk = Cut()
    events = list(clean(disk, job_of(compacted(disk))))
    assert isinstance(events[-1], Failed) and events[-1].errno is None
    assert "00000000000000000099.txnindex went away" in events[-1].reason


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 7)])
def test_a_tombstone_in_a_batch_whose_offsets_make_no_sense_ends_the_cleaning(deltas):
    """A topic that was not compacted takes such batches: their checksums are right."""
    disk = SimDisk()
    log = open_log(disk, config(cleanup_policy="compact"))
    records = bytearray()
    for number, delta in enumerate(deltas):
        section.encode(records, delta, 0, b"key %d" % number, None, ())
    whole = (
        bytearray(build([Record(0, NOW, b"key", None), Record(1, NOW, b"key", None)]))[:HEADER_SIZE] + records
    )
    struct.pack_into(">i", whole, 8, len(whole) - LENGTH_OVERHEAD)
    log.append(sealed(whole)[1], 0, NOW)
    log.advance_high_watermark(log.end_offset)
    log.roll()
    events = list(clean(disk, job_of(log)))
    assert isinstance(events[-1], Failed)
    assert "the records of the batch at offset 0 are out of order" in events[-1].reason


@pytest.mark.parametrize("refuses", [False, True])
def test_what_is_written_is_synced_on_the_way_and_a_disk_that_refuses_is_heard(monkeypatch, refuses):
    monkeypatch.setattr(output, "SYNC_BYTES", 200)
    disk = SimDisk()
    job = job_of(compacted(disk, segments=6, keys=30))._replace(io_buffer_bytes=100)
    if refuses:
        disk.fail_next("sync", errno.EIO)
    *_, last = clean(disk, job)
    if refuses:
        assert isinstance(last, Failed) and last.errno == errno.EIO
        assert names(disk) == []
    else:
        assert isinstance(last, Done) and last.stats.records_kept == 30
