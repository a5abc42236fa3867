"""Who may write next, what is a retry, which transactions are open."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.producers import Marker, Producers, Stamp, WrittenBatch, sequence_after, sequence_before
from ottla.storage.txn_index import AbortedTxn

PID, LAST = 7, 2**31 - 1


def stamp(
    sequence: int, offset: int, *, count: int = 1, epoch: int = 0, pid: int = PID, txn: bool = False
) -> Stamp:
    last = sequence_after(sequence, count - 1)
    return Stamp(pid, epoch, sequence, last, offset, offset + count - 1, 1000 + offset, txn)


def marker(
    offset: int, *, commit: bool, epoch: int = 0, pid: int = PID, coordinator_epoch: int = 0
) -> Marker:
    return Marker(pid, epoch, commit, coordinator_epoch, offset, 1000 + offset)


def producers(*written: Stamp) -> Producers:
    made = Producers()
    for each in written:
        assert made.check(each) is None
        made.apply(each)
    return made


def refusal(made: Producers, asked: Stamp | Marker) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        if isinstance(asked, Stamp):
            made.check(asked)
        else:
            made.check_marker(asked)
    return caught.value.code


def test_a_producer_nobody_knows_may_begin_with_any_sequence():
    assert producers().check(stamp(12345, 0)) is None


def test_the_next_sequence_is_expected_and_a_gap_refused():
    made = producers(stamp(0, 0, count=3))
    assert made.check(stamp(3, 3)) is None
    assert refusal(made, stamp(4, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(made, stamp(1, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_checking_changes_nothing():
    made = producers(stamp(0, 0))
    for _ in range(3):
        assert made.check(stamp(1, 1)) is None
    assert made.get(PID).last_sequence == 0


def test_the_last_five_batches_are_recognised_with_their_offsets_and_the_sixth_is_not():
    made = producers(*(stamp(2 * n, 100 + 10 * n, count=2) for n in range(7)))
    for n in range(2, 7):
        repeated = made.check(stamp(2 * n, 999, count=2))
        assert (repeated.first_offset, repeated.last_offset) == (100 + 10 * n, 101 + 10 * n)
    for n in range(2):
        assert refusal(made, stamp(2 * n, 999, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_with_the_same_first_but_another_last_sequence_is_no_retry():
    made = producers(stamp(0, 0, count=2))
    assert refusal(made, stamp(0, 2, count=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_lower_epoch_is_refused_even_for_a_retry():
    made = producers(stamp(0, 0, epoch=3), stamp(0, 1, epoch=4))
    assert refusal(made, stamp(0, 2, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches():
    made = producers(stamp(5, 0, epoch=1))
    assert refusal(made, stamp(6, 1, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    made.apply(stamp(0, 1, epoch=2))
    assert refusal(made, stamp(5, 2, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert made.check(stamp(1, 2, epoch=2)) is None


def test_sequences_wrap_to_zero_between_and_within_batches():
    made = producers(stamp(LAST, 0), stamp(0, 1))
    assert made.check(stamp(1, 2)) is None
    within = producers(stamp(LAST - 1, 0, count=4))
    assert within.get(PID).last_sequence == 1
    assert within.check(stamp(2, 4)) is None
    repeated = within.check(stamp(LAST - 1, 99, count=4))
    assert (repeated.first_offset, repeated.last_offset) == (0, 3)
    assert refusal(within, stamp(LAST, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_arithmetic_goes_round():
    assert (sequence_after(LAST, 1), sequence_after(LAST - 2, 5)) == (0, 2)
    assert (sequence_before(0, 1), sequence_before(2, 5), sequence_before(-1, 3)) == (LAST, LAST - 2, -1)
    assert WrittenBatch(1, 10, 3, 0).first_sequence == LAST - 1


def test_an_open_transaction_holds_back_what_is_stable_until_its_end_is_replicated():
    made = producers(stamp(0, 10, txn=True), stamp(1, 12, txn=True))
    assert made.first_unstable_offset == 10
    assert made.apply_marker(marker(15, commit=True)) is None
    assert made.first_unstable_offset == 10, "the marker is not replicated yet"
    made.replicated(15)
    assert made.first_unstable_offset == 10
    made.replicated(16)
    assert made.first_unstable_offset is None


def test_the_oldest_of_several_transactions_counts():
    made = producers(
        stamp(0, 10, pid=1, txn=True), stamp(0, 20, pid=2, txn=True), stamp(0, 30, pid=3, txn=True)
    )
    made.apply_marker(marker(40, pid=1, commit=True))
    made.apply_marker(marker(41, pid=3, commit=True))
    assert made.first_unstable_offset == 10
    made.replicated(41)
    assert made.first_unstable_offset == 20
    made.apply_marker(marker(50, pid=2, commit=True))
    made.replicated(100)
    assert made.first_unstable_offset is None


def test_an_abort_names_its_range_and_what_was_stable_then():
    made = producers(stamp(0, 10, pid=1, txn=True), stamp(0, 20, pid=2, txn=True))
    assert made.apply_marker(marker(30, pid=2, commit=False)) == AbortedTxn(2, 20, 30, 10)
    assert made.apply_marker(marker(31, pid=1, commit=False)) == AbortedTxn(1, 10, 31, 32)


def test_a_marker_without_records_moves_nothing():
    made = producers()
    assert made.apply_marker(marker(5, commit=False)) is None
    assert made.first_unstable_offset is None


def test_after_its_end_a_producer_may_begin_another_transaction():
    made = producers(stamp(0, 10, txn=True))
    made.apply_marker(marker(11, commit=True))
    made.replicated(12)
    made.apply(stamp(1, 20, txn=True))
    assert made.first_unstable_offset == 20


def test_a_write_outside_the_open_transaction_is_refused():
    made = producers(stamp(0, 10, txn=True))
    assert refusal(made, stamp(1, 11)) is ErrorCode.INVALID_TXN_STATE
    assert made.check(stamp(1, 11, txn=True)) is None


def test_markers_are_fenced_by_producer_and_coordinator_epoch():
    made = producers(stamp(0, 10, epoch=3, txn=True))
    assert refusal(made, marker(11, commit=True, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    made.apply_marker(marker(11, commit=True, epoch=3, coordinator_epoch=5))
    assert (
        refusal(made, marker(12, commit=True, epoch=3, coordinator_epoch=4))
        is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    made.check_marker(marker(12, commit=True, epoch=3, coordinator_epoch=5))
    made.check_marker(marker(12, commit=True, epoch=4, coordinator_epoch=6))
    producers().check_marker(marker(0, commit=True))


def test_a_marker_with_a_newer_epoch_fences_the_producer_that_wrote():
    made = producers(stamp(0, 10, epoch=3, txn=True))
    made.apply_marker(marker(11, commit=False, epoch=4))
    assert refusal(made, stamp(1, 12, epoch=3, txn=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(made, stamp(1, 12, epoch=4, txn=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert made.check(stamp(0, 12, epoch=4, txn=True)) is None


def test_silent_producers_expire_but_not_in_the_middle_of_a_transaction():
    made = producers(stamp(0, 0, pid=1), stamp(0, 1, pid=2, txn=True), stamp(0, 500, pid=3))
    assert made.expire(1499, 500) == []
    assert made.expire(1501, 500) == [1]
    assert (made.get(1), len(made)) == (None, 2)
    assert made.check(stamp(99, 600, pid=1)) is None


def test_transactions_that_ended_before_the_log_start_are_settled():
    made = producers(stamp(0, 10, txn=True))
    made.apply_marker(marker(11, commit=True))
    made.forget_below(12)
    assert made.first_unstable_offset is None


def test_restoring_replaces_everything_and_sorts_open_transactions():
    early, late = producers(stamp(0, 10, pid=9, txn=True)), producers(stamp(0, 30, pid=1, txn=True))
    made = producers(stamp(0, 1, pid=5, txn=True))
    made.restore([*late.all(), *early.all()])
    assert (made.first_unstable_offset, made.get(5)) == (10, None)
    made.apply_marker(marker(40, pid=9, commit=True))
    made.replicated(41)
    assert made.first_unstable_offset == 30
