"""A broker is about to stop, and what it leads moves before it does."""

import pytest

from ottla.controller import brokers, shutdown
from ottla.controller.commands import NewTopic
from ottla.controller.decision import LeaderAndIsr, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from tests.unit.controller.helpers import broker, carried_out, cluster, effects, look, present, with_topic


def prepared(context, broker_id, epoch=1):
    decision, remaining = shutdown.prepare(context, broker_id, epoch)
    return carried_out(context, decision), remaining


def test_leadership_moves_to_others_in_sync_in_one_decision():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={index: [0, 1, 2] for index in range(20)}))
    decision, remaining = prepared(context, 0)
    assert remaining == []
    assert {look(state) for state in context.states()} == {(1, (1, 2), (), 1)}
    assert [order.broker for order in effects(decision, LeaderAndIsr)] == [0, 1, 2]
    assert len(effects(decision, UpdateMetadata)) == 3
    assert context.shutting_down == {0}


def test_a_follower_leaves_the_isr_without_an_election():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    prepared(context, 1)
    assert look(present(context)) == (0, (0,), (), 0)


def test_who_leaves_too_few_behind_is_eligible_and_stays_so_when_it_stops_cleanly():
    context = cluster(0, 1, min_insync=2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    prepared(context, 0)
    assert look(present(context)) == (1, (1,), (0,), 1)
    carried_out(context, brokers.change(context, [broker(1)]))
    carried_out(context, brokers.change(context, [broker(0, 2, previous=1), broker(1)]))
    assert look(present(context)) == (1, (1,), (0,), 1)
    assert context.shutting_down == set()


def test_the_last_in_sync_stays_and_goes_on_leading():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    carried_out(context, brokers.change(context, [broker(0)]))
    carried_out(context, brokers.change(context, [broker(0), broker(1, 2)]))
    decision, remaining = prepared(context, 0)
    assert remaining == [TopicPartition("t", 0)]
    assert decision.writes == []
    assert look(present(context)) == (0, (0,), (), 0)


def test_a_partition_that_cannot_move_is_not_waited_for():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0]}))
    assert prepared(context, 0)[1] == []
    assert present(context).leader == 0


def test_nobody_else_that_is_about_to_stop_takes_over():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    prepared(context, 1)
    prepared(context, 0)
    assert look(present(context)) == (2, (2,), (), 1)
    assert prepared(context, 2)[1] == [], "and nobody waits for those who are about to stop as well"
    assert look(present(context)) == (2, (2,), (), 1)


def test_who_is_down_is_not_waited_for():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    carried_out(context, brokers.change(context, [broker(0)]))
    assert prepared(context, 0)[1] == []


def test_asking_again_changes_nothing_more():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    prepared(context, 0)
    decision, remaining = prepared(context, 0)
    assert (decision.writes, decision.changes, decision.effects, remaining) == ([], [], [], [])


@pytest.mark.parametrize(("broker_id", "epoch"), [(0, 7), (9, 1)])
def test_a_life_that_is_over_has_nothing_to_prepare(broker_id, epoch):
    with pytest.raises(KafkaError) as refusal:
        shutdown.prepare(cluster(0), broker_id, epoch)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH
