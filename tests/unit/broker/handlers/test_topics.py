"""Requests about topics become commands of the controller, and its word the reply."""

import uuid

import pytest

from ottla.broker.authorizer import Operation
from ottla.controller.commands import Growth, NewTopic
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID
from ottla.protocol.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from tests.unit.broker.handlers.fakes import ask, broker_with, topic


def new(name, count=1, factor=1, assignments=None, **configs):
    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=[
            CreateTopicsRequest.Topic.Assignment(partition_index=index, broker_ids=ids)
            for index, ids in (assignments or [])
        ],
        configs=[
            CreateTopicsRequest.Topic.Setting(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def named(name=None, topic_id=NULL_ID):
    return DeleteTopicsRequest.Topic(name=name, topic_id=topic_id)


def growth(name, count, *assignments):
    made = [CreatePartitionsRequest.Topic.Assignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsRequest.Topic(name=name, count=count, assignments=made or None)


# --- create -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
def test_a_topic_is_created_in_every_version(version):
    broker = broker_with()
    (result,) = ask(broker, "CreateTopics", version, topics=[new("orders", 3)]).topics
    assert (result.name, result.error_code, result.error_message) == ("orders", ErrorCode.NONE, None)
    assert broker.controller.commands == [NewTopic("orders", 3, 1)]
    image = broker.metadata.topics["orders"]
    assert result.topic_id == (image.topic_id if version >= 7 else NULL_ID)
    assert result.num_partitions == (3 if version >= 5 else -1)
    assert result.replication_factor == (1 if version >= 5 else -1)
    assert bool(result.configs) == (version >= 5)


def test_assignments_and_settings_reach_the_controller():
    broker = broker_with()
    asked = new("orders", -1, -1, [(0, [1, 2]), (1, [2, 1])], retention_ms="5")
    ask(broker, "CreateTopics", 7, topics=[asked])
    assert broker.controller.commands == [
        NewTopic("orders", -1, -1, {0: [1, 2], 1: [2, 1]}, {"retention.ms": "5"})
    ]


def test_checking_only_creates_nothing():
    broker = broker_with()
    (result,) = ask(broker, "CreateTopics", 7, topics=[new("orders")], validate_only=True).topics
    assert result.error_code == ErrorCode.NONE
    assert broker.controller.validate_only
    assert not broker.metadata.topics


def test_the_settings_that_hold_come_back_with_their_sources():
    broker = broker_with(config={"log.segment.bytes": "20000000"})
    (result,) = ask(broker, "CreateTopics", 5, topics=[new("orders", retention_ms="5")]).topics
    settings = {each.name: each for each in result.configs}
    assert (settings["retention.ms"].value, settings["retention.ms"].config_source) == ("5", 1)
    assert (settings["segment.bytes"].value, settings["segment.bytes"].config_source) == ("20000000", 4)
    assert settings["cleanup.policy"].config_source == 5
    assert not settings["cleanup.policy"].read_only


def test_who_may_not_see_settings_gets_none():
    broker = broker_with()
    broker.authorizer.deny(Operation.DESCRIBE_CONFIGS)
    (result,) = ask(broker, "CreateTopics", 7, topics=[new("orders", 3)]).topics
    assert result.error_code == ErrorCode.NONE
    assert result.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (result.num_partitions, result.configs) == (-1, [])


def test_a_topic_named_twice_is_refused_once_and_the_others_are_created():
    broker = broker_with()
    results = ask(broker, "CreateTopics", 7, topics=[new("a"), new("b"), new("a", 2)]).topics
    assert [(each.name, each.error_code) for each in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
    ]
    assert results[0].error_message == "the request names 'a' 2 times"
    assert list(broker.metadata.topics) == ["b"]


def test_a_partition_that_is_assigned_twice_is_refused():
    asked = new("orders", -1, -1, [(0, [1]), (0, [2])])
    (result,) = ask(broker_with(), "CreateTopics", 4, topics=[asked]).topics
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_log_of_the_cluster_cannot_be_created():
    (result,) = ask(broker_with(), "CreateTopics", 7, topics=[new("__cluster_metadata")]).topics
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_what_the_controller_refuses_comes_back_in_its_words():
    broker = broker_with()
    broker.controller.failures = {
        "a": KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "topic 'a' exists"),
        "b": KafkaError(ErrorCode.INVALID_CONFIG),
    }
    first, second = ask(broker, "CreateTopics", 7, topics=[new("a"), new("b")]).topics
    assert (first.error_code, first.error_message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "topic 'a' exists")
    assert second.error_message == ErrorCode.INVALID_CONFIG.meaning
    assert (second.num_partitions, second.configs) == (-1, [])


def test_creating_needs_a_permission_for_the_cluster_or_for_the_topic():
    broker = broker_with()
    broker.authorizer.deny(Operation.CREATE, "kafka-cluster")
    broker.authorizer.deny(Operation.CREATE, "secret")
    results = ask(broker, "CreateTopics", 7, topics=[new("secret"), new("mine")]).topics
    assert [each.error_code for each in results] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE]


# --- delete -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_topics_are_deleted_by_name(version):
    broker = broker_with(topic("a"), topic("b"))
    results = ask(broker, "DeleteTopics", version, topic_names=["a", "none"], timeout_ms=1000).responses
    assert [(each.name, each.error_code) for each in results] == [
        ("a", ErrorCode.NONE),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(broker.metadata.topics) == ["b"]


def test_topics_are_deleted_by_id():
    images = topic("a"), topic("b")
    broker = broker_with(*images)
    unknown = uuid.uuid4()
    asked = [named(topic_id=images[0].topic_id), named(topic_id=unknown), named("b")]
    results = ask(broker, "DeleteTopics", 6, topics=asked, timeout_ms=1000).responses
    assert [(each.name, each.topic_id, each.error_code) for each in results] == [
        ("a", images[0].topic_id, ErrorCode.NONE),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", images[1].topic_id, ErrorCode.NONE),
    ]
    assert not broker.metadata.topics
    assert broker.controller.ids == {"a": images[0].topic_id}, "the name of b was given, whatever its id"


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_disabled(version, code):
    broker = broker_with(topic("a"), config={"delete.topic.enable": "false"})
    (result,) = ask(broker, "DeleteTopics", version, topic_names=["a"], timeout_ms=1000).responses
    assert (result.name, result.error_code) == ("a", code)
    assert "a" in broker.metadata.topics


def test_a_topic_must_be_named_in_one_way_and_once():
    image = topic("a")
    broker = broker_with(image, topic("b"))
    asked = [
        named(),
        named("b", image.topic_id),
        named("b"),
        named("b"),
        named("a"),
        named(None, image.topic_id),
    ]
    results = ask(broker, "DeleteTopics", 6, topics=asked, timeout_ms=1000).responses
    assert len(results) == 5
    assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}
    assert all(each.error_message for each in results)
    assert set(broker.metadata.topics) == {"a", "b"}


def test_what_the_controller_does_not_delete_comes_back_with_its_error():
    broker = broker_with(topic("a"))
    broker.controller.failures = {"a": KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the store is busy")}
    (result,) = ask(broker, "DeleteTopics", 5, topic_names=["a"], timeout_ms=1000).responses
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, "the store is busy")


def test_deleting_needs_a_permission_and_an_id_does_not_betray_a_name():
    image = topic("a")
    broker = broker_with(image)
    broker.authorizer.deny(Operation.DELETE)
    asked = [named(None, image.topic_id)]
    (seen,) = ask(broker, "DeleteTopics", 6, topics=asked, timeout_ms=1000).responses
    assert (seen.name, seen.error_code) == ("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    broker.authorizer.deny(Operation.DESCRIBE)
    (unseen,) = ask(broker, "DeleteTopics", 6, topics=asked, timeout_ms=1000).responses
    assert (unseen.name, unseen.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_a_name_is_denied_alike_whether_there_is_such_a_topic_or_not():
    broker = broker_with(topic("a"))
    broker.authorizer.deny(Operation.DELETE)
    results = ask(broker, "DeleteTopics", 5, topic_names=["a", "none"], timeout_ms=1000).responses
    assert {each.error_code for each in results} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


# --- grow ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_every_topic_of_the_request_is_in_the_reply(version):
    broker = broker_with()
    broker.controller.failures = {"b": KafkaError(ErrorCode.INVALID_PARTITIONS, "b has 4, more than 2")}
    broker.authorizer.deny(Operation.ALTER, "d")
    asked = [growth("a", 3), growth("b", 2), growth("c", 2), growth("c", 3), growth("d", 9)]
    results = ask(
        broker, "CreatePartitions", version, topics=asked, timeout_ms=1, validate_only=False
    ).results
    assert [(each.name, each.error_code) for each in results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_PARTITIONS),
        ("c", ErrorCode.INVALID_REQUEST),
        ("d", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert results[1].error_message == "b has 4, more than 2"


def test_growth_and_its_assignments_reach_the_controller():
    broker = broker_with()
    asked = [growth("a", 3, [1, 2], [2, 1]), growth("b", 5)]
    ask(broker, "CreatePartitions", 3, topics=asked, timeout_ms=1, validate_only=True)
    assert broker.controller.commands == [Growth("a", 3, [[1, 2], [2, 1]]), Growth("b", 5)]
    assert broker.controller.validate_only


def test_the_topics_of_coordinators_do_not_grow_for_nothing_would_be_found_in_them():
    broker = broker_with()
    asked = [growth("__consumer_offsets", 60), growth("a", 3)]
    results = ask(broker, "CreatePartitions", 3, topics=asked, timeout_ms=1, validate_only=False).results
    assert [each.error_code for each in results] == [ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]
    assert broker.controller.commands == [Growth("a", 3)]
