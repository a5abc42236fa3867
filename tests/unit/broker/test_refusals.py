"""An error reaches the client where the client looks for it, whatever it asked for and in which version."""

import uuid

import pytest

from ottla.broker.refusals import refuse
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, PRIVATE
from ottla.protocol.codec import decode_exactly, encode_bytes
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offsets import OffsetFetchRequest, OffsetForLeaderEpochRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.topics import DeleteTopicsRequest
from ottla.protocol.schema import declaration
from tests.oracles import java_codec
from tests.oracles.java_codec import Question
from tests.oracles.messages import random_messages, to_bytes

ERROR = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "somebody else leads")
VERSIONS = [(api, version) for api in APIS.values() for version in api.versions]

# Where Kafka repeats what the request asked below an error that already stands on top, we leave the list empty.
LISTS_KAFKA_REPEATS = {"ListPartitionReassignments", "DescribeUserScramCredentials"}
# Kafka fills in who asked, as User:ANONYMOUS; we say nothing.
PRINCIPALS_KAFKA_INVENTS = {"CreateDelegationToken"}


def codes_in(message):
    """Every error code that is set, however deep."""
    found = []
    for each in declaration(type(message)).fields:
        value = getattr(message, each.name)
        if each.name.endswith("error_code") and value:
            found.append(value)
        for item in value if isinstance(value, list) else []:
            if hasattr(type(item), "__declaration__"):
                found += codes_in(item)
    return found


def comparable(message):
    """The message without words and order.

    Messages are for people: ours name the thing, where Kafka often has none. And Kafka gathers items in hash maps.
    """
    for each in declaration(type(message)).fields:
        value = getattr(message, each.name)
        if each.name == "error_message":
            setattr(message, each.name, None)
        elif each.name == "records":
            setattr(message, each.name, bytes(value or b""))
        elif isinstance(value, list) and value and hasattr(type(value[0]), "__declaration__"):
            setattr(message, each.name, sorted((comparable(item) for item in value), key=repr))
    return message


@pytest.mark.parametrize("api", [*APIS.values(), *PRIVATE.values()], ids=lambda api: api.name)
def test_every_request_of_every_version_can_be_refused(api):
    for version in api.versions:
        for request in random_messages(api.request, version):
            response = refuse(request, ERROR, version)
            again = decode_exactly(api.response, encode_bytes(response, version), version)
            assert set(codes_in(again)) <= {int(ERROR.code)}


@pytest.mark.parametrize("api", [*APIS.values(), *PRIVATE.values()], ids=lambda api: api.name)
def test_a_request_that_asks_for_something_never_gets_an_answer_without_the_error(api):
    for version in api.versions:
        if api.name == "DescribeLogDirs" and version < 3:
            continue  # it has no place for one: Kafka answers with an empty list
        request = random_messages(api.request, version)[1]
        response = refuse(request, ERROR, version)
        assert codes_in(decode_exactly(api.response, encode_bytes(response, version), version))


@pytest.mark.parametrize("kafka", java_codec.KAFKAS)
def test_the_shape_is_kafkas_own(kafka):
    java_codec.prepare()
    requests = [
        (request, api, version)
        for api, version in VERSIONS
        for request in random_messages(api.request, version)[
            :2
        ]  # the others name things twice: Kafka merges those
        if api.name not in LISTS_KAFKA_REPEATS | PRINCIPALS_KAFKA_INVENTS
    ]
    questions = [
        Question(api.request, version, to_bytes(request, version)) for request, api, version in requests
    ]
    answers = java_codec.refusals(kafka, questions, int(ERROR.code))
    for (request, api, version), answer in zip(requests, answers, strict=True):
        if answer is not None:
            ours = encode_bytes(refuse(request, ERROR, version), version)
            expected = comparable(decode_exactly(api.response, answer, version))
            assert comparable(decode_exactly(api.response, ours, version)) == expected, (
                f"{api.name} v{version}"
            )


