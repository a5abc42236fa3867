"""Elections that somebody asks for, and those that give leadership back."""

import pytest

from ottla.controller import brokers, preferred
from ottla.controller.commands import NewTopic
from ottla.controller.decision import LeaderAndIsr
from ottla.controller.preferred import ElectionType
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from tests.unit.controller.helpers import broker, carried_out, cluster, effects, look, present, with_topic

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def moved(context, topic, index, leader, **more):
    """As if somebody else had come to lead."""
    stored = context.topics[topic]
    states = list(stored.image.partitions)
    states[index] = states[index]._replace(leader=leader, **more)
    context.topics[topic] = stored._replace(image=stored.image._replace(partitions=tuple(states)))


def codes(answers):
    return {where: error and error.code for where, error in answers.items()}


@pytest.fixture
def context():
    """Partition 0 is led by another than the preferred broker 0, 1 by broker 0, and in 2 broker 0 is not in sync."""
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={index: [0, 1] for index in range(3)}))
    moved(context, "t", 0, 1)
    moved(context, "t", 2, 1, isr=(1,))
    return context


def test_the_preferred_replica_leads_again_where_it_can(context):
    nope = [TopicPartition("t", 3), TopicPartition("t", -1), TopicPartition("nope", 0)]
    decision, answers = preferred.elect(context, ElectionType.PREFERRED, [T0, T1, T2, *nope, T0])
    carried_out(context, decision)
    assert codes(answers) == {
        T0: None,
        T1: ErrorCode.ELECTION_NOT_NEEDED,
        T2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        **dict.fromkeys(nope, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert look(present(context)) == (0, (0, 1), (), 1)
    assert [(o.broker, len(o.states)) for o in effects(decision, LeaderAndIsr)] == [(0, 1), (1, 1)]


def test_of_all_partitions_those_that_need_nothing_are_not_mentioned(context):
    _, answers = preferred.elect(context, ElectionType.PREFERRED, None)
    assert codes(answers) == {T0: None, T2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_a_preferred_replica_that_is_about_to_stop_is_not_available(context):
    context.shutting_down = {0}
    _, answers = preferred.elect(context, ElectionType.PREFERRED, [T0])
    assert codes(answers) == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_an_unclean_election_takes_who_lives_where_nobody_leads(context):
    carried_out(context, brokers.change(context, [broker(0)]))
    assert present(context, "t", 2).elr == (1,)
    decision, answers = preferred.elect(context, ElectionType.UNCLEAN, [T0, T2])
    carried_out(context, decision)
    assert codes(answers) == {T0: ErrorCode.ELECTION_NOT_NEEDED, T2: None}
    assert look(present(context, "t", 2)) == (0, (0,), (), 2)
    assert present(context, "t", 2).is_recovering


def test_an_unclean_election_needs_somebody_alive(context):
    carried_out(context, brokers.change(context, [broker(7)]))
    _, answers = preferred.elect(context, ElectionType.UNCLEAN, None)
    assert set(codes(answers).values()) == {ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


# --- automatic


def lopsided(astray):
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={index: [0, 1] for index in range(10)}))
    with_topic(context, NewTopic("other", assignments={index: [1, 0] for index in range(10)}))
    for index in range(astray):
        moved(context, "t", index, 1)
    return context


@pytest.mark.parametrize(("astray", "moves"), [(0, 0), (1, 0), (2, 2)])
def test_a_broker_gets_back_what_others_lead_when_that_is_more_than_the_share(astray, moves):
    context = lopsided(astray)
    decision = carried_out(context, preferred.rebalance(context, imbalance_percent=10))
    assert len(decision.writes) == moves
    assert sum(state.leader == 0 for state in context.states()) == (10 - astray + moves)


def test_only_what_it_can_lead_is_given_back():
    context = lopsided(10)
    moved(context, "t", 0, 1, isr=(1,))
    moved(context, "t", 1, 1, adding=(2,))
    moved(context, "t", 2, 1, offline=(0,))
    carried_out(context, preferred.rebalance(context, imbalance_percent=10))
    assert [s.partition for s in context.topics["t"].image.partitions if s.leader == 1] == [0, 1, 2]
    context.shutting_down = {1}
    for index in range(10):
        moved(context, "other", index, 0)
    assert preferred.rebalance(context, imbalance_percent=0).writes == []
