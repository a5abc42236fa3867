"""What clients are told about the cluster, in every version they ask in."""

import uuid

import pytest

from ottla.broker.apis import SERVED, Feature
from ottla.broker.authorizer import NOT_ASKED, Operation
from ottla.broker.handlers import metadata as handlers
from ottla.controller.commands import NewTopic
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID
from ottla.protocol.codec import decode_exactly, encode_bytes
from ottla.protocol.exchange import Exchange
from ottla.protocol.messages.metadata import (
    ApiVersionsResponse,
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from tests.unit.broker.handlers.fakes import ask, broker_with, node, refusal, topic

VERSIONS = range(14)
FIRST_NULL = 1


def named(*names):
    return [MetadataRequest.Topic(name=name) for name in names]


def by_id(*ids):
    return [MetadataRequest.Topic(name=None, topic_id=topic_id) for topic_id in ids]


def codes(response):
    return {each.name: each.error_code for each in response.topics}


# --- ApiVersions --------------------------------------------------------------------------------------------------


TELEMETRY = {71, 72}


@pytest.mark.parametrize("version", range(5))
def test_the_table_of_served_apis_is_told_in_every_version(version):
    found = ask(
        broker_with(), "ApiVersions", version, client_software_name="kcat", client_software_version="1.7.1"
    )
    assert found.error_code == ErrorCode.NONE
    told = {each.api_key: (each.min_version, each.max_version) for each in found.api_keys}
    served = {row.key: (row.min_version, row.max_version) for row in SERVED.values() if row.is_listed}
    assert told == {key: versions for key, versions in served.items() if key not in TELEMETRY}
    assert not found.zk_migration_ready


def test_telemetry_is_offered_once_somebody_has_subscribed_to_it():
    broker = broker_with()
    broker.configs.client_metrics["mine"] = object()
    software = {"client_software_name": "kcat", "client_software_version": "1.7.1"}
    assert {each.api_key for each in ask(broker, "ApiVersions", 3, **software).api_keys} >= TELEMETRY


@pytest.mark.parametrize("name", ["", "-kcat", "kcat-", "k cat", "kcät", "kcat\n"])
def test_software_that_cannot_name_itself_is_refused(name):
    for fields in (
        {"client_software_name": name, "client_software_version": "1"},
        {"client_software_name": "kcat", "client_software_version": name},
    ):
        assert ask(broker_with(), "ApiVersions", 3, **fields).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "confluent.kafka.2"])
def test_names_of_software_are_letters_digits_dots_and_dashes(name):
    found = ask(broker_with(), "ApiVersions", 4, client_software_name=name, client_software_version="2.15.0")
    assert found.error_code == ErrorCode.NONE


def test_a_version_from_the_future_is_answered_with_the_versions_of_api_versions():
    reply = encode_bytes(handlers.unsupported_api_versions(), 0)
    found = decode_exactly(ApiVersionsResponse, reply, 0)
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in found.api_keys] == [(18, 0, 4)]


def test_features_are_told_and_a_level_of_zero_only_to_those_who_understand_it(monkeypatch):
    features = (Feature("group.version", 0, 1, 1), Feature("metadata.version", 7, 25, 25))
    monkeypatch.setattr(handlers, "FEATURES", features)
    fields = {"client_software_name": "a", "client_software_version": "1"}
    old = ask(broker_with(), "ApiVersions", 3, **fields)
    new = ask(broker_with(), "ApiVersions", 4, **fields)
    assert [each.name for each in old.supported_features] == ["metadata.version"]
    assert [each.name for each in new.supported_features] == ["group.version", "metadata.version"]
    assert [(each.name, each.max_version_level) for each in new.finalized_features] == [
        ("group.version", 1),
        ("metadata.version", 25),
    ]
    assert new.finalized_features_epoch == 0


@pytest.mark.parametrize("version", [3, 4])
def test_groups_and_transactions_of_kafka_4_are_in_force(version):
    found = ask(broker_with(), "ApiVersions", version, client_software_name="a", client_software_version="1")
    assert {each.name: each.max_version_level for each in found.finalized_features} == {
        "group.version": 1,
        "transaction.version": 2,
    }
    assert found.finalized_features_epoch == 0


