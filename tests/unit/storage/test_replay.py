"""How batches in the log become what the log knows of its producers."""

from contextlib import suppress

import pytest

from ottla.records.batch import read_header
from ottla.records.builder import build
from ottla.records.control import ControlType, control_key
from ottla.records.record import Record
from ottla.storage.files import write_whole
from ottla.storage.log import Log
from ottla.storage.producers import Marker, Producers, Stamp
from ottla.storage.replay import apply, marker_of, rebuild_txns, restore, stamp_of
from ottla.storage.snapshots import Snapshots
from ottla.storage.txn_index import parse
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.helpers import HERE, NOW, batch, crash, end_txn, marker, open_log, put


def test_a_stamp_says_what_the_header_says():
    header = read_header(batch(b"a", b"b", base_offset=10, producer=(7, 2, 5), is_transactional=True))
    assert stamp_of(header) == Stamp(7, 2, 5, 6, 10, 11, NOW, True)


def test_a_marker_says_what_the_control_record_says():
    data = marker(7, 3, commit=True, coordinator_epoch=9)
    assert marker_of(read_header(data), data) == Marker(7, 3, True, 9, 0, NOW)
    data = marker(7, 3, commit=False)
    assert not marker_of(read_header(data), data).is_commit


@pytest.mark.parametrize(
    "record",
    [
        Record(0, NOW, control_key(ControlType.LEADER_CHANGE), b""),
        Record(0, NOW, b"\0", b""),
        Record(0, NOW, control_key(ControlType.COMMIT), None),
        None,
    ],
)
def test_other_control_batches_end_no_transaction(record):
    data = build(
        [record] if record else [],
        last_offset=0,
        producer_id=7,
        producer_epoch=0,
        is_control=True,
        is_transactional=True,
    )
    assert marker_of(read_header(data), data) is None
    producers = Producers()
    apply(producers, None, read_header(data), data)
    assert len(producers) == 0


def test_batches_without_a_producer_leave_no_trace():
    producers = Producers()
    apply(producers, None, read_header(batch(b"a")), batch(b"a"))
    assert len(producers) == 0


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def log(disk) -> Log:
    """Two producers over three segments: one aborts, one has a transaction open across all of them."""
    log = open_log(disk)
    put(log, b"a", producer=(1, 0, 0), is_transactional=True)
    put(log, b"b", producer=(2, 0, 0), is_transactional=True)
    log.roll()
    end_txn(log, 2, commit=False)
    put(log, b"c", producer=(2, 0, 1), is_transactional=True)
    log.roll()
    end_txn(log, 2, commit=False)
    put(log, b"d", producer=(3, 0, 0))
    return log


def known(producers: Producers) -> dict[int, tuple[int, int, int]]:
    return {p.producer_id: (p.epoch, p.last_sequence, p.txn_first_offset) for p in producers.all()}


def test_the_state_before_any_offset_is_that_of_the_batches_before_it(disk, log):
    expected = {
        0: {},
        1: {1: (0, 0, 0)},
        2: {1: (0, 0, 0), 2: (0, 0, 1)},
        3: {1: (0, 0, 0), 2: (0, 0, -1)},
        4: {1: (0, 0, 0), 2: (0, 1, 3)},
        5: {1: (0, 0, 0), 2: (0, 1, -1)},
        6: {1: (0, 0, 0), 2: (0, 1, -1), 3: (0, 0, -1)},
    }
    for with_snapshots in (True, False):
        for end_offset, producers in expected.items():
            assert known(restore(disk, HERE, log.segments, end_offset)) == producers
        if with_snapshots:
            for offset in Snapshots(disk, HERE).offsets():
                disk.remove(f"{HERE}/{offset:020d}.snapshot")


def test_the_newest_good_snapshot_is_used_and_bad_ones_are_removed(disk, log):
    assert Snapshots(disk, HERE).offsets() == [2, 4]
    write_whole(disk, f"{HERE}/{4:020d}.snapshot", b"torn")
    assert known(restore(disk, HERE, log.segments, 6))[2] == (0, 1, -1)
    assert Snapshots(disk, HERE).offsets() == [2]


def test_a_snapshot_from_beyond_the_end_is_not_used(disk, log):
    assert known(restore(disk, HERE, log.segments, 3)) == {1: (0, 0, 0), 2: (0, 0, -1)}


def test_a_transaction_index_can_be_rebuilt_for_every_segment(disk, log):
    for segment in log.segments:
        before = list(segment.txns.entries)
        segment.txns.clear()
        rebuild_txns(disk, HERE, log.segments, segment)
        assert segment.txns.entries == before
    assert [len(s.txns.entries) for s in log.segments] == [0, 1, 1]


@pytest.mark.parametrize("content", [b"odd", b"\xff" * 34])
def test_a_transaction_index_that_makes_no_sense_is_rebuilt_when_a_reader_asks(disk, log, content):
    expected = log.aborted_txns(0, 6)
    assert len(expected) == 2
    log.close()
    path = log.segments[1].txns.path
    write_whole(disk, path, content)
    assert open_log(disk, recovery_point=6, clean=True).aborted_txns(0, 6) == expected


def test_an_interrupted_rebuild_of_a_transaction_index_never_passes_for_a_log_without_aborts(disk, log):
    expected = log.segments[1].txns.entries
    log.close()
    path = log.segments[1].txns.path
    for operations in range(8):
        write_whole(disk, path, b"odd")
        disk.crash_after(operations)
        reopened = log.segments[1]
        reopened.txns._entries = None
        with suppress(PowerLoss):
            rebuild_txns(disk, HERE, log.segments, reopened)
        crash(disk, operations)
        assert disk.read(path) == b"odd" or parse(disk.read(path), path) == expected


def test_a_log_whose_transaction_index_makes_no_sense_can_be_truncated(disk, log):
    log.close()
    write_whole(disk, log.segments[2].txns.path, b"odd")
    reopened = open_log(disk, recovery_point=6, clean=True)
    reopened.truncate_to(5)
    assert [t.last_offset for t in reopened.aborted_txns(0, 6)] == [2, 4]
    write_whole(disk, log.segments[1].txns.path, b"odd")
    reopened.truncate_to(3)
    assert [t.last_offset for t in reopened.aborted_txns(0, 6)] == [2]
