"""Putting a cleaned segment in the place of those it was made from, while the log is in use."""

import errno
from collections.abc import Callable

import pytest

from ottla.core.errors import KafkaError
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Group
from ottla.storage.files import Files, OsFile, OsFiles
from ottla.storage.log import Log
from ottla.storage.reading import Slice
from ottla.storage.replacement import Replacement
from ottla.testing.disk import SimDisk
from tests.unit.storage.cleaning.test_cleaner import compacted, job_of, replaced, write
from tests.unit.storage.helpers import HERE, NOW, config, end_txn, open_log, put


def cleaned(disk: Files, log: Log, now_ms: int = NOW) -> Replacement:
    job = job_of(log, now_ms=now_ms)
    group = next(event for event in clean(disk, job) if isinstance(event, Group))
    return Replacement(log, group.base_offsets)


def offsets(log: Log) -> list[int]:
    return [batch.base_offset for segment in log.segments for batch in segment.batches()]


def leftovers(disk: SimDisk) -> list[str]:
    return [name for name in disk.names(HERE) if name.endswith((".cleaned", ".swap"))]


def test_readers_find_the_new_segment_and_those_that_are_reading_the_old_one_end_well():
    disk = SimDisk()
    log = compacted(disk)
    reading = log.read(0, 10_000)
    replacement = cleaned(disk, log)
    replacement.prepare()
    assert replacement.commit(NOW)
    replacement.finish()
    assert [segment.base_offset for segment in log.segments] == [0, 8]
    assert offsets(log) == [4]
    assert log.load(reading), "the file waits for file.delete.delay.ms"
    assert log.replacement is None and leftovers(disk) == []
    assert log.read(0, 10_000).size > 0
    log.remove_doomed(NOW + log.config.file_delete_delay_ms)
    assert not [name for name in disk.names(HERE) if name.endswith(".deleted")]


def test_who_reads_one_that_was_replaced_is_not_led_to_the_next_that_had_its_name(tmp_path):
    """Two that started at the same offset wait to be deleted, and the first has lost its descriptor to the bound."""
    files = OsFiles(handles_max=1, syncs=False)
    log = Log.open(files, str(tmp_path / "orders-0"), config(cleanup_policy="compact"))
    for value in (b"old", b"new"):
        write(log, *((b"key %d" % key, value) for key in range(4)))
        log.roll()
    reading = log.read(0, 10_000)
    before = reading.read()
    replaced(files, log)
    write(log, (b"key 0", b"newer"))
    log.roll()
    replaced(files, log, NOW + 1)
    for name in files.names(log.directory):
        files.open(f"{log.directory}/{name}").close()
    assert files.open_handles <= 1
    assert reading.read() == before
    log.remove_doomed(NOW + log.config.file_delete_delay_ms)
    assert [n for n in files.names(log.directory) if n.endswith(".deleted")], "the second waits for as long"
    log.remove_doomed(NOW + 1 + log.config.file_delete_delay_ms)
    assert not [n for n in files.names(log.directory) if n.endswith(".deleted")]


