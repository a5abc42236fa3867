"""What an inspection of a log directory finds, and what it leaves alone."""

import uuid

import pytest

from ottla.core.ids import TopicPartition
from ottla.records.batch import HEADER, HEADER_SIZE
from ottla.records.checksum import crc32c
from ottla.storage import checkpoints
from ottla.storage.index import OffsetIndex, TimeIndex
from ottla.storage.inspection.findings import Severity
from ottla.storage.scan import walk
from ottla.storage.segment import file_name
from ottla.testing.disk import SimDisk
from tests.unit.storage.inspection.logs import (
    DATA,
    HERE,
    ORDERS,
    TOPIC_ID,
    complaints,
    end,
    everything,
    flip,
    look,
    made,
    write,
)

FIRST, SECOND, LAST = (f"{HERE}/{file_name(base, '')}" for base in (0, 18, 36))


def test_a_log_that_was_closed_is_clean(disk):
    inspection, found = look(disk)
    assert found == []
    orders = inspection.partitions["orders-0"]
    assert (orders.start_offset, orders.end_offset, orders.batches) == (0, 40, 28)
    assert orders.bytes == sum(disk.size(f"{base}.log") for base in (FIRST, SECOND, LAST))


def test_a_single_partition_can_be_looked_at_with_what_the_directory_above_says_of_it(disk):
    inspection, found = look(disk, HERE)
    assert (found, list(inspection.partitions), inspection.directory) == ([], ["orders-0"], DATA)
    checkpoints.write_offsets(disk, f"{DATA}/{checkpoints.RECOVERY_POINT}", {ORDERS: 41})
    (finding,) = complaints(disk, HERE)
    assert "orders-0 is at 41, and its log ends at 40" in finding.reason


def test_nothing_is_ever_written(disk):
    flip(disk, f"{FIRST}.log", 100)
    disk.remove(f"{SECOND}.index")
    before = everything(disk, DATA)
    for operation in ("write", "truncate", "create", "rename", "remove", "sync"):
        disk.fail_next(operation)
    look(disk)
    disk.repair()
    assert everything(disk, DATA) == before


def test_a_damaged_batch_is_named_with_its_first_and_last_byte(disk):
    flip(disk, f"{FIRST}.log", 100)
    (finding,) = complaints(disk)
    assert finding == (Severity.DAMAGE, f"{FIRST}.log", 79, "the batch fails its checksum", 186)


@pytest.mark.parametrize("at", [8, 9, 10, 11, 16], ids=lambda at: f"byte {at}")
def test_a_length_or_magic_that_lies_hides_none_of_the_batches_behind_it(disk, at):
    inspection, _ = look(disk)
    batches = inspection.partitions["orders-0"].batches
    for bits in (0x01, 0x04, 0x40, 0x80):
        flip(disk, f"{FIRST}.log", 186 + at, bits)
        inspection, found = look(disk)
        assert [(f.position, f.end) for f in found if f.severity is Severity.DAMAGE] == [(186, 262)]
        assert inspection.partitions["orders-0"].batches == batches - 1
        flip(disk, f"{FIRST}.log", 186 + at, bits)


def test_a_torn_tail_is_damage_when_nobody_writes_and_a_note_when_a_broker_does(disk):
    write(disk, f"{LAST}.log", disk.read(f"{LAST}.log")[:-20])
    found = complaints(disk)
    assert found[0].path == f"{LAST}.log" and found[0].reason.endswith("the log ends here")
    write(disk, f"{DATA}/{checkpoints.RECOVERY_POINT}", b"0\n0\n")
    inspection, found = look(disk, in_use=True)
    assert [(f.severity, "being written" in f.reason) for f in found] == [
        (Severity.NOTE, True),
        (Severity.NOTE, False),  # the high watermark is ahead
    ]
    assert inspection.partitions["orders-0"].end_offset == 39


def test_while_a_broker_writes_its_indexes_and_epochs_may_lag_behind_or_be_ahead(disk):
    write(disk, f"{LAST}.log", disk.read(f"{LAST}.log")[:148])
    write(disk, f"{DATA}/{checkpoints.RECOVERY_POINT}", b"0\n0\n")
    assert complaints(disk, in_use=True) == []
    assert complaints(disk), "without a broker they speak of what is not there"


def test_every_kind_of_leftover_is_a_note(disk):
    for name in (".log.deleted", ".log.cleaned", ".index.swap"):
        write(disk, FIRST + name, b"half")
    write(disk, f"{HERE}/leader-epoch-checkpoint.tmp", b"half")
    write(disk, f"{HERE}/{file_name(999, '.index')}", b"")
    write(disk, f"{HERE}/README", b"what somebody put there is nobody's business")
    _, found = look(disk)
    assert len(found) == 5 and {f.severity for f in found} == {Severity.NOTE}


