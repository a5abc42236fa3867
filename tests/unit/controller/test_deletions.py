"""Replicas that brokers have lost: nobody waits for who is down, and nothing survives."""

import uuid

import pytest

from ottla.controller import deletions, topics
from ottla.controller.commands import NewTopic
from ottla.controller.context import StoredTopic
from ottla.controller.decision import Decision, LeaderAndIsr, StopReplicas
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import DeletedReplicasNode
from ottla.metadata.store import Create, Delete, Set
from ottla.replication.state import TopicImage
from tests.unit.controller.helpers import (
    TOPIC_ID,
    broker,
    carried_out,
    cluster,
    effects,
    present,
    state,
    with_topic,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NODES = {"t": ["/brokers/topics/t"]}
IMAGE = TopicImage("t", TOPIC_ID, ())
PATH = DeletedReplicasNode.path(1, TOPIC_ID)


def doomed(*answering: int, live=(0, 1)):
    """A cluster with a topic on brokers 0 and 1 that is doomed, of which some have answered."""
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1], 1: [0, 1]}))
    context.brokers = {id: broker(id) for id in live}
    carried_out(context, topics.doom(context, ["t"])[0])
    for id in answering:
        carried_out(context, deletions.confirm(context, id, [T0, T1]))
    return context


def confirm(context, id, *partitions):
    return carried_out(context, deletions.confirm(context, id, partitions))


def test_who_has_answered_is_not_put_on_the_list():
    context = doomed(0, 1)
    decision = carried_out(context, topics.bury(context, NODES))
    assert decision.writes == [Delete("/brokers/topics/t"), Delete("/admin/delete_topics/t")]
    assert not effects(decision, StopReplicas)
    assert (context.deletions, context.deleted) == ({}, {0: frozenset(), 1: frozenset()})


def test_who_is_down_is_put_on_the_list_before_the_topic_goes_and_the_name_is_free_at_once():
    context = doomed(0, live=[0])
    decision = carried_out(context, topics.bury(context, NODES))
    assert decision.writes == [
        Create(PATH, DeletedReplicasNode("t", (0, 1)).encode()),
        Delete("/brokers/topics/t"),
        Delete("/admin/delete_topics/t"),
    ]
    assert not effects(decision, StopReplicas)
    with_topic(context, NewTopic("t"))
    assert (1, TOPIC_ID) in context.deletions


def test_who_lives_and_has_not_answered_is_on_the_list_and_told_again():
    context = doomed(0)
    decision = carried_out(context, topics.bury(context, NODES))
    assert effects(decision, StopReplicas) == [StopReplicas(1, {T0: True, T1: True})]
    assert list(context.deletions) == [(1, TOPIC_ID)]
    assert confirm(context, 1, T0).writes == [Set(PATH, DeletedReplicasNode("t", (1,)).encode(), 0)]
    assert confirm(context, 1, T1).writes == [Delete(PATH, 1)]
    assert context.deletions == {}
    assert confirm(context, 1, T1) == Decision(), "an answer too many"


def test_a_burial_that_was_cut_short_is_finished_with_the_list_that_there_is():
    context = doomed(0, live=[0])
    carried_out(context, deletions.enlist(context, IMAGE, {1: [0, 1]}))
    decision = topics.bury(context, NODES)
    assert [type(write) for write in decision.writes] == [Delete, Delete]


def test_a_burial_of_which_only_the_mark_was_left_is_finished():
    context = cluster(0)
    context.doomed["t"] = None
    assert topics.bury(context, {"t": []}).writes == [Delete("/admin/delete_topics/t")]


def test_a_partition_that_nobody_ever_led_is_on_nobodys_list():
    context = doomed(live=[0])
    stored = context.doomed["t"]
    bare = tuple(state._replace(partition_epoch=-1) for state in stored.image.partitions)
    context.doomed["t"] = stored._replace(image=stored.image._replace(partitions=bare))
    carried_out(context, topics.bury(context, NODES))
    assert context.deletions == {}


def on_broker_1_and_2(topic_id: uuid.UUID) -> TopicImage:
    led = state(1, "12", "12", topic_id=topic_id)
    return TopicImage("t", topic_id, tuple(led._replace(partition=index) for index in range(6)))