def test_nor_if_a_thread_was_about_to_sync_it_when_the_reader_came(tmp_path):
    """Both open the file for the first time: it must be the same that gets another name later."""

    class Interrupted:  # not derived: nothing can be from a compiled class
        meanwhile: Callable[[], object] | None = None
        real = OsFiles(handles_max=1)

        def open(self, path: str, *, create: bool = False) -> OsFile:
            if self.meanwhile is not None and path.endswith(".log"):
                todo, self.meanwhile = self.meanwhile, None
                todo()
            return self.real.open(path, create=create)

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    files = Interrupted()
    log = Log.open(files, str(tmp_path / "orders-0"), config(cleanup_policy="compact"))
    write(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    replaced(files, log)
    readings: list[Slice] = []
    files.meanwhile = lambda: readings.append(log.read(0, 10_000))
    log.flush()
    reading = readings[0] if readings else log.read(0, 10_000)
    before = reading.read()
    write(log, (b"a", b"2"))
    log.roll()
    replaced(files, log)
    for name in files.names(log.directory):
        files.open(f"{log.directory}/{name}").close()
    assert reading.read() == before


def test_the_log_goes_on_behind_it():
    disk = SimDisk()
    log = compacted(disk)
    replacement = cleaned(disk, log)
    put(log, b"while it was copied")
    replacement.prepare()
    put(log, b"while it was renamed")
    assert replacement.commit(NOW)
    put(log, b"after")
    assert offsets(log) == [4, 8, 9, 10]
    log.flush()
    log.close()
    assert offsets(open_log(disk, log.config, clean=True)) == [4, 8, 9, 10]


def test_it_is_taken_back_if_retention_took_one_of_them_meanwhile():
    disk = SimDisk()
    log = compacted(disk)
    replacement = cleaned(disk, log)
    replacement.prepare()
    log.advance_log_start(4)
    assert log.delete_old(NOW) == 1
    assert not replacement.commit(NOW)
    assert offsets(log) == [4] and leftovers(disk) == []
    log.close()
    assert offsets(open_log(disk, log.config, clean=True)) == [4]


def test_what_retention_deletes_does_not_come_back_with_a_replacement_that_was_on_its_way():
    disk = SimDisk()
    log = compacted(disk)
    log.flush()
    replacement = cleaned(disk, log)
    replacement.prepare()
    log.advance_log_start(4)
    assert log.delete_old(NOW) == 1
    log.abandon()
    again = open_log(disk, log.config, recovery_point=log.recovery_point)
    assert again.log_start_offset == 4
    assert offsets(again) == [4] and leftovers(disk) == []


def test_retention_that_takes_other_segments_does_not_disturb_it():
    disk = SimDisk()
    log = compacted(disk)
    replacement = cleaned(disk, log)
    log.advance_log_start(0)
    replacement.prepare()
    assert log.delete_old(NOW) == 0
    assert replacement.commit(NOW)


@pytest.mark.parametrize("is_prepared", [True, False])
def test_it_is_taken_back_before_the_log_is_cut(is_prepared):
    disk = SimDisk()
    log = compacted(disk)
    replacement = cleaned(disk, log)
    if is_prepared:
        replacement.prepare()
    log.truncate_to(4)
    assert leftovers(disk) == [], "a crash now would bring back what was cut"
    replacement.prepare()
    assert not replacement.commit(NOW)
    assert offsets(log) == [0] and log.end_offset == 4


def test_a_disk_that_refuses_to_rename_leaves_the_log_as_it_was():
    disk = SimDisk()
    log = compacted(disk)
    replacement = cleaned(disk, log)
    disk.fail_next("rename", errno.EIO, after=1)
    with pytest.raises(OSError, match="Input/output"):
        replacement.prepare()
    replacement.cancel()
    assert offsets(log) == [0, 4] and leftovers(disk) == [] and log.failure is None


@pytest.mark.parametrize("after", range(9))
def test_a_disk_that_refuses_in_the_middle_is_the_end_of_the_log_until_it_is_opened_again(after):
    """By then some of the originals are out of the way: who gives it up must not take the replacement back, too."""
    disk = SimDisk()
    log = compacted(disk)
    log.flush()
    replacement = cleaned(disk, log)
    replacement.prepare()
    disk.fail_next("rename", errno.EIO, after=after)
    with pytest.raises(KafkaError):
        replacement.commit(NOW)
    assert log.failure is not None
    replacement.cancel()
    log.abandon()
    again = open_log(disk, log.config, recovery_point=log.recovery_point)
    assert offsets(again) == [4] and leftovers(disk) == []


def txn(log: Log, producer_id: int, sequence: int, key: bytes, *, is_transactional: bool = True) -> None:
    data = build(
        [Record(0, NOW, key, b"value")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    log.append(data, 0, NOW)
    log.advance_high_watermark(log.end_offset)


def test_a_transaction_whose_marker_was_compacted_away_is_not_open_again_after_a_crash():
    """Snapshots from before the marker tell of a transaction that nothing ends any more."""
    disk = SimDisk()
    topic = config(cleanup_policy="compact", delete_retention_ms=0)
    log = open_log(disk, topic)
    txn(log, 7, 0, b"a")
    log.roll()
    end_txn(log, 7, commit=False)
    txn(log, 8, 0, b"b", is_transactional=False)
    log.roll()
    txn(log, 7, 1, b"c", is_transactional=False)
    log.roll()
    log.flush()
    log.advance_log_start(1)
    log.delete_old(NOW)
    for now_ms in (NOW, NOW + 1):
        replacement = cleaned(disk, log, now_ms)
        replacement.prepare()
        log.abandon()
        log = open_log(disk, topic, recovery_point=1, log_start_offset=1, high_watermark=log.end_offset)
    assert offsets(log) == [2, 3], "the marker is gone"
    assert log.last_stable_offset == log.end_offset


def test_nor_if_the_log_was_closed_while_it_was_open():
    disk = SimDisk()
    topic = config(cleanup_policy="compact", delete_retention_ms=0, segment_bytes=250)
    log = open_log(disk, topic)
    txn(log, 7, 0, b"a")
    log.close()
    log = open_log(disk, topic, clean=True)
    end_txn(log, 7, commit=False)
    for sequence in range(4):
        txn(log, 8, sequence, b"%d" % sequence, is_transactional=False)
        log.roll()
    txn(log, 7, 1, b"c", is_transactional=False)
    log.roll()
    log.flush()
    for now_ms in range(NOW, NOW + 4):
        replaced(disk, log, now_ms)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 2 and 1 not in offsets(log), "the marker is gone"
    log.abandon()
    log = open_log(disk, topic, recovery_point=bases[1] + 1, high_watermark=log.end_offset)
    assert log.last_stable_offset == log.end_offset
