"""What a group of either protocol is to its shard, and what the shard is to its groups."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from ottla.core.clock import Moment
from ottla.core.timers import Timers
from ottla.replication.machine import Alarm, Entry, Ticket
from ottla.replication.state import TopicImage


class Asker(NamedTuple):
    """Who sent a request, and in which version."""

    api_version: int
    client_id: str
    client_host: str


class Settings(Protocol):
    """What the brains of groups obey, by the names of the settings."""

    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str


class GroupSettings(Protocol):
    """What can be set for a single group of the consumer protocol."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int


class Topics(Protocol):
    """The topics of the cluster, as far as this broker was told."""

    @property
    def topics(self) -> Mapping[str, TopicImage]: ...

    @property
    def topic_of_id(self) -> Mapping[uuid.UUID, TopicImage]: ...


class Surroundings(NamedTuple):
    """What a shard gives to its groups."""

    settings: Settings
    settings_of: Callable[[str], GroupSettings]
    """By group id."""
    topics: Topics
    timers: Timers[Alarm]
    new_id: Callable[[], uuid.UUID]
    """Chance comes from outside."""


class Group(Protocol):
    """A group, whichever protocol its members speak."""

    group_id: str
    type_name: str
    """As ListGroups names it: "Classic" or "Consumer"."""

    @property
    def state_name(self) -> str:
        """As ListGroups and describes name it: "Stable"."""

    @property
    def protocol_type(self) -> str:
        """As ListGroups names it: "consumer" for consumers, "" for a group that only keeps offsets."""

    @property
    def is_empty(self) -> bool: ...

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, asker: Asker, now: Moment, *, is_txn: bool
    ) -> None:
        """May this member, in this generation or epoch, commit? Raises KafkaError. Counts as a sign of life where
        Kafka counts it as one."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May offsets be fetched in the name of this member? Raises KafkaError."""

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND if it is dead."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Offsets of such topics are neither expired nor deleted. When in doubt: yes."""

    def empty_since_ms(self) -> int | None:
        """When it lost its last member, by the wall clock; None while it has some, or if it never had any (then each
        offset counts from its own commit)."""

    def tombstones(self) -> list[Entry]:
        """What erases the group itself, without its offsets."""

    def waiting(self) -> Iterable[Ticket]:
        """Whoever waits for a reply."""