def test_a_producer_finds_the_error_at_each_partition():
    topic = ProduceRequest.Topic(
        name="t",
        partition_data=[ProduceRequest.Topic.Partition(index=index, records=b"") for index in (3, 5)],
    )
    response = refuse(ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic]), ERROR, 9)
    partitions = response.responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in partitions] == [
        (3, 6, -1),
        (5, 6, -1),
    ]
    assert partitions[0].error_message == "somebody else leads"


def test_a_fetch_says_it_on_top_and_at_each_partition_as_long_as_topics_have_names():
    partition = FetchRequest.Topic.Partition(
        partition=7, fetch_offset=1, partition_max_bytes=1, log_start_offset=4, high_watermark=9
    )
    topic = FetchRequest.Topic(topic="t", partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=12, topics=[topic])
    response = refuse(request, ERROR, 12)
    (answered,) = response.responses[0].partitions
    assert (response.error_code, response.session_id, answered.partition_index) == (6, 12, 7)
    assert (answered.error_code, answered.high_watermark, answered.log_start_offset) == (6, -1, -1)
    assert refuse(request, ERROR, 13).responses == []


def test_the_coordinator_of_many_keys_is_refused_for_each():
    response = refuse(FindCoordinatorRequest(coordinator_keys=["a", "b"]), ERROR, 4)
    assert [(each.key, each.error_code, each.node_id) for each in response.coordinators] == [
        ("a", 6, -1),
        ("b", 6, -1),
    ]
    assert refuse(FindCoordinatorRequest(key="a"), ERROR, 3).error_code == 6


def test_offsets_are_refused_at_partitions_then_on_top_then_for_each_group():
    topics = [OffsetFetchRequest.Topic(name="t", partition_indexes=[3, 5])]
    one = OffsetFetchRequest(group_id="g", topics=topics)
    (topic,) = refuse(one, ERROR, 1).topics
    assert [(each.partition_index, each.error_code, each.committed_offset) for each in topic.partitions] == [
        (3, 6, -1),
        (5, 6, -1),
    ]
    response = refuse(one, ERROR, 7)
    assert (response.error_code, response.topics) == (6, [])
    group = OffsetFetchRequest.Group(group_id="g", topics=None)
    assert [
        (each.group_id, each.error_code)
        for each in refuse(OffsetFetchRequest(groups=[group]), ERROR, 8).groups
    ] == [("g", 6)]


def test_names_that_come_bare_go_back_in_their_structs():
    response = refuse(DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=0), ERROR, 3)
    assert [(each.name, each.error_code) for each in response.responses] == [("a", 6), ("b", 6)]


def test_a_topic_asked_for_by_its_id_is_answered_by_its_id():
    topic_id = uuid.uuid4()
    request = MetadataRequest(topics=[MetadataRequest.Topic(topic_id=topic_id, name=None)])
    (topic,) = refuse(request, ERROR, 12).topics
    assert (topic.topic_id, topic.name, topic.error_code) == (topic_id, None, 6)
    assert refuse(MetadataRequest(topics=None), ERROR, 12).topics == []


def test_what_the_asker_said_about_itself_does_not_come_back_as_our_answer():
    partition = OffsetForLeaderEpochRequest.Topic.Partition(partition=1, leader_epoch=8)
    topic = OffsetForLeaderEpochRequest.Topic(topic="t", partitions=[partition])
    response = refuse(OffsetForLeaderEpochRequest(topics=[topic]), ERROR, 4)
    (answered,) = response.topics[0].partitions
    assert (answered.partition, answered.leader_epoch, answered.end_offset) == (1, -1, -1)


def test_without_a_detail_the_error_explains_itself():
    request = random_messages(APIS[36].request, 2)[1]
    response = refuse(request, KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED), 2)
    assert response.error_message == ErrorCode.SASL_AUTHENTICATION_FAILED.meaning
