"""Records of `__cluster_metadata`: how a cluster of Apache Kafka without ZooKeeper remembers itself.

Every change of the cluster is a record of that log, and a snapshot is the records that would lead to the same state. A
value stands in a frame: the frame's own version, the number of the record's kind, its version, each an unsigned varint,
then the record. `KINDS` has the kinds that say something about data; `WITHOUT_DATA` those that may be passed over.
"""

from collections.abc import Mapping
from typing import Any

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.codec import decode_exactly
from ottla.protocol.primitives import read_uvarint
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
    declaration,
    field,
    message,
    struct,
)

FRAME_VERSION = 1
NO_LEADER_CHANGE = -2


@message(versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    """A broker has come. v1 added controlled shutdowns, v2 brokers that come from ZooKeeper, v3 the ids of its log
    directories, v4 those of them that get no new partitions."""

    @struct
    class BrokerEndpoint:
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    @struct
    class BrokerFeature:
        name: String
        min_supported_version: Int16
        max_supported_version: Int16

    broker_id: Int32
    is_migrating_zk_broker: Bool = field("2+", default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None
    fenced: Bool = True
    in_controlled_shutdown: Bool = field("1+", default=False)
    log_dirs: list[Uuid] = field("3+", tag=0, default=[])
    cordoned_log_dirs: list[Uuid] | None = field("4+", tag=1, default=None)


@message(versions="0", flexible="0+")
class UnregisterBrokerRecord:
    """A broker is gone for good."""

    broker_id: Int32
    broker_epoch: Int64


@message(versions="0", flexible="0+")
class TopicRecord:
    """A topic was created; its partitions follow."""

    name: String
    topic_id: Uuid


@message(versions="0-2", flexible="0+")
class PartitionRecord:
    """All of a partition. v1 added the directories of its replicas, v2 who may lead it beside the ISR."""

    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(tag=0, default=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: list[Uuid] = field("1+", default=[])
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=1, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=2, default=None)


@message(versions="0", flexible="0+")
class ConfigRecord:
    """One setting of a resource; null takes it away."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@message(versions="0-2", flexible="0+")
class PartitionChangeRecord:
    """What is different about a partition; what is not named stays. Versions are those of `PartitionRecord`."""

    partition_id: Int32 = -1
    topic_id: Uuid
    isr: list[Int32] | None = field(tag=0, default=None)
    leader: Int32 = field(tag=1, default=NO_LEADER_CHANGE)
    replicas: list[Int32] | None = field(tag=2, default=None)
    removing_replicas: list[Int32] | None = field(tag=3, default=None)
    adding_replicas: list[Int32] | None = field(tag=4, default=None)
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    directories: list[Uuid] | None = field("1+", tag=8, default=None)
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=6, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=7, default=None)


@message(versions="0", flexible="0+")
class RemoveTopicRecord:
    """A topic is gone, with its partitions and its settings."""

    topic_id: Uuid


@message(versions="0", flexible="0+")
class DelegationTokenRecord:
    """A token that stands for its owner."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


@message(versions="0", flexible="0+")
class UserScramCredentialRecord:
    """How a user proves who he is."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@message(versions="0", flexible="0+")
class FeatureLevelRecord:
    """Up to which level a feature may be used; 0 ends it. `metadata.version` is one of them."""

    name: String
    feature_level: Int16


@message(versions="0", flexible="0+")
class ClientQuotaRecord:
    """One quota of a user, a client, an address, or of a combination."""

    @struct
    class EntityData:
        entity_type: String
        entity_name: String | None

    entity: list[EntityData]
    key: String
    value: Float64
    remove: Bool


@message(versions="0", flexible="0+")
class ProducerIdsRecord:
    """A block of producer ids was given away; the next one starts here."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@message(versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    """What is different about a broker."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(tag=0, default=0)
    in_controlled_shutdown: Int8 = field("1+", tag=1, default=0)
    log_dirs: list[Uuid] = field("2+", tag=2, default=[])
    cordoned_log_dirs: list[Uuid] | None = field("3+", tag=3, default=None)


@message(versions="0", flexible="0+")
class AccessControlEntryRecord:
    """Somebody may, or may not, do something."""

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
    """An ACL is gone."""

    id: Uuid


@message(versions="0", flexible="0+")
class ZkMigrationStateRecord:
    """How far a cluster has come on its way from ZooKeeper."""

    zk_migration_state: Int8


@message(versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    """A credential is gone."""

    name: String
    mechanism: Int8


@message(versions="0", flexible="0+")
class BeginTransactionRecord:
    """The records that follow hold when the transaction ends, all of them or none."""

    name: String | None = field(tag=0, default=None)


@message(versions="0", flexible="0+")
class EndTransactionRecord:
    """The records since its beginning hold."""


@message(versions="0", flexible="0+")
class AbortTransactionRecord:
    """The records since its beginning never were."""

    reason: String | None = field(tag=0, default=None)


@message(versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    """A token is gone."""

    token_id: String


@message(versions="0", flexible="0+")
class ClearElrRecord:
    """Nobody outside the ISR may lead a topic any more, or any topic if the name is empty."""

    topic_name: String


@message(versions="0", flexible="0+")
class VotersRecord:
    """The controllers that decide together. It is a control record, in log and snapshot."""

    @struct
    class Voter:
        @struct
        class Endpoint:
            name: String
            host: String
            port: UInt16

        @struct
        class KRaftVersionFeature:
            min_supported_version: Int16
            max_supported_version: Int16

        voter_id: Int32
        voter_directory_id: Uuid
        endpoints: list[Endpoint]
        kraft_version_feature: KRaftVersionFeature

    version: Int16
    voters: list[Voter]


KINDS: Mapping[int, type[Any]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    28: ClearElrRecord,
}
WITHOUT_DATA: Mapping[int, str] = {
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    20: "NoOpRecord",
    27: "RegisterControllerRecord",
}


def decode_record(value: Buffer) -> Any | None:
    """The record in a frame; None for one that says nothing about data. What a newer Kafka wrote is refused: nobody
    can tell what would be lost with it."""
    try:
        frame, position = read_uvarint(value, 0)
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise ProtocolError(f"a metadata record of {len(value)} bytes has no whole frame") from None
    if frame != FRAME_VERSION:
        raise ProtocolError(f"a metadata record has a frame of version {frame}, which is not known")
    if kind in WITHOUT_DATA:
        return None
    cls = KINDS.get(kind)
    if cls is None:
        raise ProtocolError(f"a metadata record is of kind {kind}, which is not known")
    if version not in declaration(cls).versions:
        raise ProtocolError(f"a {cls.__name__} has version {version}, which is not known")
    return decode_exactly(cls, value, version, position)
