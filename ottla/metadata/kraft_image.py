"""A cluster of Apache Kafka as its metadata records tell it: every record changes the image a little.

Only what concerns data is kept in full. Of what is not supported here (ACLs, quotas, credentials, tokens) the image
knows how much there is. No I/O; `kraft_log` reads the records.
"""

import uuid
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Any

from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id
from ottla.protocol.messages import cluster_metadata as records

METADATA_VERSION = "metadata.version"
TOPIC_RESOURCE = 2


@dataclass(frozen=True, slots=True)
class KraftPartition:
    """One partition; `directories` has the directory of each replica, if the cluster was new enough to say."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    directories: tuple[uuid.UUID, ...] = ()
    eligible: tuple[int, ...] = ()
    """Replicas outside the ISR that have everything, too (KIP-966)."""

    def has_everything(self, broker: int) -> bool:
        """Was every committed record on this broker?"""
        return broker in self.isr or broker in self.eligible


@dataclass(slots=True)
class KraftTopic:
    name: str
    topic_id: uuid.UUID
    partitions: dict[int, KraftPartition] = field(default_factory=dict)


@dataclass(slots=True)
class KraftImage:
    """What is left of all records that were applied."""

    topics: dict[uuid.UUID, KraftTopic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """Settings by the type and the name of their resource."""
    brokers: dict[int, tuple[uuid.UUID, ...]] = field(default_factory=dict)
    """The log directories of each broker, if the cluster was new enough to say."""
    voters: frozenset[int] | None = None
    """The controllers, if a record names them."""
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    zk_migration_state: int = 0
    acls: set[uuid.UUID] = field(default_factory=set)
    credentials: set[tuple[str, int]] = field(default_factory=set)
    quotas: set[tuple[tuple[tuple[str, str | None], ...], str]] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    _in_transaction: list[Any] | None = None

    def apply(self, record: Any) -> None:
        """Follow one record. One of a transaction waits for its end; if none comes, it never was."""
        if record.unknown_tags:
            raise ProtocolError(f"a {type(record).__name__} has fields that are not known")
        if isinstance(record, records.BeginTransactionRecord):
            self._in_transaction = []
        elif isinstance(record, records.AbortTransactionRecord):
            self._in_transaction = None
        elif isinstance(record, records.EndTransactionRecord):
            waiting, self._in_transaction = self._in_transaction, None
            for each in waiting or ():
                self._apply(each)
        elif self._in_transaction is not None:
            self._in_transaction.append(record)
        else:
            self._apply(record)

    @singledispatchmethod
    def _apply(self, record: Any) -> None:
        raise AssertionError(f"no rule for {type(record).__name__}")

    # --- brokers ------------------------------------------------------------------------------------------------

    @_apply.register
    def _(self, record: records.RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = tuple(record.log_dirs)

    @_apply.register
    def _(self, record: records.BrokerRegistrationChangeRecord) -> None:
        if record.log_dirs:
            self.brokers[record.broker_id] = tuple(record.log_dirs)

    @_apply.register
    def _(self, record: records.UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    @_apply.register
    def _(self, record: records.VotersRecord) -> None:
        self.voters = frozenset(voter.voter_id for voter in record.voters)

    # --- topics -------------------------------------------------------------------------------------------------

    @_apply.register
    def _(self, record: records.TopicRecord) -> None:
        self.topics[record.topic_id] = KraftTopic(record.name, record.topic_id)

    @_apply.register
    def _(self, record: records.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        del self.topics[record.topic_id]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)

    @_apply.register
    def _(self, record: records.PartitionRecord) -> None:
        self._topic(record.topic_id).partitions[record.partition_id] = KraftPartition(
            tuple(record.replicas),
            tuple(record.isr),
            record.leader_epoch,
            tuple(record.directories),
            tuple(record.eligible_leader_replicas or ()),
        )

    @_apply.register
    def _(self, record: records.PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise ProtocolError(
                f"a metadata record changes {topic.name}-{record.partition_id}, which is not there"
            )
        changed: dict[str, Any] = {
            name: tuple(value)
            for name, value in (
                ("replicas", record.replicas),
                ("isr", record.isr),
                ("directories", record.directories),
                ("eligible", record.eligible_leader_replicas),
            )
            if value is not None
        }
        if record.leader != records.NO_LEADER_CHANGE:  # it is the choice of a leader that begins an epoch
            changed["leader_epoch"] = before.leader_epoch + 1
        topic.partitions[record.partition_id] = replace(before, **changed)

    @_apply.register
    def _(self, record: records.ClearElrRecord) -> None:
        for topic in self.topics.values():
            if record.topic_name in ("", topic.name):
                topic.partitions = {
                    index: replace(each, eligible=()) for index, each in topic.partitions.items()
                }

    def _topic(self, topic_id: uuid.UUID) -> KraftTopic:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise ProtocolError(f"a metadata record is about topic {format_id(topic_id)}, which is not there")
        return topic

    # --- settings and the rest ----------------------------------------------------------------------------------

    @_apply.register
    def _(self, record: records.ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        values = self.configs.setdefault(resource, {})
        if record.value is not None:
            values[record.name] = record.value
        else:
            values.pop(record.name, None)
        if not values:
            del self.configs[resource]

    @_apply.register
    def _(self, record: records.ProducerIdsRecord) -> None:
        self.next_producer_id = max(self.next_producer_id, record.next_producer_id)

    @_apply.register
    def _(self, record: records.FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level

    @_apply.register
    def _(self, record: records.ZkMigrationStateRecord) -> None:
        self.zk_migration_state = record.zk_migration_state

    @_apply.register
    def _(self, record: records.AccessControlEntryRecord) -> None:
        self.acls.add(record.id)

    @_apply.register
    def _(self, record: records.RemoveAccessControlEntryRecord) -> None:
        self.acls.discard(record.id)

    @_apply.register
    def _(self, record: records.UserScramCredentialRecord) -> None:
        self.credentials.add((record.name, record.mechanism))

    @_apply.register
    def _(self, record: records.RemoveUserScramCredentialRecord) -> None:
        self.credentials.discard((record.name, record.mechanism))

    @_apply.register
    def _(self, record: records.ClientQuotaRecord) -> None:
        entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
        if record.remove:
            self.quotas.discard((entity, record.key))
        else:
            self.quotas.add((entity, record.key))

    @_apply.register
    def _(self, record: records.DelegationTokenRecord) -> None:
        self.tokens.add(record.token_id)

    @_apply.register
    def _(self, record: records.RemoveDelegationTokenRecord) -> None:
        self.tokens.discard(record.token_id)
