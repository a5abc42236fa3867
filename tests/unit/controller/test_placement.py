"""Replicas around the circle, with and without racks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import circle, place, racks_of
from ottla.core.errors import KafkaError
from tests.unit.controller.helpers import broker


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


RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_racks_take_turns_as_in_kafka():
    # The example in the documentation of Kafka's AdminUtils: 6 brokers in 3 racks, 7 partitions, 3 replicas.
    assert circle(RACKS, RACKS) == [0, 3, 1, 5, 4, 2]
    assert place(RACKS, 7, 3, start=0, shift=0, racks=RACKS) == [
        (0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2),
    ]  # fmt: skip


def test_a_rack_of_one_broker_gets_a_replica_of_every_partition_that_has_enough():
    placed = place(range(4), 8, 2, start=0, shift=0, racks={0: "a", 1: "b", 2: "b", 3: "b"})
    assert all(0 in ids for ids in placed)


def test_racks_count_only_when_every_broker_has_one():
    all_have = [broker(0)._replace(rack="a"), broker(1)._replace(rack="b")]
    assert racks_of(all_have) == {0: "a", 1: "b"}
    assert racks_of([*all_have, broker(2)]) == {}
    assert racks_of([broker(0), broker(1)], insist=True) == {}, "no racks at all are no mistake"


def test_who_insists_on_racks_is_told_who_has_none():
    with pytest.raises(KafkaError, match="rack information: 2, 7 have none"):
        racks_of([broker(0)._replace(rack="a"), broker(7), broker(2)], insist=True)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 40), st.data())
def test_replicas_lie_in_as_many_racks_as_can_be_and_leaders_are_spread_evenly(in_racks, count, data):
    racks = {id: f"rack{number}" for id, number in enumerate(in_racks)}
    factor = data.draw(st.integers(1, len(racks)))
    start, shift = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    placed = place(racks, count, factor, start=start, shift=shift, racks=racks)
    assert all(len(set(ids)) == factor for ids in placed)
    spread = min(factor, len(set(racks.values())))
    assert all(len({racks[id] for id in ids}) == spread for ids in placed)
    leaders = Counter(ids[0] for ids in placed)
    assert max(leaders.values()) - min(leaders[id] for id in racks) <= 1


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.data())
def test_racks_of_one_size_get_the_same_number_of_replicas_from_whole_rounds(racks_count, size, rounds, data):
    racks = {id: f"rack{id % racks_count}" for id in range(racks_count * size)}
    factor = data.draw(st.integers(1, len(racks)))
    start, shift = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    placed = place(racks, rounds * len(racks), factor, start=start, shift=shift, racks=racks)
    replicas = Counter(id for ids in placed for id in ids)
    assert {replicas[id] for id in racks} == {rounds * factor}


@given(st.integers(1, 8), st.integers(1, 40), st.data())
def test_one_rack_for_all_is_as_good_as_none(broker_count, count, data):
    factor = data.draw(st.integers(1, broker_count))
    how = {"start": data.draw(st.integers(0, 7)), "shift": data.draw(st.integers(0, 7))}
    one_rack = dict.fromkeys(range(broker_count), "here")
    assert place(range(broker_count), count, factor, **how, racks=one_rack) == place(
        range(broker_count), count, factor, **how
    )
