"""What was fetched and not handed out: turns, lives, pauses, and the position that follows."""

import pytest

from ottla.client.consumer.fetched import Decoding, Fetched
from ottla.client.consumer.subscription import Position, Subscription
from ottla.client.consumer.undelivered import Undelivered
from ottla.client.errors import DeserializationError
from ottla.core.ids import TopicPartition
from ottla.records.builder import build
from ottla.records.record import Record

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NUMBERS = Decoding(value=lambda topic, headers, value: int(value))


@pytest.fixture
def subscription():
    subscription = Subscription()
    subscription.assign_manually([A, B])
    for partition in (A, B):
        subscription.state(partition).seek(Position(0))
    return subscription


@pytest.fixture
def undelivered(subscription):
    return Undelivered(subscription)


def put(undelivered, subscription, partition, values, first=0, decoding=NUMBERS):
    records = [Record(first + each, 0, None, value) for each, value in enumerate(values)]
    life = subscription.state(partition).life
    undelivered.add(Fetched(partition, life, first, build(records), decoding))


def collected(undelivered, count=100, only=None):
    found, _ = undelivered.collect(count, only)
    return {key.partition: [record.value for record in records] for key, records in found.items()}


def test_partitions_take_turns_and_positions_follow(undelivered, subscription):
    put(undelivered, subscription, A, [b"1", b"2", b"3"])
    put(undelivered, subscription, A, [b"4"], first=3)
    put(undelivered, subscription, B, [b"5"])
    assert collected(undelivered, 2) == {0: [1, 2]}
    assert subscription.state(A).position.offset == 2
    assert collected(undelivered, 2) == {0: [3], 1: [5]}
    assert collected(undelivered) == {0: [4]}
    assert collected(undelivered) == {}
    assert subscription.positions() == {A: Position(4, -1), B: Position(1, -1)}


def test_there_is_room_for_two_fetches_of_a_partition(undelivered, subscription):
    state = subscription.state(A)
    assert not undelivered.is_full(state) and undelivered.end(state) == Position(0)
    put(undelivered, subscription, A, [b"1", b"2"])
    assert not undelivered.is_full(state) and undelivered.end(state).offset == 2
    put(undelivered, subscription, A, [b"3"], first=2)
    assert undelivered.is_full(state)
    _, is_used_up = undelivered.collect(1)
    assert not is_used_up and undelivered.is_full(state)
    _, is_used_up = undelivered.collect(1)
    assert is_used_up and not undelivered.is_full(state)


def test_a_seek_drops_what_was_fetched(undelivered, subscription):
    put(undelivered, subscription, A, [b"1", b"2"])
    subscription.state(A).seek(Position(7))
    assert not undelivered.is_full(subscription.state(A))
    assert collected(undelivered) == {}
    put(undelivered, subscription, A, [b"8"], first=7)
    subscription.set_assignment([B])
    assert collected(undelivered) == {}


def test_a_pause_keeps_it(undelivered, subscription):
    put(undelivered, subscription, A, [b"1"])
    put(undelivered, subscription, B, [b"2"])
    subscription.state(A).is_paused = True
    assert collected(undelivered) == {1: [2]}
    subscription.state(A).is_paused = False
    assert collected(undelivered) == {0: [1]}


def test_only_some_partitions_may_be_wanted(undelivered, subscription):
    put(undelivered, subscription, A, [b"1"])
    put(undelivered, subscription, B, [b"2"])
    assert collected(undelivered, only={B}) == {1: [2]}


def test_what_comes_before_a_bad_record_is_handed_out_first(undelivered, subscription):
    put(undelivered, subscription, A, [b"1", b"x", b"3"])
    put(undelivered, subscription, B, [b"2"])
    assert collected(undelivered) == {0: [1]}
    for _ in range(2):
        with pytest.raises(DeserializationError, match="offset 1 of t-0"):
            collected(undelivered)
    assert subscription.state(A).position.offset == 1
    subscription.state(A).is_paused = True
    assert collected(undelivered) == {1: [2]}, "others can be read past it"


def test_one_by_one_the_position_follows_when_somebody_asks(undelivered, subscription):
    put(undelivered, subscription, A, [b"1", b"2", b"3"])
    fetched = undelivered.open(2)
    assert [record.value for record in fetched.ready] == [1, 2]
    fetched.ready_index = 1
    assert subscription.state(A).position.offset == 0
    assert not undelivered.settle()
    assert subscription.state(A).position.offset == 1
    assert collected(undelivered, 1) == {0: [2]}
    fetched = undelivered.open(2)
    fetched.ready_index = 1
    assert undelivered.settle(), "that was the last of it"
    assert undelivered.open(2) is None
    assert subscription.state(A).position.offset == 3
