"""The cluster as a whole: its brokers, its features, its quorum."""

import enum
import uuid
from collections.abc import Mapping
from typing import NamedTuple

import ottla
from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.routes import Answers, Client, Routes, all_of, check, failure
from ottla.client.errors import UnsupportedVersionError
from ottla.client.metadata import Node
from ottla.core.errors import KafkaError
from ottla.core.ids import NULL_ID
from ottla.protocol.messages.cluster import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumReplica,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.protocol.messages.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)

_METADATA_TOPIC = "__cluster_metadata"
_OPERATIONS_UNTIL = 10  # Metadata: later versions have DescribeCluster beside them


class BrokerDescription(NamedTuple):
    """A broker. A fenced one is registered, but does not take part."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class ClusterDescription(NamedTuple):
    """Who there is. With KRaft the controller is any broker: it hands on what it is asked."""

    cluster_id: str | None
    controller: BrokerDescription | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


async def describe_cluster(
    admin: Client,
    *,
    include_authorized_operations: bool = False,
    include_fenced_brokers: bool = False,
    timeout_ms: float | None = None,
) -> ClusterDescription:
    """The brokers and the controller."""
    routes = admin._routes

    async def ask() -> ClusterDescription:
        try:
            await routes.version(DescribeClusterRequest)
        except UnsupportedVersionError:  # before 2.8
            if include_fenced_brokers:
                raise
            return await _from_metadata(routes, include_authorized_operations)
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        answer: DescribeClusterResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the cluster", answer.error_message)
        brokers = [
            BrokerDescription(row.broker_id, row.host, row.port, row.rack, row.is_fenced)
            for row in answer.brokers
        ]
        operations = operations_of(answer.cluster_authorized_operations)
        return _described(answer.cluster_id, answer.controller_id, brokers, operations)

    return await routes.patient(ask, routes.deadline(timeout_ms), "the cluster was not described")


async def _from_metadata(routes: Routes, with_operations: bool) -> ClusterDescription:
    request = MetadataRequest(
        topics=[],
        include_cluster_authorized_operations=with_operations,
    )
    answer: MetadataResponse = await routes.cluster.ask_any(request, version_max=_OPERATIONS_UNTIL)
    brokers = [BrokerDescription(row.node_id, row.host, row.port, row.rack) for row in answer.brokers]
    operations = operations_of(answer.cluster_authorized_operations)
    return _described(answer.cluster_id, answer.controller_id, brokers, operations)


def _described(
    cluster_id: str | None,
    controller_id: int,
    brokers: list[BrokerDescription],
    operations: frozenset[AclOperation] | None,
) -> ClusterDescription:
    controller = next((each for each in brokers if each.node_id == controller_id), None)
    ordered = tuple(sorted(brokers, key=lambda each: each.node_id))
    return ClusterDescription(cluster_id, controller, ordered, operations)


async def unregister_broker(admin: Client, broker_id: int, *, timeout_ms: float | None = None) -> None:
    """Forget a broker that will not come back (KRaft). To one that lives nothing good happens."""
    routes = admin._routes

    async def ask() -> None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        answer: UnregisterBrokerResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, f"broker {broker_id}", answer.error_message)

    await routes.patient(ask, routes.deadline(timeout_ms), f"broker {broker_id} was not unregistered")


# --- features -----------------------------------------------------------------------------------------------------


class Levels(NamedTuple):
    """The levels of a feature that a broker can run, both inclusive."""

    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """The levels in force in the cluster, and those that the broker which answered can run (KIP-584)."""

    finalized_features: Mapping[str, int]
    supported_features: Mapping[str, Levels]
    finalized_features_epoch: int | None


class UpgradeType(enum.IntEnum):
    """Which way a feature's level may go. An unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level to go to; 0 takes the feature out of use."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


