"""Orders that no controller gives are not followed: names become directories, and numbers become replicas.

Whoever may act for the cluster may still be broken, or no broker at all where nobody is kept out. Such an order is
refused as a whole, before anything has changed.
"""

from collections.abc import Iterable, Sequence

from ottla.broker.orders import Order
from ottla.controller.decision import ConfigChange, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition, is_topic_name
from ottla.protocol.schema import NULL_UUID
from ottla.replication.state import NO_LEADER, PartitionState


def check(order: Order, node_id: int) -> None:
    """Raise INVALID_REQUEST unless a controller could have given this order to that broker."""
    _require(order.controller_id >= 0 and order.controller_epoch >= 0, "no controller has given it")
    match order.effect:
        case LeaderAndIsr(_, states):
            _check_once([state.topic_partition for state in states])
            for state in states:
                _check_state(state)
                where = state.topic_partition
                _require(node_id in state.replicas, f"broker {node_id} has no replica of {where}")
                _require(state.leader_epoch >= 0 and state.partition_epoch >= 0, f"{where} has no epochs")
        case StopReplicas(_, partitions):
            for partition in partitions:
                _check_name(partition)
        case UpdateMetadata(_, topics, deleted, brokers):
            _check_once([*(topic.name for topic in topics), *deleted])
            for topic in topics:
                for state in topic.partitions:
                    _check_state(state)
            _check_ids([broker.node_id for broker in brokers or ()], "the brokers that live")
        case ConfigChange():
            raise AssertionError("settings are read from the store")


def _check_state(state: PartitionState) -> None:
    """Could a partition be like this?"""
    where, replicas = state.topic_partition, state.replicas
    _check_name(where)
    _require(state.topic_id != NULL_UUID, f"{where} has no topic id")
    _require(bool(replicas), f"{where} has no replicas")
    _check_ids(replicas, f"the replicas of {where}")
    _check_ids(state.isr, f"the ISR of {where}")
    _require(set(state.isr) <= set(replicas), f"in sync is somebody who has no replica of {where}")
    _require(state.leader == NO_LEADER or state.leader in replicas, f"{where} is led by no replica")


def _check_name(partition: TopicPartition) -> None:
    topic, index = partition
    _require(is_topic_name(topic) and index >= 0, f"{topic!r} {index} cannot be a partition")


def _check_ids(ids: Sequence[int], what: str) -> None:
    _require(all(id >= 0 for id in ids) and len(set(ids)) == len(ids), f"{what} cannot be {list(ids)}")


def _check_once(named: Iterable[object]) -> None:
    seen = set()
    for each in named:
        _require(each not in seen, f"it names {each} twice")
        seen.add(each)


def _require(is_so: bool, fault: str) -> None:
    if not is_so:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the order makes no sense: {fault}")
