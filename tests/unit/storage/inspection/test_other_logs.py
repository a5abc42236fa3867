"""Logs that others wrote: old formats, and what a compaction leaves. Nothing in them is a complaint."""

import pytest

from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Group, Job
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.inspection.findings import Severity
from ottla.storage.replacement import Replacement
from ottla.storage.scan import walk
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, NOW, config, open_log, put
from tests.unit.storage.inspection.logs import complaints, end, fill, flip, look, mended
from tests.unit.storage.legacy_segments import SHAPES, lay, old_log


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("gaps", [False, True], ids=["", "gaps"])
def test_segments_of_old_formats_are_read_and_a_changed_byte_in_them_is_found(shape, gaps):
    disk = SimDisk()
    old = old_log(shape, shape, gaps=gaps, segments=2)
    lay(disk, HERE, old.segments)
    open_log(disk).close()
    assert [f for f in look(disk, HERE)[1] if f.severity is not Severity.NOTE] == []
    path = f"{HERE}/{max(old.segments):020d}.log"
    for at in range(0, disk.size(path), 29):
        flip(disk, path, at)
        assert complaints(disk, HERE) or is_offset(disk, path, at), f"byte {at}"
        flip(disk, path, at)


def is_offset(disk, path, at) -> bool:
    """Offsets of old messages lie outside their checksums: one that stays between its neighbours looks like a gap."""
    file = disk.open(path)
    return any(batch.position <= at < batch.position + 8 for batch in walk(file, 0, file.size()))


def test_a_damaged_old_message_goes_to_quarantine_and_the_others_stay():
    disk = SimDisk()
    old = old_log(SHAPES[0], SHAPES[5])
    lay(disk, HERE, old.segments)
    open_log(disk).close()
    before = look(disk, HERE)[0].partitions["orders-0"].batches
    flip(disk, f"{HERE}/{0:020d}.log", 30)
    mended(disk, HERE)
    assert complaints(disk, HERE) == []
    assert look(disk, HERE)[0].partitions["orders-0"].batches == before - 1


def test_a_compacted_log_is_clean():
    disk = SimDisk()
    settings = {"cleanup_policy": "compact", "segment_bytes": 1000, "index_interval_bytes": 100}
    log = open_log(disk, config(**settings))
    fill_with_keys(log)
    log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    later = NOW + 10**10
    job = Job.of(
        log,
        cleanable(log, None, later),
        map_bytes=1 << 16,
        load_factor=0.9,
        io_buffer_bytes=4096,
        now_ms=later,
    )
    groups = 0
    for event in clean(disk, job, lambda count: None):
        if isinstance(event, Group):
            replacement = Replacement(log, event.base_offsets)
            replacement.prepare()
            assert replacement.commit(later)
            replacement.finish()
            groups += 1
    assert groups
    log.close()
    assert complaints(disk, HERE) == []


def fill_with_keys(log) -> None:
    for n in range(30):
        log.append(build([Record(i, NOW + n, b"key %d" % (i % 3), b"%d" % n) for i in range(4)]), 0, NOW)
    fill(log)


def test_a_transaction_of_which_only_the_end_is_left_may_be_missing_from_the_index():
    """A start after a crash in the midst of a compaction makes the index from the batches that are left. The snapshot
    that was taken while the transaction was open still knows it."""
    disk = SimDisk()
    settings = config(cleanup_policy="compact", segment_bytes=1000)
    log = open_log(disk, settings)
    put(log, b"x" * 300, producer=(7, 0, 0), is_transactional=True)
    put(log, b"x" * 300)
    log.roll()
    end(log, 7, commit=False, epoch=0)
    put(log, b"y" * 500)
    log.roll()
    put(log, b"z", producer=(7, 0, 1), is_transactional=True)
    end(log, 7, commit=True, epoch=0)
    log.advance_high_watermark(log.end_offset)
    log.flush()
    job = Job.of(
        log, cleanable(log, None, NOW), map_bytes=4096, load_factor=0.9, io_buffer_bytes=4096, now_ms=NOW
    )
    first, _ = [event for event in clean(disk, job) if isinstance(event, Group)]
    replacement = Replacement(log, first.base_offsets)
    replacement.prepare()
    assert replacement.commit(NOW)
    log.abandon()
    again = open_log(disk, settings)
    assert again.aborted_txns(0, again.end_offset) == []
    again.close()
    assert complaints(disk, HERE) == []


@pytest.mark.parametrize("moment", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("is_endless", [False, True])
def test_a_broker_may_compact_a_log_while_it_is_looked_at(moment, is_endless):
    disk = SimDisk()
    log = open_log(disk, config(cleanup_policy="compact", segment_bytes=1000, index_interval_bytes=100))
    fill_with_keys(log)
    log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    real, later = disk.open, [NOW]

    def compact() -> None:
        later[0] += 10**10
        job = Job.of(
            log,
            cleanable(log, None, later[0]),
            map_bytes=4096,
            load_factor=0.9,
            io_buffer_bytes=4096,
            now_ms=later[0],
        )
        for event in clean(disk, job):
            if isinstance(event, Group):
                replacement = Replacement(log, event.base_offsets)
                replacement.prepare()
                assert replacement.commit(later[0])
        log.remove_doomed(later[0] + 10**10)

    def compacting(path, **options):
        if path.endswith(moment):
            disk.open = real
            if is_endless:
                for n in range(40):
                    put(log, b"%d" % n * 20, epoch=9)
                log.roll()
                log.advance_high_watermark(log.end_offset)
            compact()
            disk.open = compacting if is_endless else real
        return real(path, **options)

    disk.open = compacting
    assert complaints(disk, HERE, in_use=True) == []
    disk.open = real
    log.close()
    assert complaints(disk, HERE) == []
