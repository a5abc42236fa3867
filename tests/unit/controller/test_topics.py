"""Topics are created, grow and are deleted: the answers, the writes in their order, and who is told."""

import uuid

import pytest

from ottla.controller import deletions, reassignment, topics
from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.controller.context import StoredConfig
from ottla.controller.decision import ConfigChange, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import PartitionStateNode, TopicNode
from ottla.metadata.store import Create, Delete, Set
from tests.unit.controller.helpers import DEFAULTS, Loaded, carried_out, cluster, effects, with_topic


def create(context, *wanted, **more):
    return topics.create(context, wanted, DEFAULTS, Loaded(), **more)


def test_a_topic_is_written_with_settings_first_and_states_last():
    context = cluster(0)
    decision, answers = create(context, NewTopic("t", 2, 1, configs={"retention.ms": "1"}))
    assert [write.path for write in decision.writes] == [
        "/config/topics/t", "/config/changes", "/brokers/topics/t", "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1", "/brokers/topics/t/partitions/1/state",
    ]  # fmt: skip
    node = TopicNode.decode("/t", decision.writes[2].data)
    assert node == TopicNode(answers["t"].topic_id, ((0,), (0,)))
    assert PartitionStateNode.decode("/s", decision.writes[5].data) == PartitionStateNode(0, 0, (0,), 5)


def test_brokers_hear_of_settings_then_of_leadership_then_of_metadata():
    context = cluster(0, 1)
    decision, answers = create(context, NewTopic("t", assignments={0: [1, 0]}))
    assert [type(effect) for effect in decision.effects] == [
        ConfigChange, LeaderAndIsr, LeaderAndIsr, UpdateMetadata, UpdateMetadata,
    ]  # fmt: skip
    assert [state.is_new for order in effects(decision, LeaderAndIsr) for state in order.states] == [
        True,
        True,
    ]
    assert effects(decision, UpdateMetadata)[0].topics == (answers["t"],)
    assert not answers["t"].partitions[0].is_new


def test_what_is_decided_is_remembered_only_when_it_is_applied():
    context = cluster(0)
    decision, answers = create(context, NewTopic("t", configs={"a": "1"}))
    assert not context.topics
    carried_out(context, decision)
    assert context.topics["t"] == (answers["t"], 0)
    assert context.configs[ConfigResource(ResourceType.TOPIC, "t")] == ({"a": "1"}, 0)


def test_minus_one_stands_for_the_brokers_settings():
    context = cluster(0, 1, 2)
    _, answers = topics.create(context, [NewTopic("t")], topics.Defaults(4, 3), Loaded())
    assert [len(state.replicas) for state in answers["t"].partitions] == [3, 3, 3, 3]


def test_kafkas_own_topics_are_marked():
    _, answers = create(
        cluster(0), NewTopic("__consumer_offsets"), NewTopic("__transaction_state"), NewTopic("mine")
    )
    assert [answer.is_internal for answer in answers.values()] == [True, True, False]


def test_topics_that_cannot_be_do_not_keep_others_from_being():
    context = cluster(0)
    decision, answers = create(context, NewTopic("bad name"), NewTopic("good"), NewTopic("many", 1, 3))
    assert answers["bad name"].code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answers["many"].code is ErrorCode.INVALID_REPLICATION_FACTOR
    carried_out(context, decision)
    assert list(context.topics) == ["good"]


def test_a_topic_that_is_named_twice_is_not_created_at_all():
    decision, answers = create(cluster(0), NewTopic("t"), NewTopic("t", 2))
    assert answers["t"].code is ErrorCode.INVALID_REQUEST
    assert decision.writes == []


def test_of_two_new_topics_that_look_alike_the_first_is_created():
    _, answers = create(cluster(0), NewTopic("a.b"), NewTopic("a_b"))
    assert not isinstance(answers["a.b"], KafkaError)
    assert answers["a_b"].code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_settings_are_checked_before_anything_is_written():
    def refuse(resource, values):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{resource.name} {dict(values)}")

    decision, answers = create(cluster(0), NewTopic("t", configs={"a": "b"}), check_config=refuse)
    assert str(answers["t"]) == "INVALID_CONFIG: t {'a': 'b'}"
    assert decision.writes == []


