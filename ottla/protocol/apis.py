"""Every API we can speak: its key, its name, and the module that declares its messages.

A message module is imported when the first request of its key arrives: declaring all messages at start would
cost a quarter of a second. Version ranges are not repeated here; they stand on the message classes.

`APIS` are Kafka's. `PRIVATE` are Ottla's own, with keys that Kafka will not reach: only our commands send them.
"""

import functools
import importlib
from typing import Any, NamedTuple

from ottla.core.errors import ProtocolError
from ottla.protocol.schema import declaration
from ottla.protocol.wiretypes import Versions


class Api(NamedTuple):
    """One row of the table. Reading anything but the row itself imports the message module."""

    key: int
    name: str
    module: str

    @property
    def request(self) -> type[Any]:
        return _message_class(self.module, f"{self.name}Request")

    @property
    def response(self) -> type[Any]:
        return _message_class(self.module, f"{self.name}Response")

    @property
    def versions(self) -> Versions:
        return declaration(self.request).versions

    @property
    def flexible(self) -> Versions:
        declared = declaration(self.request)
        return declared.flexible & declared.versions


@functools.cache
def _message_class(module: str, name: str) -> type[Any]:
    found: type[Any] = getattr(importlib.import_module(f"ottla.protocol.messages.{module}"), name)
    return found


APIS: dict[int, Api] = {
    row.key: row
    for row in (
        Api(0, "Produce", "produce"),
        Api(1, "Fetch", "fetch"),
        Api(2, "ListOffsets", "offsets"),
        Api(3, "Metadata", "metadata"),
        Api(4, "LeaderAndIsr", "inter_broker"),
        Api(5, "StopReplica", "inter_broker"),
        Api(6, "UpdateMetadata", "inter_broker"),
        Api(7, "ControlledShutdown", "inter_broker"),
        Api(8, "OffsetCommit", "offsets"),
        Api(9, "OffsetFetch", "offsets"),
        Api(10, "FindCoordinator", "groups"),
        Api(11, "JoinGroup", "groups"),
        Api(12, "Heartbeat", "groups"),
        Api(13, "LeaveGroup", "groups"),
        Api(14, "SyncGroup", "groups"),
        Api(15, "DescribeGroups", "groups"),
        Api(16, "ListGroups", "groups"),
        Api(17, "SaslHandshake", "sasl"),
        Api(18, "ApiVersions", "metadata"),
        Api(19, "CreateTopics", "topics"),
        Api(20, "DeleteTopics", "topics"),
        Api(21, "DeleteRecords", "offsets"),
        Api(22, "InitProducerId", "transactions"),
        Api(23, "OffsetForLeaderEpoch", "offsets"),
        Api(24, "AddPartitionsToTxn", "transactions"),
        Api(25, "AddOffsetsToTxn", "transactions"),
        Api(26, "EndTxn", "transactions"),
        Api(27, "WriteTxnMarkers", "transactions"),
        Api(28, "TxnOffsetCommit", "transactions"),
        Api(29, "DescribeAcls", "acls"),
        Api(30, "CreateAcls", "acls"),
        Api(31, "DeleteAcls", "acls"),
        Api(32, "DescribeConfigs", "configs"),
        Api(33, "AlterConfigs", "configs"),
        Api(34, "AlterReplicaLogDirs", "cluster"),
        Api(35, "DescribeLogDirs", "cluster"),
        Api(36, "SaslAuthenticate", "sasl"),
        Api(37, "CreatePartitions", "topics"),
        Api(38, "CreateDelegationToken", "tokens"),
        Api(39, "RenewDelegationToken", "tokens"),
        Api(40, "ExpireDelegationToken", "tokens"),
        Api(41, "DescribeDelegationToken", "tokens"),
        Api(42, "DeleteGroups", "groups"),
        Api(43, "ElectLeaders", "topics"),
        Api(44, "IncrementalAlterConfigs", "configs"),
        Api(45, "AlterPartitionReassignments", "topics"),
        Api(46, "ListPartitionReassignments", "topics"),
        Api(47, "OffsetDelete", "offsets"),
        Api(48, "DescribeClientQuotas", "quotas"),
        Api(49, "AlterClientQuotas", "quotas"),
        Api(50, "DescribeUserScramCredentials", "sasl"),
        Api(51, "AlterUserScramCredentials", "sasl"),
        Api(55, "DescribeQuorum", "cluster"),
        Api(56, "AlterPartition", "inter_broker"),
        Api(57, "UpdateFeatures", "cluster"),
        Api(60, "DescribeCluster", "metadata"),
        Api(61, "DescribeProducers", "transactions"),
        Api(64, "UnregisterBroker", "cluster"),
        Api(65, "DescribeTransactions", "transactions"),
        Api(66, "ListTransactions", "transactions"),
        Api(67, "AllocateProducerIds", "inter_broker"),
        Api(68, "ConsumerGroupHeartbeat", "consumer_groups"),
        Api(69, "ConsumerGroupDescribe", "consumer_groups"),
        Api(71, "GetTelemetrySubscriptions", "telemetry"),
        Api(72, "PushTelemetry", "telemetry"),
        Api(74, "ListConfigResources", "configs"),
        Api(75, "DescribeTopicPartitions", "metadata"),
        Api(76, "ShareGroupHeartbeat", "share"),
        Api(77, "ShareGroupDescribe", "share"),
        Api(78, "ShareFetch", "share"),
        Api(79, "ShareAcknowledge", "share"),
        Api(90, "DescribeShareGroupOffsets", "share_offsets"),
        Api(91, "AlterShareGroupOffsets", "share_offsets"),
        Api(92, "DeleteShareGroupOffsets", "share_offsets"),
    )
}

PRIVATE: dict[int, Api] = {
    row.key: row
    for row in (
        Api(20000, "CompactTopics", "compaction"),
        Api(20001, "ReplicasFailed", "inter_broker"),
    )
}


def api_of(key: int) -> Api:
    """The API with this key; a key that nobody declared is the peer's mistake."""
    found = APIS.get(key) or PRIVATE.get(key)
    if found is None:
        raise ProtocolError(f"no API has the key {key}")
    return found


def api_named(name: str) -> Api | None:
    """Look an API up as people type it: `Produce`, `produce`, `list-offsets`, `list_offsets` or its key."""
    wanted = name.lower().replace("-", "").replace("_", "")
    rows = (*APIS.values(), *PRIVATE.values())
    return next((row for row in rows if wanted in (row.name.lower(), str(row.key))), None)
