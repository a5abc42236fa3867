"""Partitions with real logs on a simulated disk, for handlers that look into them."""

import uuid

from ottla.broker.metrics import BrokerMetrics
from ottla.broker.replication import Replication
from ottla.core.clock import ManualClock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.exchange import BrokerLife, FetchQuestion
from ottla.replication.partition import Partition
from ottla.replication.state import PartitionState, TopicImage
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.broker.handlers.fakes import broker_with
from tests.unit.storage.helpers import NOW

EPOCH = 7


class Replicas:
    """As much of the broker's replicas as finds a partition."""

    def __init__(self):
        self.partitions = {}
        self.failed = []
        self.noted = {}
        self.refuses = None

    async def note_log_start(self, partition):
        if self.refuses is not None:
            raise self.refuses
        self.noted[partition.topic_partition] = partition.log.log_start_offset

    def get(self, topic, index):
        partition = self.partitions.get(TopicPartition(topic, index))
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{index}")
        return partition

    def note_failure(self, partition):
        self.failed.append(partition.topic_partition)


def led_partition(name="orders", *, leader=1, replicas=(1,), epoch=EPOCH, settings=None):
    """Partition 0 of a topic, as broker 1 holds it."""
    topic_id = uuid.uuid4()
    log = Log.open(SimDisk(), f"d/{name}-0", TopicConfig(settings or {}))
    partition = Partition(1, TopicPartition(name, 0), topic_id, log)
    partition.follow_orders(PartitionState(name, topic_id, 0, leader, epoch, 1, replicas, replicas))
    return partition


def copied(partition, replica, offset, now_ms=0):
    """A follower fetches from `offset` on, so it has everything below."""
    question = FetchQuestion(offset, -1, partition.leader_epoch, 0)
    assert partition.follower_fetch(BrokerLife(replica), question, now_ms) is None


def broker_of(*partitions, internal=()):
    images = [
        TopicImage(
            each.topic_partition.topic, each.topic_id, (each.state,), each.topic_partition.topic in internal
        )
        for each in partitions
    ]
    broker = broker_with(*images)
    broker.clock = ManualClock(NOW + 1000)
    broker.replicas = Replicas()
    broker.replicas.partitions = {each.topic_partition: each for each in partitions}
    broker.node_id, broker.may_lead, broker.metrics = 1, lambda: True, BrokerMetrics()
    broker.replication = Replication(broker)
    return broker
