"""Replicas of one partition side by side, each with a real log on a disk of its own; messages are plain calls."""

import uuid

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records.batch import read_header, records_of
from ottla.replication.exchange import BrokerLife, FetchAnswer
from ottla.replication.partition import Partition
from ottla.replication.state import PartitionState
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch

TOPIC_ID = uuid.UUID(int=1)
ORDERS = TopicPartition("orders", 0)
LAG_MS = 1_000


def state(leader, epoch, partition_epoch, isr=(1, 2, 3), replicas=(1, 2, 3)):
    return PartitionState("orders", TOPIC_ID, 0, leader, epoch, partition_epoch, replicas, tuple(isr))


def replica(broker, disk=None, **settings):
    config = TopicConfig({name.replace("_", "."): str(value) for name, value in settings.items()})
    partition = Partition(broker, ORDERS, TOPIC_ID, Log.open(disk or SimDisk(), "d/orders-0", config))
    partition.lag_ms, partition.broker_epoch = LAG_MS, 100 + broker
    return partition


def put(partition, *values, acks=1):
    """One batch for each value."""
    for value in values:
        partition.append(batch(value), acks, NOW)


def ask(leader, broker, question, now_ms=0):
    """The leader's answer, as a handler would give it."""
    try:
        diverging = leader.follower_fetch(BrokerLife(broker, 100 + broker), question, now_ms)
    except KafkaError as error:
        return FetchAnswer(error.code)
    mark, start = leader.high_watermark.value, leader.log.log_start_offset
    if diverging is not None:
        return FetchAnswer(ErrorCode.NONE, mark, start, diverging)
    found = leader.read(question.fetch_offset, 1 << 20, leader.log.end_offset, at_least_one=True)
    return FetchAnswer(ErrorCode.NONE, mark, start, records=leader.log.load(found) if found.size else b"")


def fetch(follower, leader, now_ms=0):
    """One round trip."""
    question = follower.question()
    assert question is not None
    return follower.answer(question, ask(leader, follower.broker_id, question, now_ms), now_ms)


def content(partition):
    """(epoch, value) of everything in the log."""
    log, found, offset = partition.log, [], partition.log.log_start_offset
    while offset < log.end_offset:
        data = log.load(log.read(offset, 0, log.end_offset, at_least_one=True))
        header = read_header(data)
        found += [(header.leader_epoch, record.value) for record in records_of(data)]
        offset = header.last_offset + 1
    return found
