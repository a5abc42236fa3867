"""Topics are spread evenly, over racks, and with few moves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.cluster_spread import spread
from ottla.cli.remote import Failed
from ottla.core.ids import TopicPartition
from tests.unit.cli.cluster_states import nodes


def around(topic, count, brokers, factor):
    """As Kafka would place a new topic."""
    return {
        TopicPartition(topic, number): tuple(brokers[(number + k) % len(brokers)] for k in range(factor))
        for number in range(count)
    }


def loads(found):
    return Counter(id for replicas in found.values() for id in replicas)


def copies(now, found):
    return sum(len(set(found[place]) - set(now[place])) for place in found)


def test_what_is_even_already_stays():
    now = around("a", 12, [1, 2, 3], 2)
    assert spread(now, {"a"}, nodes(1, 2, 3), [1, 2, 3]) == now


def test_a_new_broker_gets_its_share_and_no_more_is_copied():
    now = around("a", 12, [1, 2, 3], 2)
    found = spread(now, {"a"}, nodes(1, 2, 3, 4), [1, 2, 3, 4])
    assert loads(found) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert copies(now, found) == 6
    assert Counter(replicas[0] for replicas in found.values()).most_common()[0][1] <= 4


def test_many_small_topics_are_spread_as_one():
    now = {TopicPartition(f"t{n}", 0): (n % 3 + 1, (n + 1) % 3 + 1) for n in range(12)}
    found = spread(now, {place.topic for place in now}, nodes(1, 2, 3, 4), [1, 2, 3, 4])
    assert loads(found) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert copies(now, found) == 6


def test_brokers_that_are_not_named_lose_everything():
    now = around("a", 6, [1, 2, 3], 2)
    found = spread(now, {"a"}, nodes(1, 2, 3), [1, 2])
    assert loads(found) == {1: 6, 2: 6}


def test_other_topics_stay_and_count():
    now = {**around("a", 2, [1], 1), **around("b", 4, [1], 1)}
    found = spread(now, {"a"}, nodes(1, 2), [1, 2])
    assert found.keys() == around("a", 2, [1], 1).keys()
    assert loads(found) == {1: 1, 2: 1} or loads(found) == {2: 2}


def test_a_partition_has_replicas_in_as_many_racks_as_can_be():
    racked = nodes(1, 2, 3, 4, rack=lambda id: "xxyy"[id - 1])
    now = around("a", 4, [1, 2], 2)  # all of them in one rack
    found = spread(now, {"a"}, racked, [1, 2, 3, 4])
    assert all(len({racked[id].rack for id in replicas}) == 2 for replicas in found.values())
    assert loads(found) == {1: 2, 2: 2, 3: 2, 4: 2}


def test_too_few_brokers_for_the_replicas_are_refused():
    with pytest.raises(Failed, match="a:0 has 3 replicas: name at least so many brokers"):
        spread(around("a", 1, [1, 2, 3], 3), {"a"}, nodes(1, 2, 3), [1, 2])


@st.composite
def clusters(draw):
    count = draw(st.integers(1, 7))
    rack_of = draw(st.none() | st.lists(st.sampled_from("xyz"), min_size=count, max_size=count))
    alive = nodes(*range(count), rack=None if rack_of is None else lambda id: rack_of[id])
    now = {}
    for topic in "abc"[: draw(st.integers(1, 3))]:
        for number in range(draw(st.integers(1, 9))):
            ids = draw(st.permutations(range(count)))
            now[TopicPartition(topic, number)] = tuple(ids[: draw(st.integers(1, count))])
    largest = max(map(len, now.values()))
    onto = draw(st.permutations(range(count)))[: draw(st.integers(largest, count))]
    return alive, now, onto


@given(clusters())
def test_every_spread_keeps_the_factor_and_is_even_and_has_its_racks(case):
    alive, now, onto = case
    found = spread(now, {place.topic for place in now}, alive, onto)
    assert found.keys() == now.keys()
    for place, replicas in found.items():
        assert len(set(replicas)) == len(replicas) == len(now[place])
        assert set(replicas) <= set(onto)
        racks = {alive[id].rack for id in onto}
        if None not in racks:
            assert len({alive[id].rack for id in replicas}) == min(len(replicas), len(racks))
    if all(node.rack is None for node in alive.values()):
        for topic in {place.topic for place in now}:
            load = loads({place: each for place, each in found.items() if place.topic == topic})
            assert max(load[id] for id in onto) - min(load[id] for id in onto) <= 1
