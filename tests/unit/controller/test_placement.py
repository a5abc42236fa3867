"""Replicas around the circle."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import place


def test_replicas_go_around_as_in_kafka():
    # The example in the documentation of Kafka's AdminUtils: 5 brokers, 10 partitions, 3 replicas.
    assert place(range(5), 10, 3, start=0, shift=0) == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


def test_one_broker_gets_everything():
    assert place([7], 3, 1, start=0, shift=0) == [(7,), (7,), (7,)]


def test_more_partitions_go_on_where_the_others_ended():
    whole = place(range(4), 9, 2, start=2, shift=1)
    assert place(range(4), 4, 2, start=2, shift=1) == whole[:4]
    rest = place(range(4), 1, 2, start=2, shift=1, first_partition=5)
    assert rest[0][0] == whole[5][0]


@given(st.integers(1, 8), st.integers(1, 40), st.data())
def test_replicas_are_different_and_leaders_are_spread_evenly(broker_count, count, data):
    factor = data.draw(st.integers(1, broker_count))
    start, shift = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    placed = place(range(10, 10 + broker_count), count, factor, start=start, shift=shift)
    assert len(placed) == count
    assert all(len(set(ids)) == factor for ids in placed)
    leaders = Counter(ids[0] for ids in placed)
    assert max(leaders.values()) - min(leaders[id] for id in range(10, 10 + broker_count)) <= 1
