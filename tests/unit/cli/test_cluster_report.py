"""Whether a cluster is healthy is decided by rules, not by asking."""

import json

import pytest

from ottla.cli.cluster_report import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    WORST_MAX,
    Seen,
    faults_of,
    judge,
)
from ottla.cli.cluster_state import Eligible, Move
from ottla.core.ids import TopicPartition
from tests.unit.cli.cluster_states import nodes, partition, snapshot_of


def seen(alive, *partitions, controller="first", **known):
    empty = {"silent": {}, "moves": {}, "min_insync": {}, "eligible": {}}
    return Seen(snapshot_of(alive, *partitions, controller=controller), **{**empty, **known})


@pytest.mark.parametrize(
    ("leader", "isr", "min_insync", "faults"),
    [
        (1, (1, 2, 3), 2, ()),
        (2, (1, 2, 3), 3, ()),
        (1, (1, 2), 2, (UNDER_REPLICATED,)),
        (1, (1,), 2, (UNDER_MIN_ISR, UNDER_REPLICATED)),
        (1, (1,), None, (UNDER_REPLICATED,)),
        (-1, (3,), 1, (OFFLINE, UNDER_REPLICATED)),
        (-1, (1, 2, 3), 1, (OFFLINE,)),
        (1, (1, 2, 3), 5, ()),
    ],
)
def test_a_partition_has_these_faults(leader, isr, min_insync, faults):
    assert faults_of(partition("t", 0, leader, (1, 2, 3), isr), min_insync) == faults


def test_replicas_that_are_on_their_way_are_not_missed():
    moving = partition("t", 0, 1, (3, 4, 1, 2), (1, 2))
    assert faults_of(moving, 1) == (UNDER_REPLICATED,)
    assert faults_of(moving, 1, Move((3, 4, 1, 2), (3, 4), (1, 2))) == ()
    assert faults_of(moving._replace(isr=(1,)), 1, Move((3, 4, 1, 2), (3, 4), (1, 2))) == (UNDER_REPLICATED,)


def test_a_cluster_in_which_all_is_well_is_healthy():
    report = judge(seen(nodes(1, 2), partition("t", 0, 1, (1, 2)), min_insync={"t": 2}, brokers_expected=2))
    assert report.is_healthy
    assert report.document() == {
        "is_healthy": True,
        "problems": [],
        "cluster_id": "cluster",
        "controller": 1,
        "brokers": [1, 2],
        "brokers_expected": 2,
        "brokers_missing": [],
        "brokers_silent": [],
        "partitions": 1,
        "offline": 0,
        "under_min_isr": 0,
        "under_replicated": 0,
        "not_preferred": 0,
        "reassigning": 0,
        "worst": [],
    }


def test_another_leader_than_the_preferred_one_is_counted_and_well():
    report = judge(seen(nodes(1, 2), partition("t", 0, 2, (1, 2))))
    assert report.is_healthy
    assert report.not_preferred == 1


@pytest.mark.parametrize(
    ("heard", "problem"),
    [
        (seen(nodes(1), brokers_expected=3), "1 of 3 brokers are there"),
        (seen(nodes(1), partition("t", 0, 1, (1, 3))), "broker 3 has replicas, but is not alive"),
        (seen(nodes(1), partition("t", 0, 1, (1, 3, 4))), "brokers 3, 4 have replicas, but are not alive"),
        (seen(nodes(1), silent={1: "no answer"}), "broker 1 does not answer: no answer"),
        (seen(nodes(1), controller=None), "there is no controller"),
        (seen(nodes(1), partition("t", 0, -1, (1,))), "1 partition has no leader"),
        (
            seen(nodes(1, 2), partition("t", 0, 1, (1, 2), (1,)), partition("t", 1, 1, (1, 2), (1,))),
            "2 partitions are under-replicated",
        ),
        (
            seen(nodes(1, 2), partition("t", 0, 1, (1, 2), (1,)), min_insync={"t": 2}),
            "1 partition has fewer replicas in sync than acks=all needs",
        ),
    ],
)
def test_what_is_wrong_is_said(heard, problem):
    report = judge(heard)
    assert problem in report.problems
    assert not report.is_healthy
    json.dumps(report.document())


def test_the_worst_partitions_come_first_and_only_a_few_of_them():
    many = [partition("a", number, 1, (1, 2), (1,)) for number in range(20)]
    worse = partition("b", 0, 1, (1, 2, 3), (1,))
    worst = partition("c", 7, -1, (2, 1), (2,))
    may_lead = {TopicPartition("c", 7): Eligible((1,), (2,))}
    report = judge(seen(nodes(1, 2, 3), *many, worse, worst, min_insync={"b": 2}, eligible=may_lead))
    rows = report.worst()
    assert len(rows) == WORST_MAX
    assert [(row["topic"], row["partition"]) for row in rows[:3]] == [("c", 7), ("b", 0), ("a", 0)]
    assert rows[0] == {
        "topic": "c",
        "partition": 7,
        "leader": None,
        "replicas": [2, 1],
        "isr": [2],
        "min_isr": None,
        "elr": [1],
        "last_known_elr": [2],
        "fault": "offline",
        "faults": ["offline", "under_replicated"],
    }


def test_the_summary_names_what_the_document_names():
    report = judge(seen(nodes(1, 2), brokers_expected=3, controller=None))
    told = {row["what"]: row["value"] for row in report.summary()}
    assert (told["state"], told["brokers"], told["controller"]) == ("unhealthy", "2 of 3", None)
    assert set(report.counts()) <= set(told)