def test_leftovers_of_one_kind_are_one_note(disk):
    for number in range(18):
        write(disk, f"{HERE}/{file_name(number, '.log.deleted')}", b"")
        disk.make_directory(f"{DATA}/orders-{number}.{'a' * 32}-delete")
    write(disk, f"{DATA}/{checkpoints.HIGH_WATERMARK}", b"0\n2\ngone 0 1\ngone 1 1\n")
    assert [(f.path, f.reason) for f in look(disk)[1]] == [
        (
            HERE,
            f"{file_name(0, '.log.deleted')} and 17 more: deleted; removed after a while, or by the next start",
        ),
        (DATA, f"orders-0.{'a' * 32}-delete and 17 more: not in use (delete), and not looked at"),
        (f"{DATA}/{checkpoints.HIGH_WATERMARK}", "knows 2 partitions such as gone-0, not to be found here"),
    ]


def test_directories_of_deleted_partitions_are_not_looked_at(disk):
    disk.make_directory(f"{DATA}/orders-0.{'a' * 32}-delete")
    _, found = look(disk)
    assert [f.severity for f in found] == [Severity.NOTE]


def test_a_missing_index_is_stale_and_a_missing_transaction_index_too_where_something_was_aborted(disk):
    for suffix in (".index", ".timeindex", ".txnindex"):
        disk.remove(FIRST + suffix)
    found = complaints(disk)
    assert {f.path for f in found} == {FIRST + s for s in (".index", ".timeindex", ".txnindex")}
    assert {f.severity for f in found} == {Severity.STALE}


def test_an_empty_segment_needs_no_index(disk):
    """Kafka makes them when the first record comes."""
    write(disk, f"{HERE}/{file_name(40, '.log')}", b"")
    assert complaints(disk) == []


def test_a_time_index_that_forgets_an_earlier_newer_record_is_caught(disk):
    """Each entry agrees with its batch, and still a search by time would start too late."""
    last = [batch for batch in batches_of(disk, f"{SECOND}.log") if batch.is_control][-1]
    write(disk, f"{SECOND}.timeindex", TimeIndex.LAYOUT.pack(last.max_timestamp, last.last_offset - 18))
    (finding,) = complaints(disk)
    assert "as the largest so far" in finding.reason


def batches_of(disk, path):
    file = disk.open(path)
    return list(walk(file, 0, file.size()))


def test_an_entry_as_older_kafkas_wrote_them_is_no_complaint(disk):
    """They noted the last offset of a whole append at the place of its first batch."""
    batches = batches_of(disk, f"{FIRST}.log")
    entry = OffsetIndex.LAYOUT.pack(batches[4].last_offset, batches[2].position)
    write(disk, f"{FIRST}.index", entry + bytes(80))
    assert complaints(disk) == []
    write(
        disk, f"{FIRST}.index", OffsetIndex.LAYOUT.pack(batches[1].last_offset - 1, batches[0].position + 1)
    )
    assert "where no batch starts" in complaints(disk)[0].reason


def test_a_snapshot_must_say_what_the_log_says(disk, whole):
    write(disk, f"{SECOND}.snapshot", whole[f"{LAST}.snapshot"])
    (finding,) = complaints(disk)
    assert (finding.severity, finding.path) == (Severity.STALE, f"{SECOND}.snapshot")
    assert "behind the snapshot" in finding.reason
    write(disk, f"{SECOND}.snapshot", whole[f"{SECOND}.snapshot"])
    write(disk, f"{LAST}.snapshot", whole[f"{SECOND}.snapshot"])
    (finding,) = complaints(disk)
    assert "and the log says" in finding.reason


def test_a_producer_that_was_forgotten_may_end_a_transaction_in_which_it_wrote_nothing_here():
    disk = SimDisk()
    log = made(disk, clean=False).logs[ORDERS]
    log.producers.expire(2**62, 1)
    end(log, 7, commit=True, epoch=1)
    log.close()
    assert complaints(disk, HERE) == []


def test_a_log_that_lost_its_beginning_is_followed_from_its_first_snapshot(disk):
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        disk.remove(FIRST + suffix)
    assert complaints(disk) == []
    flip(disk, f"{SECOND}.txnindex", 9)
    assert complaints(disk), "the snapshot knew what was open"


