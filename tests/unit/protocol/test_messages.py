"""What all declarations have in common, and what only some of them do."""

import uuid

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.apis import APIS, PRIVATE
from ottla.protocol.codec import decode_versioned, encode_bytes, encode_versioned
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.groups import JoinGroupResponse
from ottla.protocol.messages.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.protocol.messages.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from ottla.protocol.schema import declaration
from ottla.protocol.wiretypes import ArrayOf, StructOf
from tests.oracles.messages import api_classes, from_bytes, message_classes, random_messages, to_bytes

MESSAGES = list(message_classes())


def test_every_request_and_response_is_in_the_table_of_apis():
    in_table = {cls for api in (*APIS.values(), *PRIVATE.values()) for cls in (api.request, api.response)}
    assert set(api_classes()) == in_table


@pytest.mark.parametrize("api", [*APIS.values(), *PRIVATE.values()], ids=lambda api: api.name)
def test_request_and_response_agree_on_key_and_versions(api):
    request, response = declaration(api.request), declaration(api.response)
    assert request.api_key == response.api_key == api.key
    assert (request.versions, request.flexible) == (response.versions, response.flexible)


def test_the_table_has_every_api_of_kafka_but_those_of_raft_and_streams():
    assert set(APIS) == {*range(52), 55, 56, 57, 60, 61, *range(64, 70), 71, 72, *range(74, 80), 90, 91, 92}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_message_says_what_it_is_for(cls):
    assert cls.__doc__ and cls.__doc__.strip().endswith(".")


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_message_reads_back_what_it_wrote_in_every_version(cls):
    for version in cls.versions:
        for message in random_messages(cls, version):
            assert from_bytes(cls, to_bytes(message, version), version) == message


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_no_struct_gives_a_tag_twice(cls):
    for struct in _structs(cls):
        tags = [each.tag for each in declaration(struct).fields if each.tag is not None]
        assert len(tags) == len(set(tags)), struct.__qualname__


def _structs(cls):
    yield cls
    for each in declaration(cls).fields:
        below = each.type.element if isinstance(each.type, ArrayOf) else each.type
        if isinstance(below, StructOf):
            yield from _structs(below.cls)


def test_all_topics_are_an_empty_list_in_the_first_metadata_version_and_null_since():
    assert encode_bytes(MetadataRequest(topics=[]), 0) == bytes(4)
    assert encode_bytes(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError):
        encode_bytes(MetadataRequest(topics=None), 0)


def test_a_field_that_an_old_version_lacks_is_dropped_when_kafka_says_so():
    response = MetadataResponse(brokers=[], topics=[], cluster_id="c", throttle_time_ms=9)
    assert from_bytes(MetadataResponse, encode_bytes(response, 0), 0) == MetadataResponse(
        brokers=[], topics=[]
    )


def test_a_field_that_an_old_version_lacks_is_refused_otherwise():
    request = ProduceRequest(transactional_id="t", acks=1, timeout_ms=1, topic_data=[])
    with pytest.raises(ProtocolError, match="transactional_id"):
        encode_bytes(request, 2)


def test_the_protocol_of_a_join_may_be_null_only_since_version_7():
    response = JoinGroupResponse(error_code=0, protocol_name=None, leader="", member_id="", members=[])
    assert from_bytes(JoinGroupResponse, encode_bytes(response, 7), 7) == response
    with pytest.raises(ProtocolError, match="protocol_name"):
        encode_bytes(response, 6)


def test_a_tagged_struct_is_absent_or_whole():
    partition = ProduceResponse.Topic.Partition(index=1, error_code=6, base_offset=-1)
    response = ProduceResponse(responses=[ProduceResponse.Topic(name="t", partition_responses=[partition])])
    without = encode_bytes(response, 10)
    partition.current_leader = ProduceResponse.Topic.Partition.Leader(leader_id=2, leader_epoch=7)
    assert len(encode_bytes(response, 10)) > len(without)
    assert from_bytes(ProduceResponse, encode_bytes(response, 10), 10) == response


def test_tags_of_the_future_survive():
    response = ApiVersionsResponse(error_code=0, api_keys=[])
    response.unknown_tags = {77: b"later"}
    again = from_bytes(ApiVersionsResponse, encode_bytes(response, 4), 4)
    assert again.unknown_tags == {77: b"later"}
    assert encode_bytes(again, 4) == encode_bytes(response, 4)


def test_records_of_a_fetch_are_a_view_of_the_frame():
    partition = FetchResponse.Topic.Partition(
        partition_index=0, error_code=0, high_watermark=5, records=b"batch"
    )
    topic = FetchResponse.Topic(topic_id=uuid.UUID(int=1), partitions=[partition])
    frame = encode_bytes(FetchResponse(responses=[topic]), 17)
    records = from_bytes(FetchResponse, frame, 17).responses[0].partitions[0].records
    assert isinstance(records, memoryview) and records.obj is frame and records == b"batch"


def test_subscriptions_and_assignments_carry_their_version():
    subscription = ConsumerProtocolSubscription(topics=["orders"], rack_id="r1")
    blob = encode_versioned(subscription, 3)
    assert blob[:2] == b"\0\3"
    assert decode_versioned(ConsumerProtocolSubscription, blob) == (subscription, 3)
    topic = TopicPartitions(topic="orders", partitions=[0, 2])
    assignment = ConsumerProtocolAssignment(assigned_partitions=[topic], user_data=None)
    assert decode_versioned(ConsumerProtocolAssignment, encode_versioned(assignment, 0)) == (assignment, 0)
