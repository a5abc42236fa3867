"""Plans are read from files and worked out, with sentences for what cannot be."""

import json

import click
import pytest

from ottla.cli.cluster_plan import Planned, changes, current, drained, racks_of, read, written
from ottla.cli.cluster_state import Move
from ottla.cli.remote import Failed
from ottla.core.ids import TopicPartition
from tests.unit.cli.cluster_states import nodes, partition, snapshot_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ROW = {"topic": "a", "partition": 0, "replicas": [1, 2]}


def test_a_plan_is_read_as_it_was_written():
    plan = {B0: (3,), A0: (1, 2)}
    document = written(plan)
    assert document["partitions"][0] == ROW
    assert read(json.dumps(document), "plan.json") == plan
    assert read(json.dumps({"plan": document, "partitions": [{"now": []}]}), "stdin") == plan


def test_directories_may_be_any():
    text = json.dumps({"version": 1, "partitions": [{**ROW, "log_dirs": ["any", "any"]}]})
    assert read(text, "x") == {A0: (1, 2)}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("{", "x is not JSON: Expecting property name"),
        ("[]", 'x is no plan: it must look like {"version": 1, "partitions": [{"topic": "orders"'),
        ({"partitions": {}}, "x is no plan"),
        ({"version": 2, "partitions": []}, "x has version 2; only 1 is known"),
        ({"partitions": [7]}, "x: partitions[0] is no object"),
        (
            {"partitions": [ROW, {**ROW, "topic": "a b"}]},
            "x: partitions[1]: topic must be the name of one, not 'a b'",
        ),
        ({"partitions": [{**ROW, "partition": -1}]}, "partition must be a number from 0, not -1"),
        ({"partitions": [{**ROW, "partition": True}]}, "partition must be a number from 0, not True"),
        ({"partitions": [{**ROW, "replicas": []}]}, "replicas must be a list of broker ids, not []"),
        ({"partitions": [{**ROW, "replicas": ["1"]}]}, "replicas must be a list of broker ids, not ['1']"),
        ({"partitions": [{**ROW, "replicas": [1, 1]}]}, "a broker is named twice in 1,1"),
        ({"partitions": [ROW, ROW]}, "x: a:0 is there twice"),
        ({"partitions": [{**ROW, "log_dirs": ["/data"]}]}, 'log_dirs can only be "any"'),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(document, sentence):
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(click.UsageError) as caught:
        read(text, "x")
    assert sentence in caught.value.message


def test_only_what_is_new_is_a_change():
    seen = snapshot_of(nodes(1, 2, 3), partition("a", 0, 1, (1, 2)), partition("a", 1, 1, (1, 2)))
    (planned,) = changes(seen, {}, {A0: (1, 2), A1: (2, 3)})
    assert planned == Planned(A1, (1, 2), (2, 3))
    assert (planned.adds, planned.removes) == ((3,), (1,))
    assert changes(seen, {}, {A0: (2, 1)}) == [Planned(A0, (1, 2), (2, 1))], "who is preferred is a change"


def test_a_partition_on_the_move_is_where_it_goes():
    seen = snapshot_of(nodes(1, 2, 3), partition("a", 0, 1, (3, 2, 1)))
    moves = {A0: Move((3, 2, 1), (3,), (1,))}
    assert current(seen, moves) == {A0: (3, 2)}
    assert changes(seen, moves, {A0: (3, 2)}) == [Planned(A0, (2, 1), (3, 2))], "it is not there yet"
    assert changes(seen, moves, {A0: (2, 1)}) == [Planned(A0, (2, 1), (2, 1))], "it is about to leave"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({B0: (1,)}, "there is no topic 'b'"),
        ({A1: (1,)}, "a has no partition 1: they are numbered 0 to 0"),
        ({A0: (1, 7, 8)}, "brokers 7, 8 are not alive; alive are: 1, 2"),
    ],
)
def test_what_does_not_exist_is_not_found(wanted, sentence):
    seen = snapshot_of(nodes(1, 2), partition("a", 0, 1, (1, 9)))
    with pytest.raises(Failed) as caught:
        changes(seen, {}, wanted)
    assert (caught.value.message, caught.value.exit_code) == (sentence, 4)


def test_a_replica_that_stays_may_be_dead():
    seen = snapshot_of(nodes(1, 2), partition("a", 0, 1, (1, 9)))
    assert changes(seen, {}, {A0: (2, 9)}) == [Planned(A0, (1, 9), (2, 9))]


# --- draining ---------------------------------------------------------------------------------------------------------


def test_a_drained_broker_is_replaced_where_it_was_by_who_has_least():
    now = {A0: (1, 2), A1: (2, 3), B0: (1, 4)}
    found = drained(now, {"a", "b"}, nodes(1, 2, 3, 4), 2, [1, 3, 4])
    assert found == {A0: (1, 3), A1: (4, 3)}


def test_only_the_topics_that_are_named_are_drained():
    assert drained({A0: (1,), B0: (1,)}, {"b"}, nodes(1, 2), 1, [2]) == {B0: (2,)}


def test_a_broker_that_is_dead_can_be_drained_if_it_has_replicas():
    assert drained({A0: (9, 1)}, {"a"}, nodes(1, 2), 9, [1, 2]) == {A0: (2, 1)}
    with pytest.raises(Failed, match="there is no broker 8, nor has it replicas; alive are: 1, 2"):
        drained({A0: (9, 1)}, {"a"}, nodes(1, 2), 8, [1, 2])


def test_who_takes_over_comes_from_a_rack_that_has_none():
    racked = nodes(1, 2, 3, 4, 5, rack=lambda id: "xxyyz"[id - 1])
    now = {A0: (1, 3), **{TopicPartition("b", number): (5,) for number in range(9)}}
    assert drained(now, {"a"}, racked, 3, [2, 4, 5]) == {A0: (1, 4)}
    assert drained(now, {"a"}, racked, 3, [2, 5]) == {A0: (1, 5)}, "a rack counts more than the load"


def test_who_leads_least_leads_what_a_drained_broker_led():
    now = {A0: (1, 2, 3), A1: (2, 3, 1), B0: (2, 1, 3)}
    assert drained(now, {"a"}, nodes(1, 2, 3, 4), 1, [2, 3, 4]) == {A0: (4, 2, 3), A1: (2, 3, 4)}
    many = {TopicPartition("a", number): (1, 2) for number in range(4)}
    firsts = [replicas[0] for replicas in drained(many, {"a"}, nodes(1, 2, 3), 1, [2, 3]).values()]
    assert sorted(firsts) == [2, 2, 3, 3]


def test_where_nobody_can_take_over_that_is_said():
    with pytest.raises(Failed) as caught:
        drained({A0: (1, 2)}, {"a"}, nodes(1, 2), 1, [2])
    assert caught.value.message.startswith("nobody can take a:0 over: broker 2 cannot have it twice")


def test_racks_count_only_if_all_have_one():
    assert racks_of(nodes(1, 2, rack="a").values()) == {1: "a", 2: "a"}
    assert racks_of([*nodes(1, rack="a").values(), *nodes(2).values()]) == {}