def test_a_gap_between_two_segments_is_a_note_and_lets_later_transactions_pass(disk):
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        disk.remove(SECOND + suffix)
    _, found = look(disk)
    assert [(f.severity, "offsets 18 to 35" in f.reason) for f in found] == [(Severity.NOTE, True)]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        (checkpoints.RECOVERY_POINT, Severity.DAMAGE),
        (checkpoints.LOG_START, Severity.DAMAGE),
        (checkpoints.CLEANER, Severity.STALE),
        (checkpoints.HIGH_WATERMARK, Severity.NOTE),
    ],
)
def test_a_checkpoint_beyond_the_end_of_its_log_is_told(disk, name, severity):
    checkpoints.write_offsets(disk, f"{DATA}/{name}", {ORDERS: 41})
    _, found = look(disk)
    assert [(f.severity, f.path) for f in found] == [(severity, f"{DATA}/{name}")]


def test_a_checkpoint_may_know_partitions_that_are_gone(disk):
    checkpoints.write_offsets(disk, f"{DATA}/{checkpoints.LOG_START}", {TopicPartition("gone", 1): 7})
    _, found = look(disk)
    assert [f.severity for f in found] == [Severity.NOTE]


@pytest.mark.parametrize("name", checkpoints.OFFSETS)
@pytest.mark.parametrize(
    "data", [b"0\n", b"0\n2\norders 0 1\n", b"\xff\xfe", b"1\n0\n", b"0\n1\norders 0 x\n"]
)
def test_a_checkpoint_that_makes_no_sense_is_damage(disk, name, data):
    write(disk, f"{DATA}/{name}", data)
    assert [(f.severity, f.path) for f in complaints(disk)] == [(Severity.DAMAGE, f"{DATA}/{name}")]


def test_the_ids_of_a_topics_partitions_must_agree(disk):
    for number, topic_id in ((1, TOPIC_ID), (2, uuid.UUID(int=5000))):
        disk.make_directory(f"{DATA}/orders-{number}")
        checkpoints.write_partition_metadata(disk, f"{DATA}/orders-{number}", topic_id)
    inspection, _ = look(disk)
    assert inspection.bad_ids == ["orders-2"]


def test_epochs_that_the_batches_contradict_are_the_checkpoints_fault_if_many_do(disk):
    write(disk, f"{HERE}/leader-epoch-checkpoint", b"0\n2\n0 0\n1 30\n")
    (finding,) = complaints(disk)
    assert (finding.severity, finding.path) == (Severity.DAMAGE, f"{HERE}/leader-epoch-checkpoint")


def test_epochs_in_an_empty_file_are_as_good_as_missing(disk):
    """Apache Kafka makes the file before it knows an epoch, and may be stopped in between."""
    write(disk, f"{HERE}/leader-epoch-checkpoint", b"")
    (finding,) = complaints(disk)
    assert (finding.severity, finding.reason) == (Severity.STALE, "is missing")


def test_an_epoch_that_all_others_contradict_is_the_batchs_fault(disk):
    flip(disk, f"{FIRST}.log", 79 + 12, 0x40)
    (finding,) = complaints(disk)
    assert (finding.path, finding.position) == (f"{FIRST}.log", 79)
    assert "leader epoch 1073741824" in finding.reason


def test_a_batch_whose_records_cannot_be_read_under_a_good_checksum_is_a_note(disk):
    body = b"no records"
    fields = [40, HEADER_SIZE - 12 + len(body), 1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1]
    fields[4] = crc32c(HEADER.pack(*fields)[21:] + body)
    write(disk, f"{LAST}.log", disk.read(f"{LAST}.log") + HEADER.pack(*fields) + body)
    _, found = look(disk)
    assert [f.severity for f in found] == [Severity.NOTE]
    assert "it was written so" in found[0].reason


def test_of_a_file_with_endless_faults_only_the_first_are_told(disk):
    write(disk, f"{FIRST}.index", b"\x00\x00\x00\x01\x00\x00\x00\x07" * 5000)
    _, found = look(disk)
    assert len(found) == 101 and found[-1].reason.endswith("what follows in this file is only counted")


@pytest.mark.parametrize("moment", [".log", ".index", ".txnindex", ".snapshot"])
def test_a_segment_that_a_broker_deletes_while_it_is_looked_at_is_a_note(disk, moment):
    real = disk.open

    def deleting(path, **options):
        if path == SECOND + moment:
            for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
                if disk.exists(SECOND + suffix):
                    disk.remove(SECOND + suffix)
        return real(path, **options)

    disk.open = deleting
    assert complaints(disk, in_use=True) == []