# --- Metadata: brokers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_stand_at_the_address_of_the_listener_that_was_asked(version):
    broker = broker_with(nodes=[node(1, "PLAINTEXT", "OUTSIDE", rack="r1"), node(2)])
    inside = ask(broker, "Metadata", version, topics=[])
    outside = ask(broker, "Metadata", version, "OUTSIDE", topics=[])
    assert [(each.node_id, each.host, each.port) for each in inside.brokers] == [
        (1, "plaintext1", 9001),
        (2, "plaintext2", 9002),
    ]
    assert [(each.node_id, each.host) for each in outside.brokers] == [(1, "outside1")]
    assert inside.brokers[0].rack == ("r1" if version >= 1 else None)
    assert inside.cluster_id == ("cluster-1" if version >= 2 else None)
    assert inside.controller_id == (1 if version >= 1 else -1)


# --- Metadata: which topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_asked_for_by_null_and_in_v0_by_an_empty_list(version):
    broker = broker_with(topic("a"), topic("b", 2))
    found = ask(broker, "Metadata", version, topics=None if version >= FIRST_NULL else [])
    assert codes(found) == {"a": 0, "b": 0}
    assert [len(each.partitions) for each in found.topics] == [1, 2]


def test_all_topics_are_asked_for_by_librdkafka_with_three_bytes_too_many():
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    client_id, request = Exchange.of(frame).read(frame)
    assert (client_id, request.topics) == ("rdkafka", None)


@pytest.mark.parametrize("version", VERSIONS[FIRST_NULL:])
def test_an_empty_list_asks_for_no_topic(version):
    assert ask(broker_with(topic("a")), "Metadata", version, topics=[]).topics == []


def test_a_topic_is_described_as_the_controller_decided():
    image = topic("a", 2, leader=2, replicas=(2, 1), isr=(2,))
    broker = broker_with(image, nodes=[node(1), node(2)])
    (found,) = ask(broker, "Metadata", 12, topics=named("a")).topics
    assert (found.topic_id, found.is_internal) == (image.topic_id, False)
    second = found.partitions[1]
    assert (second.partition_index, second.leader_id, second.leader_epoch) == (1, 2, 7)
    assert (second.replica_nodes, second.isr_nodes, second.offline_replicas) == ([2, 1], [2], [])


def test_a_topic_asked_for_twice_is_told_once():
    assert len(ask(broker_with(topic("a")), "Metadata", 12, topics=named("a", "a")).topics) == 1


def test_topics_are_found_by_id():
    image, unknown = topic("a"), uuid.uuid4()
    found = ask(broker_with(image), "Metadata", 12, topics=by_id(image.topic_id, unknown)).topics
    assert [(each.name, each.topic_id, each.error_code) for each in found] == [
        ("a", image.topic_id, ErrorCode.NONE),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [10, 11])
def test_before_v12_ids_are_refused(version):
    image = topic("a")
    asked = [MetadataRequest.Topic(name="a", topic_id=image.topic_id)]
    assert refusal(broker_with(image), "Metadata", version, topics=asked) == ErrorCode.INVALID_REQUEST