async def describe_features(admin: Client, *, timeout_ms: float | None = None) -> FeatureMetadata:
    """The features of the cluster and their levels."""
    routes = admin._routes
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version=ottla.__version__)

    async def ask() -> FeatureMetadata:
        answer: ApiVersionsResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the features")
        epoch = answer.finalized_features_epoch
        return FeatureMetadata(
            {row.name: row.max_version_level for row in answer.finalized_features},
            {row.name: Levels(row.min_version, row.max_version) for row in answer.supported_features},
            None if epoch < 0 else epoch,
        )

    return await routes.patient(ask, routes.deadline(timeout_ms), "the features were not described")


async def update_features(
    admin: Client,
    feature_updates: Mapping[str, FeatureUpdate | int],
    *,
    validate_only: bool = False,
    timeout_ms: float | None = None,
) -> None:
    """Take features to other levels, all or none of them."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    wanted = {
        name: FeatureUpdate(each) if isinstance(each, int) else each for name, each in feature_updates.items()
    }

    async def ask() -> Answers[str, None]:
        is_old = await routes.version(UpdateFeaturesRequest) < 1
        kind = UpdateFeaturesRequest.FeatureUpdate
        updates = [
            kind(
                feature=name,
                max_version_level=each.max_version_level,
                allow_downgrade=is_old and each.upgrade_type != UpgradeType.UPGRADE,
                upgrade_type=UpgradeType.UPGRADE if is_old else int(each.upgrade_type),
            )
            for name, each in wanted.items()
        ]
        request = UpdateFeaturesRequest(
            timeout_ms=routes.broker_ms(deadline), feature_updates=updates, validate_only=validate_only
        )
        answer: UpdateFeaturesResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, "the update of features", answer.error_message)
        failures: dict[str, KafkaError] = {
            row.feature: failure(row.error_code, f"feature {row.feature}", row.error_message)
            for row in answer.results
            if row.error_code
        }
        return {**dict.fromkeys(wanted), **failures}

    answers = await routes.patient(ask, deadline, "the features were not updated")
    all_of(answers, "the update of features")


# --- the quorum ---------------------------------------------------------------------------------------------------


class QuorumReplicaState(NamedTuple):
    """How far a voter or an observer has come. Times are milliseconds since 1970, None if unknown."""

    replica_id: int
    replica_directory_id: uuid.UUID | None
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


class QuorumInfo(NamedTuple):
    """The controllers of a KRaft cluster, and how they keep up."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaState, ...]
    observers: tuple[QuorumReplicaState, ...]
    nodes: Mapping[int, tuple[Node, ...]]
    """Where the voters listen, as far as the broker tells."""


async def describe_metadata_quorum(admin: Client, *, timeout_ms: float | None = None) -> QuorumInfo:
    """The Raft quorum that keeps the cluster's metadata."""
    routes = admin._routes
    kind = DescribeQuorumRequest.Topic
    request = DescribeQuorumRequest(
        topics=[kind(topic_name=_METADATA_TOPIC, partitions=[kind.Partition(partition_index=0)])]
    )

    async def ask() -> QuorumInfo:
        answer: DescribeQuorumResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the quorum", answer.error_message)
        rows = [row for topic in answer.topics for row in topic.partitions]
        if len(rows) != 1:
            raise UnsupportedVersionError("the broker's answer names no quorum")
        row = rows[0]
        check(row.error_code, "the quorum", row.error_message)
        nodes = {
            each.node_id: tuple(Node(each.node_id, end.host, end.port) for end in each.listeners)
            for each in answer.nodes
        }
        voters = tuple(_replica(each) for each in row.current_voters)
        observers = tuple(_replica(each) for each in row.observers)
        return QuorumInfo(row.leader_id, row.leader_epoch, row.high_watermark, voters, observers, nodes)

    return await routes.patient(ask, routes.deadline(timeout_ms), "the quorum was not described")


def _replica(row: QuorumReplica) -> QuorumReplicaState:
    directory = row.replica_directory_id
    return QuorumReplicaState(
        row.replica_id,
        None if directory == NULL_ID else directory,
        row.log_end_offset,
        None if row.last_fetch_timestamp < 0 else row.last_fetch_timestamp,
        None if row.last_caught_up_timestamp < 0 else row.last_caught_up_timestamp,
    )
