"""What replicas say to each other and to the controller. Values, never changed."""

import uuid
from typing import Any, NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.replication.state import NO_EPOCH
from ottla.storage.epochs import EpochEnd

UNKNOWN = -1
"""Of an offset or a leader epoch."""


class FetchQuestion(NamedTuple):
    """What a follower asks the leader of one partition for. It has everything below `fetch_offset`, the last of it
    written in `last_fetched_epoch`."""

    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int


class FetchAnswer(NamedTuple):
    """What the leader says: records, or where the follower's log stopped being the leader's, or an error."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    diverging: EpochEnd | None = None
    records: Any = b""


class BrokerLife(NamedTuple):
    """A broker in one of its lives; NO_EPOCH where nobody has heard of it in this one yet."""

    broker: int
    epoch: int = NO_EPOCH


class Proposal(NamedTuple):
    """A leader asks the controller for another ISR (AlterPartition): of this partition, in this state of it."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerLife, ...]

    @property
    def members(self) -> frozenset[int]:
        return frozenset(life.broker for life in self.isr)