def test_a_topic_without_name_and_id_is_refused():
    assert refusal(broker_with(), "Metadata", 12, topics=by_id(NULL_ID)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_an_unknown_topic_is_not_created_when_the_client_does_not_want_it(version):
    broker = broker_with()
    asked = named("none", "a b", "__consumer_offsets")
    found = ask(broker, "Metadata", version, topics=asked, allow_auto_topic_creation=False)
    assert codes(found) == {
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [each.is_internal for each in found.topics] == [False, False, True]
    assert broker.controller.commands == []


# --- Metadata: creation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_created_before_the_reply(version):
    broker = broker_with(topic("old"))
    found = ask(broker, "Metadata", version, topics=named("new", "old"))
    assert codes(found) == {"new": 0, "old": 0}
    assert found.topics[0].partitions[0].leader_id == 1
    assert broker.controller.commands == [NewTopic("new")]


def test_nothing_is_created_when_the_broker_does_not_allow_it():
    broker = broker_with(config={"auto.create.topics.enable": "false"})
    found = ask(broker, "Metadata", 12, topics=named("new"))
    assert codes(found) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.controller.commands == []


def test_illegal_names_and_the_coordinators_topics_are_not_created():
    broker = broker_with()
    asked = named("a/b", "", "__transaction_state", "__cluster_metadata", "__mine")
    found = ask(broker, "Metadata", 12, topics=asked)
    assert codes(found) == {
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__transaction_state": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__cluster_metadata": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__mine": ErrorCode.NONE,
    }


def test_asking_for_an_unknown_id_creates_nothing():
    broker = broker_with()
    ask(broker, "Metadata", 12, topics=by_id(uuid.uuid4()))
    assert broker.controller.commands == []


def test_the_controllers_refusal_is_the_topics_error():
    broker = broker_with()
    broker.controller.failures = {"new": KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "3 of 1 brokers")}
    found = ask(broker, "Metadata", 12, topics=named("new"))
    assert codes(found) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_a_topic_that_somebody_else_created_meanwhile_is_told_and_one_that_is_gone_asked_for_again():
    broker = broker_with()
    exists = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
    create = broker.controller.create_topics

    async def create_late(topics, *, validate_only=False):
        broker.metadata.update(topics=[topic("there")])
        return await create(topics, validate_only=validate_only)

    broker.controller.create_topics = create_late
    broker.controller.failures = {"there": exists, "gone": exists}
    found = ask(broker, "Metadata", 12, topics=named("there", "gone"))
    assert codes(found) == {"there": ErrorCode.NONE, "gone": ErrorCode.LEADER_NOT_AVAILABLE}


# --- Metadata: permissions ----------------------------------------------------------------------------------------


def test_topics_that_may_not_be_seen_are_missing_from_all_and_denied_by_name_and_id():
    secret = topic("secret")
    broker = broker_with(secret, topic("open"))
    broker.authorizer.deny(Operation.DESCRIBE, "secret")
    assert codes(ask(broker, "Metadata", 12, topics=None)) == {"open": 0}
    (denied,) = ask(broker, "Metadata", 12, topics=named("secret")).topics
    assert (denied.error_code, denied.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NULL_ID)
    (denied,) = ask(broker, "Metadata", 12, topics=by_id(secret.topic_id)).topics
    assert (denied.error_code, denied.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_creation_needs_a_permission_for_the_cluster_or_for_the_topic():
    broker = broker_with()
    broker.authorizer.deny(Operation.CREATE, "kafka-cluster")
    broker.authorizer.deny(Operation.CREATE, "secret")
    found = ask(broker, "Metadata", 12, topics=named("secret", "mine"))
    assert codes(found) == {"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "mine": ErrorCode.NONE}


def test_authorized_operations_are_told_on_request_only():
    broker = broker_with(topic("a"))
    (silent,) = ask(broker, "Metadata", 10, topics=named("a")).topics
    assert silent.topic_authorized_operations == NOT_ASKED
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    found = ask(broker, "Metadata", 10, topics=named("a"), **asked)
    assert found.topics[0].topic_authorized_operations == 3576
    assert found.cluster_authorized_operations == 8096
    broker.authorizer.deny(Operation.DESCRIBE, "kafka-cluster")
    assert ask(broker, "Metadata", 10, topics=[], **asked).cluster_authorized_operations == 0


def test_authorized_operations_of_one_client_are_not_told_to_the_next():
    broker = broker_with(topic("a"))
    ask(broker, "Metadata", 12, topics=None, include_topic_authorized_operations=True)
    (silent,) = ask(broker, "Metadata", 12, topics=None).topics
    assert silent.topic_authorized_operations == NOT_ASKED


# --- DescribeCluster ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_in_every_version(version):
    broker = broker_with(nodes=[node(1, rack="r1"), node(2)])
    found = ask(broker, "DescribeCluster", version, include_cluster_authorized_operations=True)
    assert (found.error_code, found.cluster_id, found.controller_id) == (ErrorCode.NONE, "cluster-1", 1)
    assert [(each.broker_id, each.host, each.rack) for each in found.brokers] == [
        (1, "plaintext1", "r1"),
        (2, "plaintext2", None),
    ]
    assert found.cluster_authorized_operations == 8096


def test_a_controller_that_the_listener_does_not_show_is_not_named():
    broker = broker_with(nodes=[node(1), node(2, "OUTSIDE")])
    found = ask(broker, "DescribeCluster", 1, "OUTSIDE", include_cluster_authorized_operations=False)
    assert found.controller_id == -1
    assert found.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_this_is_an_endpoint_of_brokers(endpoint_type, code):
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type}
    found = ask(broker_with(), "DescribeCluster", 1, **fields)
    assert found.error_code == code
    assert str(endpoint_type) in found.error_message


# --- DescribeTopicPartitions --------------------------------------------------------------------------------------


def describe(*names, limit=2000, cursor=None):
    topics = [DescribeTopicPartitionsRequest.Topic(name=name) for name in names]
    at = Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
    return {"topics": topics, "response_partition_limit": limit, "cursor": at}


def pages(broker, *names, limit):
    """Every page as a list of (topic, partition)."""
    cursor = None
    while True:
        found = ask(broker, "DescribeTopicPartitions", 0, **describe(*names, limit=limit, cursor=cursor))
        yield [(each.name, state.partition_index) for each in found.topics for state in each.partitions]
        if found.next_cursor is None:
            return
        cursor = (found.next_cursor.topic_name, found.next_cursor.partition_index)


def test_topics_are_described_in_the_order_of_their_names():
    broker = broker_with(topic("b", is_internal=True), topic("a", 2, replicas=(1, 9), isr=(1,)))
    found = ask(broker, "DescribeTopicPartitions", 0, **describe())
    assert [(each.name, each.is_internal) for each in found.topics] == [("a", False), ("b", True)]
    state = found.topics[0].partitions[1]
    assert (state.leader_id, state.leader_epoch, state.replica_nodes) == (1, 7, [1, 9])
    assert (state.isr_nodes, state.offline_replicas) == ([1], [9])
    assert (state.eligible_leader_replicas, state.last_known_elr) == ([], [])
    assert found.topics[0].topic_authorized_operations == 3576
    assert found.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 100])