def owing(*partitions: int, topic_id: uuid.UUID = TOPIC_ID):
    """A cluster in which broker 1 has lost these partitions, and their topic is gone."""
    context = cluster(0, 1, 2)
    lose(context, on_broker_1_and_2(topic_id), {1: partitions})
    return context


def lose(context, image: TopicImage, lost):
    context.doomed["t"] = StoredTopic(image, 0)
    decision = carried_out(context, deletions.enlist(context, image, lost))
    del context.doomed["t"]
    return decision


def remind(context, *ids, born=False):
    return carried_out(context, deletions.remind(context, ids, born=born))


def test_brokers_that_live_are_told_what_they_owe():
    context = owing(0, 3)
    assert remind(context, 0, 2) == Decision()
    decision = remind(context, 1, 7)
    assert decision.effects == [StopReplicas(1, {T0: True, TopicPartition("t", 3): True})]
    assert decision.writes == [], "until it has answered"


def test_a_name_that_is_taken_again_is_not_told_and_who_has_just_started_is_believed():
    context = owing(0, topic_id=uuid.UUID(int=7))
    with_topic(context, NewTopic("t", assignments={0: [1]}))
    assert remind(context, 1) == Decision(), "it would delete the new topic's"
    decision = remind(context, 1, born=True)
    assert (decision.effects, context.deletions) == ([], {})


def test_a_replica_that_is_assigned_is_not_deleted_whatever_the_list_says():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [1], 1: [1]}))
    image = context.topics["t"].image
    carried_out(context, deletions.enlist(context, image, {1: [0, 1]}))
    elsewhere = image.partitions[1]._replace(replicas=(0,), isr=(0,), leader=0)
    context.topics["t"] = StoredTopic(image._replace(partitions=(image.partitions[0], elsewhere)), 1)
    decision = remind(context, 1)
    assert decision.effects == [StopReplicas(1, {T1: True})]
    assert context.deletions[1, image.topic_id].partitions == (1,)


def test_what_is_lost_later_joins_what_is_owed_already():
    context = owing(0, 3)
    decision = lose(context, on_broker_1_and_2(TOPIC_ID), {1: [5], 2: [5]})
    assert [type(write) for write in decision.writes] == [Set, Create]
    assert context.deletions[1, TOPIC_ID] == ("t", (0, 3, 5), 1)
    assert context.deletions[2, TOPIC_ID] == ("t", (5,), 0)


def test_the_answer_of_a_broker_that_has_died_since_leaves_it_on_the_list():
    context = owing(0, 3)
    del context.brokers[1]
    assert confirm(context, 1, T0) == Decision()
    assert context.deletions[1, TOPIC_ID].partitions == (0, 3)


def test_nobody_loses_what_it_never_had():
    context = owing(0)
    with pytest.raises(AssertionError, match="from NonExistentReplica to OfflineReplica"):
        lose(context, on_broker_1_and_2(TOPIC_ID), {0: [0]})


def test_nobody_gets_off_the_list_while_it_is_down():
    context = owing(0)
    del context.brokers[1]
    with pytest.raises(AssertionError, match="from ReplicaDeletionIneligible to ReplicaDeletionSuccessful"):
        deletions.strike(context, (1, TOPIC_ID), [0])


def test_who_refuses_a_new_topic_because_it_has_the_former_one_deletes_that_first():
    context = owing(0, topic_id=uuid.UUID(int=7))
    with_topic(context, NewTopic("t", assignments={0: [1], 1: [1]}))
    decision = deletions.make_room(context, 1, [T0, T1])
    told = present(context)._replace(is_new=True)
    assert decision.effects == [StopReplicas(1, {T0: True}), LeaderAndIsr(1, (told,))]
    confirm(context, 1, T0)
    assert deletions.make_room(context, 1, [T0, T1]) == Decision(), "it has nothing to delete any more"


def test_nobody_deletes_what_it_has_of_the_present_topic():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [1]}))
    carried_out(context, deletions.enlist(context, context.topics["t"].image, {1: [0]}))
    assert deletions.make_room(context, 1, [T0]) == Decision()
