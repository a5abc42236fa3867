"""A log and its producers: retries, restarts, transactions."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.log import Log
from ottla.storage.txn_index import AbortedTxn
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, NOW, batch, config, crash, end_txn, open_log, put


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def log(disk) -> Log:
    return open_log(disk)


def refusal(do) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        do()
    return caught.value.code


def restarted(disk: SimDisk, log: Log, how: str) -> Log:
    if how == "clean":
        log.close()
        return open_log(
            disk, recovery_point=log.recovery_point, high_watermark=log.high_watermark, clean=True
        )
    log.flush()
    crash(disk)
    point = log.recovery_point if how == "unclean" else 0
    return open_log(disk, recovery_point=point, high_watermark=log.high_watermark)


RESTARTS = ["clean", "unclean", "from the start"]


def test_a_retry_gets_the_offsets_it_got_the_first_time_and_writes_nothing(disk, log):
    put(log, b"other")
    put(log, b"a", b"b", producer=(7, 0, 0))
    put(log, b"other")
    size = log.segments.size
    again = put(log, b"a", b"b", producer=(7, 0, 0))
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (1, 2, True)
    assert (log.end_offset, log.segments.size) == (4, size)


def test_gaps_and_old_epochs_are_refused(log):
    put(log, b"a", producer=(7, 1, 0))
    assert refusal(lambda: put(log, b"b", producer=(7, 1, 2))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(lambda: put(log, b"b", producer=(7, 0, 1))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.end_offset == 1


def test_numbered_batches_come_one_at_a_time(log):
    """Otherwise a retry could hide a new batch behind it, and a batch without a producer one that is fenced."""
    first, second = batch(b"a", producer=(7, 1, 0)), batch(b"b", producer=(7, 1, 1))
    for data in (first + second, batch(b"x") + first, first + batch(b"x")):
        assert refusal(lambda data=data: log.append(data, 0, NOW)) is ErrorCode.INVALID_RECORD
    assert log.end_offset == 0
    assert log.append(batch(b"x") + batch(b"y"), 0, NOW).last_offset == 1


@pytest.mark.parametrize("how", RESTARTS)
def test_a_retry_is_recognised_after_a_restart(disk, log, how):
    for n in range(30):
        put(log, b"x" * 50, producer=(7, 0, n))
        if n == 0:
            put(log, b"y" * 50, producer=(8, 3, 0))
    assert len(log.segments) > 2
    reopened = restarted(disk, log, how)
    again = put(reopened, b"x" * 50, producer=(7, 0, 29))
    assert (again.first_offset, again.is_duplicate) == (30, True)
    assert put(reopened, b"y" * 50, producer=(8, 3, 0)).is_duplicate
    assert refusal(lambda: put(reopened, b"x", producer=(7, 0, 31))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert put(reopened, b"x", producer=(7, 0, 30)).first_offset == 31


@pytest.mark.parametrize("how", RESTARTS)
def test_the_last_stable_offset_waits_for_the_oldest_transaction_even_after_a_restart(disk, log, how):
    put(log, b"plain")
    put(log, b"a", producer=(1, 0, 0), is_transactional=True)
    put(log, b"b", producer=(2, 0, 0), is_transactional=True)
    end_txn(log, 2, commit=True)
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == 1
    log = restarted(disk, log, how)
    assert log.last_stable_offset == 1
    end_txn(log, 1, commit=True)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == log.end_offset == 5
    log = restarted(disk, log, how)
    assert log.last_stable_offset == 5, "nothing is open and all is replicated"


def test_the_last_stable_offset_is_never_above_the_high_watermark(log):
    put(log, b"a", producer=(1, 0, 0), is_transactional=True)
    end_txn(log, 1, commit=True)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0, "the marker is not replicated"
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def write_transactions(log: Log) -> list[AbortedTxn]:
    """Three producers over many segments; returns what was aborted."""
    aborted, sequences, first = [], {1: 0, 2: 0, 3: 0}, {}
    for n in range(60):
        pid = n * 7 % 3 + 1
        offset = put(log, b"x" * 60, producer=(pid, 0, sequences[pid]), is_transactional=True).first_offset
        sequences[pid] += 1
        first.setdefault(pid, offset)
        if n % 5 == 4:
            commit = n % 2 == 0
            marker = end_txn(log, pid, commit=commit).last_offset
            start = first.pop(pid)
            if not commit:
                aborted.append(AbortedTxn(pid, start, marker, min(first.values(), default=marker + 1)))
    return aborted


def test_readers_are_told_every_aborted_transaction_in_their_range_and_no_other(log):
    aborted = write_transactions(log)
    assert len(aborted) == 6
    for start in range(log.end_offset):
        for end in range(start + 1, log.end_offset + 1, 3):
            expected = [t for t in aborted if t.last_offset >= start and t.first_offset < end]
            assert log.aborted_txns(start, end) == expected


@pytest.mark.parametrize("how", RESTARTS)
def test_aborted_transactions_are_known_after_a_restart(disk, log, how):
    aborted = write_transactions(log)
    assert restarted(disk, log, how).aborted_txns(0, 10**6) == aborted


def test_the_transaction_index_is_rebuilt_where_a_crash_took_it(disk, log):
    aborted = write_transactions(log)
    log.flush()
    for name in disk.names(HERE):
        if name.endswith((".txnindex", ".snapshot")):
            disk.remove(f"{HERE}/{name}")
    assert open_log(disk).aborted_txns(0, 10**6) == aborted


@pytest.mark.parametrize("cut", [0, 1, 5, 13, 33, 50, 71])
def test_truncation_takes_producers_and_aborts_back_to_what_they_were(disk, log, cut):
    aborted = write_transactions(log)
    log.truncate_to(cut)
    assert log.aborted_txns(0, 10**6) == [t for t in aborted if t.last_offset < cut]
    fresh = open_log(SimDisk())
    again = write_transactions_up_to(fresh, cut)
    assert again.end_offset == log.end_offset
    for pid in (1, 2, 3):
        mine, theirs = log.producers.get(pid), again.producers.get(pid)
        assert (mine and (mine.epoch, mine.last_sequence, mine.txn_first_offset)) == (
            theirs and (theirs.epoch, theirs.last_sequence, theirs.txn_first_offset)
        )


def write_transactions_up_to(log: Log, end_offset: int) -> Log:
    """What a follower has that fetched only so much of the same log."""
    source = open_log(SimDisk())
    write_transactions(source)
    while log.end_offset < end_offset:
        log.append_fetched(source.read(log.end_offset, 0).read(), NOW)
    return log


def test_markers_are_fenced_before_they_are_written(log):
    put(log, b"a", producer=(1, 3, 0), is_transactional=True)
    assert refusal(lambda: end_txn(log, 1, epoch=2, commit=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    end_txn(log, 1, epoch=3, commit=True, coordinator_epoch=5)
    fenced = refusal(lambda: end_txn(log, 1, epoch=3, commit=True, coordinator_epoch=4))
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.end_offset == 2


def test_a_snapshot_that_a_truncation_removed_does_not_come_back_to_speak_for_other_batches(disk):
    """Its offset lies below the end again, but the batches there are not those it saw."""
    for seed in range(30):
        disk = SimDisk()
        log = open_log(disk, config(segment_bytes=1 << 20))
        put(log, b"a", producer=(7, 0, 0))
        log.roll()
        put(log, b"b", producer=(7, 0, 1))
        put(log, b"c", producer=(7, 0, 2))
        log.roll()
        log.flush()
        log.truncate_to(1)
        put(log, b"other", producer=(9, 0, 0))
        put(log, b"other", producer=(9, 0, 1))
        put(log, b"other", producer=(9, 0, 2))
        log.flush()
        crash(disk, seed)
        reopened = open_log(disk, recovery_point=4)
        assert reopened.producers.get(7).last_sequence == 0
        assert reopened.producers.get(9).last_sequence == 2


def test_indexes_that_recovery_wrote_anew_are_synced_with_the_next_flush_even_if_the_log_has_rolled_since():
    """The recovery point lies behind them already; without this a crash would take the aborts below it."""
    for seed in range(20):
        disk = SimDisk()
        log = open_log(disk)
        put(log, b"a", producer=(7, 0, 0), is_transactional=True)
        end_txn(log, 7, commit=False)
        log.flush()
        crash(disk, seed)
        log = open_log(disk, recovery_point=2)
        log.roll()
        put(log, b"b")
        log.close()
        crash(disk, seed)
        reopened = open_log(disk, recovery_point=3, clean=True)
        assert [(t.first_offset, t.last_offset) for t in reopened.aborted_txns(0, 9)] == [(0, 1)]
