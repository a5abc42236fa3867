"""The records of Apache's `__cluster_metadata`, which Kafka has instead of ZooKeeper, as far as they must be shown.

Nothing here writes them: Ottla keeps its metadata elsewhere. Versions and fields are those of Kafka 4.3.
"""

from typing import Any

from ottla.protocol.schema import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    field,
    message,
    struct,
)


@struct
class Endpoint:
    """Where a node listens."""

    name: String
    host: String
    port: UInt16
    security_protocol: Int16


@struct
class Feature:
    """Which levels of a feature a node can do."""

    name: String
    min_supported_version: Int16
    max_supported_version: Int16


# --- nodes ------------------------------------------------------------------------------------------------------------


@message(versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    """A broker has come."""

    broker_id: Int32
    is_migrating_zk_broker: Bool = field("2+", default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[Endpoint]
    features: list[Feature]
    rack: String | None
    fenced: Bool
    in_controlled_shutdown: Bool = field("1+", default=False)
    log_dirs: list[Uuid] = field("3+", tag=0, default=[])
    cordoned_log_dirs: list[Uuid] | None = field("4+", tag=1, default=None)


@message(versions="0", flexible="0+")
class UnregisterBrokerRecord:
    """A broker is gone for good."""

    broker_id: Int32
    broker_epoch: Int64


@message(versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    """What changed about a broker."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(tag=0, default=0)
    in_controlled_shutdown: Int8 = field("1+", tag=1, default=0)
    log_dirs: list[Uuid] = field("2+", tag=2, default=[])
    cordoned_log_dirs: list[Uuid] | None = field("3+", tag=3, default=None)


@message(versions="0", flexible="0+")
class FenceBrokerRecord:
    """A broker is silent."""

    id: Int32
    epoch: Int64


@message(versions="0", flexible="0+")
class UnfenceBrokerRecord:
    """A broker may lead again."""

    id: Int32
    epoch: Int64


@message(versions="0", flexible="0+")
class RegisterControllerRecord:
    """A controller has come."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[Endpoint]
    features: list[Feature]


@message(versions="0", flexible="0+")
class ZkMigrationStateRecord:
    """How far a move from ZooKeeper has come."""

    zk_migration_state: Int8


@message(versions="0", flexible="0+")
class FeatureLevelRecord:
    """The level of a feature that holds from now on."""

    name: String
    feature_level: Int16


@message(versions="0", flexible="0+")
class ProducerIdsRecord:
    """A block of producer ids for a broker."""

    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


# --- topics -----------------------------------------------------------------------------------------------------------


@message(versions="0", flexible="0+")
class TopicRecord:
    """A new topic."""

    name: String
    topic_id: Uuid


@message(versions="0", flexible="0+")
class RemoveTopicRecord:
    """The end of a topic."""

    topic_id: Uuid


@message(versions="0-2", flexible="0+")
class PartitionRecord:
    """A partition, and all about it."""

    partition_id: Int32
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32
    leader_recovery_state: Int8 = field(tag=0, default=0)
    leader_epoch: Int32
    partition_epoch: Int32
    directories: list[Uuid] = field("1+", default=[])
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=1, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=2, default=None)


@message(versions="0-2", flexible="0+")
class PartitionChangeRecord:
    """What changed about a partition."""

    partition_id: Int32
    topic_id: Uuid
    isr: list[Int32] | None = field(tag=0, default=None)
    leader: Int32 = field(tag=1, default=-2)
    replicas: list[Int32] | None = field(tag=2, default=None)
    removing_replicas: list[Int32] | None = field(tag=3, default=None)
    adding_replicas: list[Int32] | None = field(tag=4, default=None)
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    directories: list[Uuid] | None = field("1+", tag=8, default=None)
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=6, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=7, default=None)


@message(versions="0", flexible="0+")
class ClearElrRecord:
    """The eligible leader replicas of a topic, or of all, no longer count."""

    topic_name: String


# --- settings, quotas, and who may do what ----------------------------------------------------------------------------


@message(versions="0", flexible="0+")
class ConfigRecord:
    """A setting."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@message(versions="0", flexible="0+")
class ClientQuotaRecord:
    """A quota."""

    @struct
    class Entity:
        entity_type: String
        entity_name: String | None

    entity: list[Entity]
    key: String
    value: Float64
    remove: Bool


@message(versions="0", flexible="0+")
class AccessControlEntryRecord:
    """An ACL."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(versions="0", flexible="0+")
class RemoveAccessControlEntryRecord:
    """The end of an ACL."""

    id: Uuid


@message(versions="0", flexible="0+")
class UserScramCredentialRecord:
    """The password of a user, as SCRAM keeps it."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@message(versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    """The end of a password."""

    name: String
    mechanism: Int8


@message(versions="0", flexible="0+")
class DelegationTokenRecord:
    """A token that stands for a user."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


@message(versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    """The end of a token."""

    token_id: String


# --- the log itself ---------------------------------------------------------------------------------------------------


@message(versions="0", flexible="0+")
class NoOpRecord:
    """Nothing; it shows that the controller lives."""


@message(versions="0", flexible="0+")
class BeginTransactionRecord:
    """What follows counts together, or not at all."""

    name: String | None = field(tag=0, default=None)


@message(versions="0", flexible="0+")
class EndTransactionRecord:
    """It counts."""


@message(versions="0", flexible="0+")
class AbortTransactionRecord:
    """It does not."""

    reason: String | None = field(tag=0, default=None)


RECORDS: dict[int, type[Any]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
}
