"""Orders as requests of Kafka's controllers, and back: LeaderAndIsr, StopReplica, UpdateMetadata.

What a request has no place for does not travel: the last known leader is the controller's own business, and a broker
needs no other broker's epoch. Only eligible replicas (`eligible`) and the number of the order get places of their own,
tagged fields that others pass by. A topic that is gone is told as Kafka tells it, by a partition whose leader is -2. No
brokers at all means that they are as before: whoever reads it is alive, so there are some.
"""

import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.broker import eligible
from ottla.broker.orders import NO_NUMBER, Answers, Order
from ottla.controller.decision import ConfigChange, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.controller.partitions import is_internal
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataState,
)
from ottla.protocol.schema import NULL_UUID, unknown_tags
from ottla.replication.state import NO_EPOCH, BrokerImage, Endpoint, PartitionState, TopicImage

Request = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest

GONE = -2
"""The leader of a partition whose topic is being deleted."""
_NUMBER_TAG, _NUMBER = eligible.TAG + 1, struct.Struct(">q")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_Metadata = UpdateMetadataRequest
_Broker = UpdateMetadataRequest.Broker
_Stopped = StopReplicaRequest.TopicState


def request_of(order: Order) -> Request:
    """The request that carries an order."""
    request: Request
    match order.effect:
        case LeaderAndIsr():
            request = _leader_and_isr(order, order.effect)
        case StopReplicas():
            request = _stop_replica(order, order.effect)
        case UpdateMetadata():
            request = _update_metadata(order, order.effect)
        case ConfigChange():
            raise AssertionError("settings are read from the store")
    if order.number != NO_NUMBER:
        request.unknown_tags = {_NUMBER_TAG: _NUMBER.pack(order.number)}  # type: ignore[union-attr]  # a decorator adds it
    return request


def order_of(node_id: int, request: Request) -> Order:
    """The order that a request carries, to this broker. Raises ProtocolError if it makes no sense."""
    effect: LeaderAndIsr | StopReplicas | UpdateMetadata
    match request:
        case LeaderAndIsrRequest():
            effect = LeaderAndIsr(node_id, tuple(_ordered(request)))
        case StopReplicaRequest():
            effect = StopReplicas(node_id, _stopped(request))
        case UpdateMetadataRequest():
            effect = _news(node_id, request)
    return Order(
        effect, request.controller_id, request.controller_epoch, request.broker_epoch, _number(request)
    )


def _number(request: Request) -> int:
    """Kafka's controllers do not count."""
    data = unknown_tags(request).get(_NUMBER_TAG)
    if data is None:
        return NO_NUMBER
    if len(data) != _NUMBER.size:
        raise ProtocolError(f"{len(data)} bytes cannot be the number of an order")
    number: int = _NUMBER.unpack(data)[0]
    return number


def answers_of(request: Request, response: Any) -> Answers:
    """How each partition took the order."""
    match request:
        case LeaderAndIsrRequest():
            return leader_and_isr_answers(request, response)
        case StopReplicaRequest():
            return stop_replica_answers(response)
    return {}


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------


def _leader_and_isr(order: Order, effect: LeaderAndIsr) -> LeaderAndIsrRequest:
    topics: dict[str, LeaderAndIsrRequest.Topic] = {}
    for state in effect.states:
        topic = topics.get(state.topic)
        if topic is None:
            topic = topics[state.topic] = LeaderAndIsrRequest.Topic(
                topic_name=state.topic, topic_id=state.topic_id, partition_states=[]
            )
        topic.partition_states.append(message_of(state, order.controller_epoch))
    return LeaderAndIsrRequest(
        controller_id=order.controller_id,
        controller_epoch=order.controller_epoch,
        broker_epoch=order.broker_epoch,
        topic_states=list(topics.values()),
        live_leaders=[],
    )


def message_of(state: PartitionState, controller_epoch: int) -> LeaderAndIsrState:
    message = LeaderAndIsrState(
        topic_name=state.topic,
        partition_index=state.partition,
        controller_epoch=controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding),
        removing_replicas=list(state.removing),
        is_new=state.is_new,
        leader_recovery_state=int(state.is_recovering),
    )
    eligible.put(message, state.elr)
    return message


def state_of(topic: str, topic_id: uuid.UUID, message: LeaderAndIsrState) -> PartitionState:
    return PartitionState(
        topic,
        topic_id,
        message.partition_index,
        message.leader,
        message.leader_epoch,
        message.partition_epoch,
        tuple(message.replicas),
        tuple(message.isr),
        adding=tuple(message.adding_replicas),
        removing=tuple(message.removing_replicas),
        is_new=message.is_new,
        elr=eligible.found_in(message),
        is_recovering=bool(message.leader_recovery_state),
    )


def _ordered(request: LeaderAndIsrRequest) -> Iterable[PartitionState]:
    for topic in request.topic_states:
        for message in topic.partition_states:
            yield state_of(topic.topic_name, topic.topic_id, message)


