"""Steps of one transactional id, and the records they become."""

import pytest

from ottla.core.ids import TopicPartition
from ottla.protocol.messages.coordinator_records import TransactionLogValue
from ottla.replication.machine import Producer
from ottla.transactions.states import PREDECESSORS, State
from ottla.transactions.transaction import Transaction, by_topic, of_record
from tests.unit.transactions.stage import as_kept, partitions

PARTITIONS = frozenset(partitions("a-0", "a-1", "b-2"))
FULL = Transaction("t", 7, 3, 60_000, State.ONGOING, PARTITIONS, 2000, 1000, 6, 8, 2)


def test_a_record_gives_back_what_was_written():
    entry = as_kept(FULL.to_entry())
    assert of_record(entry.key.transactional_id, entry.value) == FULL


def test_a_record_is_the_one_that_kafka_writes():
    value = FULL.to_entry().value
    assert value == TransactionLogValue(
        producer_id=7,
        previous_producer_id=6,
        next_producer_id=8,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[
            TransactionLogValue.Topic(topic="a", partition_ids=[0, 1]),
            TransactionLogValue.Topic(topic="b", partition_ids=[2]),
        ],
        transaction_last_update_timestamp_ms=2000,
        transaction_start_timestamp_ms=1000,
        client_transaction_version=2,
    )


def test_like_kafkas_only_the_record_of_an_empty_id_has_no_list_of_partitions():
    empty = FULL._replace(state=State.EMPTY, partitions=frozenset())
    assert empty.to_entry().value.transaction_partitions is None
    complete = FULL._replace(state=State.COMPLETE_ABORT, partitions=frozenset())
    assert complete.to_entry().value.transaction_partitions == []


@pytest.mark.parametrize("before", State, ids=lambda state: state.label)
@pytest.mark.parametrize("after", State, ids=lambda state: state.label)
def test_only_steps_of_the_table_can_be_taken(before, after):
    transaction = FULL._replace(state=before)
    if before in PREDECESSORS[after]:
        assert transaction.step(after).state is after
    else:
        with pytest.raises(AssertionError):
            transaction.step(after)


def test_an_epoch_never_goes_back():
    with pytest.raises(AssertionError):
        FULL._replace(state=State.EMPTY).bumped(Producer(7, 2), 1000, 0)
    assert FULL._replace(state=State.EMPTY).bumped(Producer(9, 0), 1000, 0).producer == Producer(9, 0)


def test_every_step_remembers_the_producer_id_before_it():
    prepared = FULL.prepared(True, 2, 8, 3000)
    assert (prepared.producer, prepared.previous_producer_id) == (Producer(7, 4), 7)
    complete = prepared.completed(4000)
    assert (complete.producer, complete.previous_producer_id) == (Producer(8, 0), 7)
    assert complete.next_producer_id == -1
    assert complete.bumped_from == Producer(7, 32766)


def test_what_a_producer_was_before_its_transaction_ended():
    assert FULL.bumped_from is None
    assert FULL.prepared(True, 2, -1, 0).bumped_from == Producer(7, 3)
    assert FULL.prepared(True, 2, -1, 0).completed(0).bumped_from == Producer(7, 3)
    assert FULL.prepared(True, 0, -1, 0).bumped_from is None


def test_topics_and_partitions_are_in_order():
    mixed = [TopicPartition(*each) for each in [("b", 1), ("a", 10), ("a", 2)]]
    assert list(by_topic(mixed).items()) == [("a", [2, 10]), ("b", [1])]
