"""What goes over the network of a simulated cluster: the requests of Kafka, as values.

Answers name their question, by number or whole, so that a late one can be told from the one that is waited for. Whether
it is told apart is up to whoever gets it: the network hides nothing.
"""

import uuid
from typing import Any, NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.replication.exchange import BrokerLife, FetchAnswer, FetchQuestion, Proposal
from ottla.replication.state import TopicImage
from ottla.storage.txn_index import AbortedTxn
from ottla.testing.simulation.cluster.object_log import Record


class Fetch(NamedTuple):
    """A follower asks its leader."""

    partition: TopicPartition
    topic_id: uuid.UUID
    life: BrokerLife
    question: FetchQuestion


class Fetched(NamedTuple):
    """The leader's answer; `ends` are start and end of its log, for those who are out of range."""

    partition: TopicPartition
    topic_id: uuid.UUID
    question: FetchQuestion
    answer: FetchAnswer
    ends: tuple[int, int]


class Produce(NamedTuple):
    number: int
    partition: TopicPartition
    record: Record
    acks: int


class Produced(NamedTuple):
    number: int
    error: ErrorCode
    offset: int = -1


class Read(NamedTuple):
    """A consumer asks, wherever it thinks that the records are."""

    number: int
    partition: TopicPartition
    offset: int
    leader_epoch: int
    read_committed: bool


class ReadAnswer(NamedTuple):
    number: int
    error: ErrorCode
    records: tuple[Record, ...] = ()
    aborted: tuple[AbortedTxn, ...] = ()
    high_watermark: int = -1
    end: int = -1
    """How far this kind of reader may see."""


class AskMetadata(NamedTuple):
    number: int


class MetadataAnswer(NamedTuple):
    number: int
    controller: int
    topics: tuple[TopicImage, ...]


class Alter(NamedTuple):
    """AlterPartition: a leader asks the controller for another ISR."""

    number: int
    broker: int
    broker_epoch: int
    proposal: Proposal


class Stop(NamedTuple):
    """ControlledShutdown."""

    number: int
    broker: int
    broker_epoch: int


class Errand(NamedTuple):
    """What an administrator asks of the controller."""

    number: int
    work: Any


class Order(NamedTuple):
    """LeaderAndIsr, StopReplica, UpdateMetadata: the controller tells a broker."""

    number: int
    request: Any
    broker_epoch: int = -1


class Answer(NamedTuple):
    """What came of one of these: something, or an error."""

    number: int
    value: Any
    error: ErrorCode = ErrorCode.NONE
