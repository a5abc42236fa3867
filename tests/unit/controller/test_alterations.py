"""A leader asks for another ISR."""

import uuid

import pytest

from ottla.controller import alterations, brokers
from ottla.controller.commands import NewTopic
from ottla.controller.decision import LeaderAndIsr, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import PartitionStateNode
from ottla.metadata.store import Set
from ottla.replication.exchange import BrokerLife, Proposal
from tests.unit.controller.helpers import (
    TOPIC_ID,
    broker,
    carried_out,
    cluster,
    effects,
    look,
    present,
    with_topic,
)

WHERE = TopicPartition("t", 0)


@pytest.fixture
def context():
    """Broker 0 leads, 2 has been away and is back in another life: ISR 01."""
    context = cluster(0, 1, 2, min_insync=2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    carried_out(context, brokers.change(context, [broker(0), broker(1), broker(2, epoch=6)]))
    assert look(present(context)) == (0, (0, 1), (), 0)
    return context


def proposal(*lives, leader_epoch=0, partition_epoch=1, where=WHERE, topic_id=TOPIC_ID):
    isr = tuple(life if isinstance(life, BrokerLife) else BrokerLife(life) for life in lives)
    return Proposal(where, topic_id, leader_epoch, partition_epoch, isr)


def ask(context, *proposals, broker_id=0, broker_epoch=1):
    decision, answers = alterations.alter(context, broker_id, broker_epoch, proposals)
    carried_out(context, decision)
    return decision, answers


def refusal(context, *lives, broker_id=0, **more):
    decision, answers = ask(context, proposal(*lives, **more), broker_id=broker_id)
    (answer,) = answers.values()
    assert isinstance(answer, KafkaError)
    assert not decision.writes
    assert not [effect for effect in decision.effects if not isinstance(effect, LeaderAndIsr)]
    return answer.code


def test_a_follower_that_has_caught_up_joins(context):
    decision, answers = ask(context, proposal(0, 1, BrokerLife(2, 6)))
    assert look(present(context)) == (0, (0, 1, 2), (), 0)
    assert answers == {WHERE: present(context)}
    assert present(context).partition_epoch == 2
    (write,) = decision.writes
    assert write == Set(PartitionStateNode.path("t", 0), PartitionStateNode(0, 0, (0, 1, 2), 5).encode(), 1)


def test_everybody_is_told_by_metadata_and_no_replica_is_disturbed(context):
    decision, _ = ask(context, proposal(0, 1, 2))
    assert [(type(e), e.broker) for e in decision.effects] == [(UpdateMetadata, id) for id in (0, 1, 2)]


def test_who_falls_behind_is_eligible_while_too_few_are_left(context):
    ask(context, proposal(0))
    assert look(present(context)) == (0, (0,), (1,), 0)
    ask(context, proposal(0, 2, partition_epoch=2))
    assert look(present(context)) == (0, (0, 2), (), 0)


def test_the_isr_is_kept_in_the_order_of_the_assignment(context):
    ask(context, proposal(2, 1, 0))
    assert present(context).isr == (0, 1, 2)


def test_a_leader_that_was_elected_unclean_has_recovered_with_its_first_change(context):
    stored = context.topics["t"]
    recovering = present(context)._replace(is_recovering=True)
    context.topics["t"] = stored._replace(image=stored.image._replace(partitions=(recovering,)))
    ask(context, proposal(0, 1, 2))
    assert not present(context).is_recovering


def test_what_is_already_so_is_answered_and_not_written_also_to_who_has_not_heard_of_it(context):
    for epoch in (1, 0):
        decision, answers = ask(context, proposal(1, 0, partition_epoch=epoch))
        assert (decision.writes, decision.effects) == ([], [])
        assert answers == {WHERE: present(context)}


def test_a_proposal_upon_an_older_state_is_refused(context):
    assert refusal(context, 0, 1, 2, partition_epoch=0) is ErrorCode.INVALID_UPDATE_VERSION


def test_a_proposal_of_an_older_leader_epoch_is_refused_before_anything_else_is_asked(context):
    carried_out(context, brokers.change(context, [broker(1), broker(2, epoch=6)]))
    carried_out(context, brokers.change(context, [broker(0, 9), broker(1), broker(2, epoch=6)]))
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        alterations.alter(context, 0, 1, [proposal(0)])
    _, answers = ask(context, proposal(0), broker_epoch=9)
    assert answers[WHERE].code is ErrorCode.FENCED_LEADER_EPOCH


def test_epochs_that_we_do_not_know_are_another_controllers(context):
    assert refusal(context, 0, leader_epoch=1) is ErrorCode.NOT_CONTROLLER
    assert refusal(context, 0, partition_epoch=2) is ErrorCode.NOT_CONTROLLER


def test_who_speaks_of_an_older_state_is_told_the_present_one_or_it_would_wait_for_ever(context):
    ask(context, proposal(0, 1, 2))  # and the leader has not heard the answer
    decision, _ = ask(context, proposal(0))
    assert decision.effects == [LeaderAndIsr(0, (present(context),))]
    late = proposal(1, 0, leader_epoch=-1)
    decision, _ = ask(context, late, broker_id=1)
    assert decision.effects == [LeaderAndIsr(1, (present(context),))]


def test_a_refusal_because_we_have_not_seen_a_life_yet_holds_for_late_copies_too(context):
    counted_in = proposal(0, 1, BrokerLife(2, 9))  # it registered again, as 9, and nobody has told us
    decision, answers = ask(context, counted_in)
    assert answers[WHERE].code is ErrorCode.INELIGIBLE_REPLICA
    assert (look(present(context)), present(context).partition_epoch) == ((0, (0, 1), (), 0), 2)
    assert effects(decision, LeaderAndIsr) == [LeaderAndIsr(0, (present(context),))]
    carried_out(context, brokers.change(context, [broker(0), broker(1), broker(2, epoch=9, previous=6)]))
    _, answers = ask(context, counted_in)
    assert answers[WHERE].code is ErrorCode.INVALID_UPDATE_VERSION, (
        "the leader does not count with 2 any more"
    )


def test_only_the_leader_is_heard(context):
    assert refusal(context, 1, broker_id=1) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("members", [(1,), (), (0, 0), (0, 7)])
def test_an_isr_has_the_leader_and_other_replicas_each_once(context, members):
    assert refusal(context, *members) is ErrorCode.INVALID_REQUEST


def test_who_has_begun_another_life_since_it_was_counted_in_is_refused(context):
    assert refusal(context, 0, 1, BrokerLife(2, 1)) is ErrorCode.INELIGIBLE_REPLICA
    assert refusal(context, 0, 1, BrokerLife(2, 5)) is ErrorCode.INELIGIBLE_REPLICA


def test_who_is_dead_or_stops_or_has_lost_its_disk_is_refused(context):
    context.shutting_down = {2}
    assert refusal(context, 0, 1, 2) is ErrorCode.INELIGIBLE_REPLICA
    context.shutting_down = set()
    carried_out(context, brokers.fail(context, 2, [WHERE]))
    assert refusal(context, 0, 1, 2) is ErrorCode.INELIGIBLE_REPLICA
    carried_out(context, brokers.change(context, [broker(0), broker(1)]))
    assert refusal(context, 0, 1, 2) is ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_that_is_to_stop_lets_others_in(context):
    context.shutting_down = {0}
    _, answers = ask(context, proposal(0, 1, BrokerLife(2, 6)))
    assert answers[WHERE].isr == (0, 1, 2)


def test_unknown_topics_and_partitions_are_told_apart(context):
    elsewhere = TopicPartition("nope", 0)
    assert refusal(context, 0, where=elsewhere) is ErrorCode.UNKNOWN_TOPIC_ID
    assert refusal(context, 0, topic_id=uuid.UUID(int=5)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert refusal(context, 0, where=TopicPartition("t", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(context, 0, where=TopicPartition("t", -1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_is_asked_for_once(context):
    decision, answers = ask(context, proposal(0), proposal(0, 1, 2))
    assert decision.writes == []
    assert answers[WHERE].code is ErrorCode.INVALID_REQUEST


def test_many_partitions_are_one_decision():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={index: [0, 1] for index in range(50)}))
    wanted = [proposal(0, partition_epoch=0, where=TopicPartition("t", i)) for i in range(50)]
    decision, answers = ask(context, *wanted)
    assert len(decision.writes) == len(answers) == 50
    assert len(decision.effects) == 2
    assert all(answers[p] == present(context, "t", p.partition) for p in answers)
