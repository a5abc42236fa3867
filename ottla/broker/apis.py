"""The APIs that this broker serves, in which versions, and where their handlers are.

The ranges stand here as plain numbers, so that ApiVersions, the first request of every connection, is answered
without importing messages that nobody sends. A handler is found by name when the first request of its API comes:
the module is called as the module of the messages, the function as the API. Whoever adds an API adds a row.

Old versions stay, also those that Kafka 4 has dropped: aiokafka and kafkajs speak nothing flexible, and an old
librdkafka sends uncompressed batches to a broker whose Produce does not start at 0.
"""

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.protocol.apis import Api, api_of

Handler = Callable[..., Any]
"""`handler(broker, call, request)` returns the response, or an awaitable of it. None means that none is sent."""


class Served(NamedTuple):
    """One row: an API, and the versions of it that a client may send."""

    key: int
    min_version: int
    max_version: int
    is_listed: bool = True
    """Does ApiVersions tell of it? Clients walk through what they find there: they find only what Kafka has too."""

    @property
    def api(self) -> Api:
        return api_of(self.key)

    @property
    def function(self) -> str:
        """The name of its handler: ListOffsets is served by `list_offsets`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.api.name).lower()


SERVED: dict[int, Served] = {
    row.key: row
    for row in (
        Served(0, 0, 13),  # Produce
        Served(1, 0, 18),  # Fetch
        Served(2, 0, 11),  # ListOffsets
        Served(3, 0, 13),  # Metadata
        Served(4, 5, 7),  # LeaderAndIsr
        Served(5, 3, 4),  # StopReplica
        Served(6, 7, 8),  # UpdateMetadata
        Served(7, 2, 3),  # ControlledShutdown
        Served(8, 0, 10),  # OffsetCommit
        Served(9, 0, 10),  # OffsetFetch
        Served(10, 0, 6),  # FindCoordinator
        Served(11, 0, 9),  # JoinGroup
        Served(12, 0, 4),  # Heartbeat
        Served(13, 0, 5),  # LeaveGroup
        Served(14, 0, 5),  # SyncGroup
        Served(15, 0, 6),  # DescribeGroups
        Served(16, 0, 5),  # ListGroups
        Served(18, 0, 4),  # ApiVersions
        Served(19, 0, 7),  # CreateTopics
        Served(20, 0, 6),  # DeleteTopics
        Served(21, 0, 2),  # DeleteRecords
        Served(22, 0, 6),  # InitProducerId
        Served(23, 0, 4),  # OffsetForLeaderEpoch
        Served(24, 0, 5),  # AddPartitionsToTxn
        Served(25, 0, 4),  # AddOffsetsToTxn
        Served(26, 0, 5),  # EndTxn
        Served(27, 0, 2),  # WriteTxnMarkers
        Served(28, 0, 5),  # TxnOffsetCommit
        Served(32, 0, 4),  # DescribeConfigs
        Served(33, 0, 2),  # AlterConfigs
        Served(34, 0, 2),  # AlterReplicaLogDirs
        Served(35, 0, 5),  # DescribeLogDirs
        Served(37, 0, 3),  # CreatePartitions
        Served(42, 0, 2),  # DeleteGroups
        Served(43, 0, 2),  # ElectLeaders
        Served(44, 0, 1),  # IncrementalAlterConfigs
        Served(45, 0, 1),  # AlterPartitionReassignments
        Served(46, 0, 0),  # ListPartitionReassignments
        Served(47, 0, 0),  # OffsetDelete
        Served(56, 2, 3),  # AlterPartition
        Served(60, 0, 2),  # DescribeCluster
        Served(61, 0, 0),  # DescribeProducers
        Served(65, 0, 0),  # DescribeTransactions
        Served(66, 0, 2),  # ListTransactions
        Served(67, 0, 0),  # AllocateProducerIds
        Served(68, 0, 1),  # ConsumerGroupHeartbeat
        Served(69, 0, 1),  # ConsumerGroupDescribe
        Served(71, 0, 0),  # GetTelemetrySubscriptions
        Served(72, 0, 0),  # PushTelemetry
        Served(74, 0, 1),  # ListConfigResources
        Served(75, 0, 0),  # DescribeTopicPartitions
        Served(20000, 0, 0, is_listed=False),  # CompactTopics, which is Ottla's own
        Served(20001, 0, 0, is_listed=False),  # ReplicasFailed, likewise
    )
}


class Feature(NamedTuple):
    """A feature of the cluster (KIP-584): the levels we can run, and the one that is in force."""

    name: str
    min_level: int
    max_level: int
    finalized_level: int


FEATURES: tuple[Feature, ...] = (
    Feature("group.version", 0, 1, 1),  # 1: the consumer protocol (KIP-848)
    Feature("transaction.version", 0, 2, 2),  # 2: every transaction has an epoch of its own (KIP-890)
)
"""Clients choose by these how they speak to coordinators."""


def is_served(key: int, version: int) -> bool:
    row = SERVED.get(key)
    return row is not None and row.min_version <= version <= row.max_version


@functools.cache
def handler_of(key: int) -> Handler:
    """What answers requests of this API; imports its module at first use. The key must be served."""
    row = SERVED[key]
    module = importlib.import_module(f"ottla.broker.handlers.{row.api.module}")
    found: Handler = getattr(module, row.function)
    return found