def leader_and_isr_response(request: LeaderAndIsrRequest, answers: Answers) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        error_code=ErrorCode.NONE,
        topics=[
            LeaderAndIsrResponse.Topic(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=message.partition_index,
                        error_code=answers.get(
                            TopicPartition(topic.topic_name, message.partition_index), ErrorCode.NONE
                        ),
                    )
                    for message in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def leader_and_isr_answers(request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> Answers:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    return {
        TopicPartition(names[topic.topic_id], error.partition_index): KafkaError.of(error.error_code).code
        for topic in response.topics
        if topic.topic_id in names
        for error in topic.partition_errors
    }


# --- StopReplica --------------------------------------------------------------------------------------------------


def _stop_replica(order: Order, effect: StopReplicas) -> StopReplicaRequest:
    topics: dict[str, _Stopped] = {}
    for partition, is_deleted in effect.partitions.items():
        topic = topics.setdefault(partition.topic, _Stopped(topic_name=partition.topic, partition_states=[]))
        topic.partition_states.append(
            _Stopped.PartitionState(partition_index=partition.partition, delete_partition=is_deleted)
        )
    return StopReplicaRequest(
        controller_id=order.controller_id,
        controller_epoch=order.controller_epoch,
        broker_epoch=order.broker_epoch,
        topic_states=list(topics.values()),
    )


def _stopped(request: StopReplicaRequest) -> Mapping[TopicPartition, bool]:
    return {
        TopicPartition(topic.topic_name, state.partition_index): state.delete_partition
        for topic in request.topic_states
        for state in topic.partition_states
    }


def stop_replica_response(answers: Answers) -> StopReplicaResponse:
    return StopReplicaResponse(
        error_code=ErrorCode.NONE,
        partition_errors=[
            StopReplicaResponse.Partition(
                topic_name=partition.topic, partition_index=partition.partition, error_code=code
            )
            for partition, code in answers.items()
        ],
    )


def stop_replica_answers(response: StopReplicaResponse) -> Answers:
    return {
        TopicPartition(error.topic_name, error.partition_index): KafkaError.of(error.error_code).code
        for error in response.partition_errors
    }


# --- UpdateMetadata -----------------------------------------------------------------------------------------------


def _update_metadata(order: Order, effect: UpdateMetadata) -> UpdateMetadataRequest:
    epoch = order.controller_epoch
    gone = [
        _Metadata.Topic(topic_name=name, topic_id=NULL_UUID, partition_states=[_gone(epoch)])
        for name in effect.deleted
    ]
    shown = [
        _Metadata.Topic(
            topic_name=topic.name,
            topic_id=topic.topic_id,
            partition_states=[_shown(state, epoch) for state in topic.partitions],
        )
        for topic in effect.topics
    ]
    return UpdateMetadataRequest(
        controller_id=order.controller_id,
        controller_epoch=epoch,
        broker_epoch=order.broker_epoch,
        topic_states=gone + shown,
        live_brokers=[_live(broker) for broker in effect.brokers or ()],
    )


def _gone(controller_epoch: int) -> UpdateMetadataState:
    return UpdateMetadataState(
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=GONE,
        leader_epoch=-1,
        isr=[],
        zk_version=-1,
        replicas=[],
    )


def _shown(state: PartitionState, controller_epoch: int) -> UpdateMetadataState:
    message = UpdateMetadataState(
        partition_index=state.partition,
        controller_epoch=controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(state.replicas),
        offline_replicas=list(state.offline),
    )
    eligible.put(message, state.elr)
    return message


def _live(broker: BrokerImage) -> _Broker:
    return _Broker(
        id=broker.node_id,
        endpoints=[
            _Broker.Endpoint(
                port=each.port,
                host=each.host,
                listener=each.listener,
                security_protocol=_PROTOCOLS.index(each.security_protocol),
            )
            for each in broker.endpoints
        ],
        rack=broker.rack,
    )


def _news(node_id: int, request: UpdateMetadataRequest) -> UpdateMetadata:
    gone = [topic for topic in request.topic_states if _is_gone(topic)]
    return UpdateMetadata(
        node_id,
        tuple(_image(topic) for topic in request.topic_states if not _is_gone(topic)),
        tuple(topic.topic_name for topic in gone),
        tuple(_broker_image(broker) for broker in request.live_brokers) or None,
    )


def _is_gone(topic: _Metadata.Topic) -> bool:
    return any(state.leader == GONE for state in topic.partition_states)


def _image(topic: _Metadata.Topic) -> TopicImage:
    name, topic_id = topic.topic_name, topic.topic_id
    states = [
        PartitionState(
            name,
            topic_id,
            each.partition_index,
            each.leader,
            each.leader_epoch,
            each.zk_version,
            tuple(each.replicas),
            tuple(each.isr),
            offline=tuple(each.offline_replicas),
            elr=eligible.found_in(each),
        )
        for each in topic.partition_states
    ]
    if [state.partition for state in states] != list(range(len(states))):
        raise ProtocolError(f"UpdateMetadata does not tell all partitions of {name} in their order")
    return TopicImage(name, topic_id, tuple(states), is_internal(name))


def _broker_image(broker: _Broker) -> BrokerImage:
    endpoints = []
    for each in broker.endpoints:
        if not 0 <= each.security_protocol < len(_PROTOCOLS):
            raise ProtocolError(f"broker {broker.id} has a listener of protocol {each.security_protocol}")
        endpoints.append(Endpoint(each.listener, _PROTOCOLS[each.security_protocol], each.host, each.port))
    return BrokerImage(broker.id, NO_EPOCH, tuple(endpoints), broker.rack)