def test_who_has_settings_and_numbers_wrong_is_told_of_the_settings():
    def refuse(resource, values):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "bad")

    _, answers = create(cluster(0), NewTopic("t", 0, 5, configs={"a": "b"}), check_config=refuse)
    assert answers["t"].code is ErrorCode.INVALID_CONFIG


def test_settings_that_were_left_behind_are_overwritten():
    context = cluster(0)
    left = ConfigResource(ResourceType.TOPIC, "t")
    context.configs[left] = StoredConfig({"old": "1"}, 6)
    decision, _ = create(context, NewTopic("t"))
    assert isinstance(decision.writes[0], Set)
    assert decision.writes[0].version == 6
    carried_out(context, decision)
    assert context.configs[left] == ({}, 7)


def test_a_request_cannot_ask_for_more_partitions_than_fit_even_in_parts():
    _, answers = create(cluster(0), NewTopic("a", 6_000), NewTopic("b", 6_000), NewTopic("c", 2_147_483_647))
    assert not isinstance(answers["a"], KafkaError)
    assert answers["b"].code is ErrorCode.POLICY_VIOLATION
    assert answers["c"].code is ErrorCode.POLICY_VIOLATION


def test_a_topic_grows_by_new_partitions_only():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [1, 2], 1: [2, 0]}))
    before = context.topics["t"].image
    decision, answers = topics.grow(context, [Growth("t", 4)], Loaded())
    assert answers == {"t": None}
    assert [write.path for write in decision.writes] == [
        "/brokers/topics/t", "/brokers/topics/t/partitions/2", "/brokers/topics/t/partitions/2/state",
        "/brokers/topics/t/partitions/3", "/brokers/topics/t/partitions/3/state",
    ]  # fmt: skip
    assert isinstance(decision.writes[0], Set)
    assert decision.writes[0].version == 0
    carried_out(context, decision)
    after = context.topics["t"]
    assert after.image.partitions[:2] == before.partitions
    assert after.version == 1
    assert [state.replicas[0] for state in after.image.partitions] == [1, 2, 0, 1], "on around the circle"
    told = {s.partition for order in effects(decision, LeaderAndIsr) for s in order.states}
    assert told == {2, 3}


def test_new_partitions_can_be_placed_by_hand():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0]}))
    carried_out(context, topics.grow(context, [Growth("t", 3, [[1], [0]])], Loaded())[0])
    assert [state.replicas for state in context.topics["t"].image.partitions] == [(0,), (1,), (0,)]


def test_growth_that_is_named_twice_is_refused():
    context = cluster(0)
    with_topic(context, NewTopic("t"))
    decision, answers = topics.grow(context, [Growth("t", 3), Growth("t", 4)], Loaded())
    assert answers["t"].code is ErrorCode.INVALID_REQUEST
    assert decision.writes == []


