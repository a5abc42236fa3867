"""A log that is a list keeps the promises of one on the disk, and forgets as a disk forgets."""

import random

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.simulation.cluster.object_log import Config, Kind, ObjectLog, Record


def log_of(*values: str, epoch: int = 0, **settings) -> ObjectLog:
    log = ObjectLog(Config(), **settings)
    for value in values:
        log.append(Record(value), epoch, 0)
    return log


def values(log: ObjectLog) -> list[str]:
    return [record.value for record in log.records]


def test_records_get_the_next_offsets_and_the_epoch_of_their_leader():
    log = log_of("a", "b")
    assert log.append(Record("c"), 3, 0).first_offset == 2
    assert [(r.offset, r.epoch) for r in log.records] == [(0, 0), (1, 0), (2, 3)]
    assert log.epochs.latest == 3
    assert log.epochs.end_of(0, log.end_offset).end_offset == 2


def test_a_follower_keeps_offsets_and_epochs_and_takes_only_what_follows():
    leader, follower = log_of("a", "b", epoch=4), log_of()
    follower.append_fetched(leader.slice(0, leader.end_offset, 10), 0)
    assert follower.records == leader.records
    with pytest.raises(KafkaError):
        follower.append_fetched(leader.slice(0, leader.end_offset, 10), 0)


def test_a_batch_that_is_repeated_is_found_and_a_gap_is_refused():
    log = log_of()
    for sequence in range(7):
        log.append(Record(f"v{sequence}", 1, 0, sequence), 0, 0)
    again = log.append(Record("v3", 1, 0, 3), 0, 0)
    assert again.is_duplicate and again.first_offset == 3
    with pytest.raises(KafkaError) as gap:
        log.append(Record("v9", 1, 0, 9), 0, 0)
    with pytest.raises(KafkaError) as old:
        log.append(Record("v1", 1, 0, 1), 0, 0)
    assert gap.value.code == old.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_truncated_was_never_there():
    log = log_of("a", "b", epoch=0)
    log.append(Record("c", 1, 0, 0), 2, 0)
    log.truncate_to(2)
    assert (values(log), log.epochs.latest) == (["a", "b"], 0)
    assert not log.append(Record("c", 1, 0, 0), 3, 0).is_duplicate
    assert log.shortest <= 2, "whoever compares looks from here on again"


def test_an_open_transaction_holds_the_last_stable_offset_until_its_end_is_committed():
    log = log_of("a")
    log.append(Record("b", 1, 0, 0, Kind.IN_TRANSACTION), 0, 0)
    log.append(Record("c"), 0, 0)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    log.append(Record("", 1, 1, -1, Kind.ABORT), 0, 0)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    assert [(each.first_offset, each.last_offset) for each in log.aborted] == [(1, 3)]
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        log.append(Record("late", 1, 0, 1, Kind.IN_TRANSACTION), 0, 0)


def test_a_kill_keeps_everything_and_the_watermark_that_was_written():
    log = log_of("a", "b", "c")
    log.advance_high_watermark(2)
    log.write_checkpoint()
    log.advance_high_watermark(3)
    again = log.reopen()
    assert (values(again), again.high_watermark) == (["a", "b", "c"], 2)


def test_a_power_loss_keeps_what_was_flushed_and_some_of_the_rest():
    lengths = set()
    for seed in range(40):
        log = log_of("a", "b")
        log.flush()
        log.append(Record("c"), 1, 0)
        log.append(Record("d"), 2, 0)
        lost = log.lose_power(random.Random(seed))
        assert values(log) == ["a", "b", "c", "d"][: 4 - lost]
        assert log.epochs.latest == (0, 1, 2)[log.end_offset - 2]
        lengths.add(log.end_offset)
    assert lengths == {2, 3, 4}


def test_with_flush_before_acknowledgement_nothing_is_lost():
    log = log_of("a", "b", flushes_before_ack=True)
    assert log.recovery_point == 2
    assert log.lose_power(random.Random(1)) == 0