def test_pages_hold_every_partition_once(limit):
    broker = broker_with(topic("a", 3), topic("b"), topic("c", 2))
    found = list(pages(broker, limit=limit))
    assert all(0 < len(page) <= limit for page in found)
    expected = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]
    assert [each for page in found for each in page] == expected


def test_pages_of_chosen_topics_leave_the_others_out():
    broker = broker_with(topic("a", 3), topic("b"), topic("c", 2))
    found = [each for page in pages(broker, "c", "a", limit=2) for each in page]
    assert found == [("a", 0), ("a", 1), ("a", 2), ("c", 0), ("c", 1)]


def test_the_broker_limits_a_page_whatever_is_asked():
    broker = broker_with(topic("a", 5), config={"max.request.partition.size.limit": "2"})
    found = ask(broker, "DescribeTopicPartitions", 0, **describe(limit=1000))
    assert len(found.topics[0].partitions) == 2
    assert len(ask(broker, "DescribeTopicPartitions", 0, **describe(limit=-5)).topics) == 1


def test_unknown_illegal_and_denied_topics_have_their_errors():
    broker = broker_with(topic("a"), topic("secret"))
    broker.authorizer.deny(Operation.DESCRIBE, "secret")
    found = ask(broker, "DescribeTopicPartitions", 0, **describe("a", "none", "x y", "secret"))
    assert codes(found) == {
        "a": ErrorCode.NONE,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "x y": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert codes(ask(broker, "DescribeTopicPartitions", 0, **describe())) == {"a": ErrorCode.NONE}


@pytest.mark.parametrize("cursor", [("a", -1), ("b", 0)])
def test_a_cursor_must_point_into_the_list(cursor):
    broker = broker_with(topic("a"), topic("b"))
    fields = describe("a", cursor=cursor)
    assert refusal(broker, "DescribeTopicPartitions", 0, **fields) == ErrorCode.INVALID_REQUEST


def test_a_cursor_at_a_topic_that_is_gone_goes_on_with_the_next():
    broker = broker_with(topic("a"), topic("c", 2))
    found = ask(broker, "DescribeTopicPartitions", 0, **describe(cursor=("b", 1)))
    assert [(each.name, len(each.partitions)) for each in found.topics] == [("c", 2)]