def test_deletion_marks_first_and_takes_the_topic_out_of_sight_before_its_replicas():
    context = cluster(0)
    with_topic(context, NewTopic("t", 2))
    decision, answers = topics.doom(context, ["t", "nope", "t"])
    assert answers["t"] is None
    assert answers["nope"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert decision.writes == [Create("/admin/delete_topics/t")]
    assert decision.effects == [
        UpdateMetadata(0, deleted=("t",)),
        StopReplicas(0, {TopicPartition("t", 0): True, TopicPartition("t", 1): True}),
    ]


def test_a_topic_that_was_named_by_its_id_is_not_mistaken_for_the_next_one_of_its_name():
    context = cluster(0)
    with_topic(context, NewTopic("t"))
    topic_id = context.topics["t"].image.topic_id
    decision, answers = topics.doom(context, ["t"], {"t": uuid.uuid4()})
    assert answers["t"].code is ErrorCode.UNKNOWN_TOPIC_ID
    assert (decision.writes, decision.effects) == ([], [])
    assert topics.doom(context, ["t"], {"t": topic_id, "u": uuid.uuid4()})[1] == {"t": None}


def test_a_doomed_topic_keeps_its_name_until_it_is_buried():
    context = cluster(0)
    with_topic(context, NewTopic("t"))
    carried_out(context, topics.doom(context, ["t"])[0])
    _, answers = create(context, NewTopic("t"))
    assert answers["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS
    carried_out(context, deletions.confirm(context, 0, [TopicPartition("t", 0)]))
    decision = carried_out(context, topics.bury(context, {"t": ["/brokers/topics/t", "/config/topics/t"]}))
    assert decision.writes == [
        Delete("/brokers/topics/t"), Delete("/config/topics/t"), Delete("/admin/delete_topics/t"),
    ]  # fmt: skip
    assert decision.effects == [ConfigChange(ConfigResource(ResourceType.TOPIC, "t"), None)]
    assert (context.topics, context.doomed, context.configs) == ({}, {}, {})
    first, again = with_topic(context, NewTopic("t")), context.topics["t"]
    assert first.writes and again.version == 0


def test_topics_named_by_chance_start_at_different_brokers():
    for throw in range(3):
        context = cluster(0, 1, 2)
        with_topic(context, NewTopic("t", 1), throw)
        assert context.topics["t"].image.partitions[0].leader == throw


@pytest.mark.parametrize("names", [[], ["nope"]])
def test_nobody_is_told_of_nothing(names):
    decision, _ = topics.doom(cluster(0), names)
    assert (decision.writes, decision.changes, decision.effects) == ([], [], [])


def racked(*ids):
    context = cluster(*ids)
    context.brokers = {id: broker._replace(rack=f"rack{id % 2}") for id, broker in context.brokers.items()}
    return context


def test_replicas_of_new_topics_and_new_partitions_lie_in_different_racks():
    context = racked(0, 1, 2, 3)
    with_topic(context, NewTopic("t", 3, 2))
    carried_out(context, topics.grow(context, [Growth("t", 9)], Loaded(1))[0])
    replicas = [state.replicas for state in context.topics["t"].image.partitions]
    assert len(replicas) == 9
    assert all((first + second) % 2 == 1 for first, second in replicas)
    assert [first for first, _ in replicas] == [0, 1, 2, 3, 0, 1, 2, 3, 0], "on around the circle"


def test_racks_that_only_some_brokers_name_are_not_looked_at():
    context = racked(0, 1, 2)
    context.brokers[2] = context.brokers[2]._replace(rack=None)
    with_topic(context, NewTopic("t", 6, 2))
    unaware = cluster(0, 1, 2)
    with_topic(unaware, NewTopic("t", 6, 2))
    assert context.topics == unaware.topics


def test_new_partitions_go_to_brokers_that_live():
    context = cluster(0, 1, 2, 3)
    with_topic(context, NewTopic("t", assignments={0: [1, 2]}))
    del context.brokers[1], context.brokers[3]
    carried_out(context, topics.grow(context, [Growth("t", 4)], Loaded())[0])
    grown = context.topics["t"].image.partitions[1:]
    assert {id for state in grown for id in state.replicas} == {0, 2}
    assert [state.leader for state in grown] == [0, 2, 0], "broker 2 follows upon 1, which is gone"


def test_a_broker_that_is_about_to_stop_gets_replicas_only_if_it_must():
    context = cluster(0, 1, 2)
    context.shutting_down = {1}
    with_topic(context, NewTopic("two", 6, 2))
    assert all(1 not in state.replicas for state in context.topics["two"].image.partitions)
    with_topic(context, NewTopic("three", 6, 3))
    assert all(1 in state.replicas for state in context.topics["three"].image.partitions)
    assert all(1 not in state.isr for state in context.topics["three"].image.partitions)


def test_nobody_creates_partitions_that_only_leaving_brokers_could_lead():
    context = cluster(0, 1)
    context.shutting_down = {0, 1}
    assert create(context, NewTopic("t"))[1]["t"].code is ErrorCode.INVALID_REPLICATION_FACTOR
    by_hand = create(context, NewTopic("t", assignments={0: [1]}))[1]["t"]
    assert by_hand.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_that_moves_grows_with_as_many_replicas_as_it_will_have():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    carried_out(context, reassignment.alter(context, {TopicPartition("t", 0): [2]})[0])
    before = context.topics["t"].image.partitions[0]
    assert (before.adding, before.removing) == ((2,), (0, 1))
    decision = carried_out(context, topics.grow(context, [Growth("t", 3)], Loaded())[0])
    node = TopicNode.decode("/t", decision.writes[0].data)
    assert (node.adding, node.removing) == ({0: (2,)}, {0: (0, 1)}), "the move goes on"
    assert context.topics["t"].image.partitions[0] == before
    assert [len(ids) for ids in node.replicas] == [3, 1, 1]
