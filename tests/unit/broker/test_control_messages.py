"""Orders survive the way over the wire, as far as they travel."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.control_messages import (
    answers_of,
    leader_and_isr_response,
    order_of,
    request_of,
    stop_replica_response,
)
from ottla.broker.orders import Order
from ottla.controller.decision import LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.protocol.apis import api_of
from ottla.protocol.codec import decode_exactly, encode_bytes
from ottla.protocol.messages.inter_broker import UpdateMetadataRequest
from ottla.protocol.schema import declaration
from ottla.replication.state import BrokerImage, Endpoint, PartitionState, TopicImage

NODE = 7
ints = st.integers(0, 2**31 - 1)
ids = st.lists(st.integers(0, 5), unique=True, max_size=4).map(tuple)
names = st.sampled_from(["a", "b.c", "__consumer_offsets"])
TOPIC_IDS = {"a": uuid.UUID(int=1), "b.c": uuid.UUID(int=2), "__consumer_offsets": uuid.UUID(int=3)}


@st.composite
def states(draw, name=None, partition=None, travels_far=True):
    topic = draw(names) if name is None else name
    return PartitionState(
        topic,
        TOPIC_IDS[topic],
        draw(st.integers(0, 9)) if partition is None else partition,
        draw(st.integers(-1, 5)),
        draw(ints),
        draw(st.integers(-1, 2**31 - 1)),
        draw(ids),
        draw(ids),
        adding=draw(ids) if travels_far else (),
        removing=draw(ids) if travels_far else (),
        offline=() if travels_far else draw(ids),
        is_new=draw(st.booleans()) if travels_far else False,
        elr=draw(ids),
        is_recovering=draw(st.booleans()) if travels_far else False,
    )


@st.composite
def images(draw):
    name = draw(names)
    count = draw(st.integers(1, 4))
    found = tuple(draw(states(name, index, travels_far=False)) for index in range(count))
    return TopicImage(name, TOPIC_IDS[name], found, name == "__consumer_offsets")


endpoints = st.builds(
    Endpoint,
    st.sampled_from(["PLAINTEXT", "INSIDE"]),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    st.sampled_from(["localhost", "::1", ""]),
    st.integers(0, 65535),
)
brokers = st.builds(
    BrokerImage,
    st.integers(0, 9),
    st.just(-1),
    st.lists(endpoints, max_size=2).map(tuple),
    st.none() | st.just("r1"),
    previous_epoch=st.just(-1),
)
by_topic = st.lists(states(), max_size=6, unique_by=lambda state: state.topic_partition).map(
    lambda found: tuple(sorted(found, key=lambda state: state.topic_partition))
)
partitions = st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 9)), st.booleans(), max_size=5)
effects = st.one_of(
    st.builds(LeaderAndIsr, st.just(NODE), by_topic),
    st.builds(StopReplicas, st.just(NODE), partitions),
    st.builds(
        UpdateMetadata,
        st.just(NODE),
        st.lists(images(), max_size=3, unique_by=lambda image: image.name).map(tuple),
        st.lists(st.sampled_from(["gone", "lost"]), unique=True).map(tuple),
        st.none() | st.lists(brokers, min_size=1, max_size=3).map(tuple),
    ),
)


def through_the_wire(message, version):
    return decode_exactly(type(message), encode_bytes(message, version), version)


@given(effects, ints, ints, ints, st.integers(-1, 2**63 - 1))
def test_an_order_is_the_same_on_the_other_side(effect, controller, controller_epoch, broker_epoch, number):
    order = Order(effect, controller, controller_epoch, broker_epoch, number)
    request = request_of(order)
    version = api_of(declaration(type(request)).api_key).versions.last
    assert order_of(NODE, through_the_wire(request, version)) == order


@given(by_topic, st.sampled_from([ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]))
def test_each_partitions_answer_comes_back(found, code):
    request = request_of(Order(LeaderAndIsr(NODE, found), 1, 2, 3))
    answers = {state.topic_partition: code for state in found}
    response = leader_and_isr_response(request, answers)
    assert answers_of(request, through_the_wire(response, 7)) == answers


@given(partitions)
def test_each_stopped_partition_is_answered_for(found):
    request = request_of(Order(StopReplicas(NODE, found), 1, 2, 3))
    answers = dict.fromkeys(found, ErrorCode.NONE)
    assert answers_of(request, through_the_wire(stop_replica_response(answers), 4)) == answers


def test_half_a_number_makes_no_sense():
    request = request_of(Order(StopReplicas(NODE, {}), 1, 2, 3, 4))
    request.unknown_tags = {tag: data[1:] for tag, data in request.unknown_tags.items()}
    with pytest.raises(ProtocolError, match="7 bytes cannot be the number of an order"):
        order_of(NODE, request)


def test_half_a_topic_makes_no_sense():
    image = TopicImage("a", TOPIC_IDS["a"], (PartitionState("a", TOPIC_IDS["a"], 3, 0, 0, 0, (0,), (0,)),))
    request = request_of(Order(UpdateMetadata(NODE, (image,)), 1, 2, 3))
    try:
        order_of(NODE, request)
    except ProtocolError as error:
        assert "does not tell all partitions of a" in str(error)
    else:
        raise AssertionError("it was taken")


def test_a_listener_of_no_known_protocol_makes_no_sense():
    broker = UpdateMetadataRequest.Broker
    strange = broker.Endpoint(port=1, host="h", listener="L", security_protocol=9)
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=1, topic_states=[], live_brokers=[broker(id=1, endpoints=[strange])]
    )
    try:
        order_of(NODE, request)
    except ProtocolError as error:
        assert "protocol 9" in str(error)
    else:
        raise AssertionError("it was taken")
