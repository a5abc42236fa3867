"""Producers and transactions: who has what open, and how to end it by force."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.routes import Answers, Client, all_of, by_topic, check, outcome, the_one
from ottla.client.cluster import TRANSACTION
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_FENCING_MS_MAX = 60_000  # far below transaction.max.timeout.ms: nothing is written under it


class ProducerState(NamedTuple):
    """What the leader of a partition remembers of a producer. Times are milliseconds since 1970."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    """That of its last marker there, if there is one."""
    current_txn_start_offset: int | None
    """Where its open transaction starts, if it has one."""


class TransactionListing(NamedTuple):
    """That there is such a transactional id."""

    transactional_id: str
    producer_id: int
    state: str
    """As Kafka spells it: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead."""


class TransactionDescription(NamedTuple):
    """What a coordinator knows of a transactional id."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    partitions: frozenset[TopicPartition]


class FencedProducer(NamedTuple):
    """The id and epoch that a new producer would have: older epochs are refused from now on."""

    producer_id: int
    producer_epoch: int


async def describe_producers(
    admin: Client,
    partitions: Iterable[TopicPartition],
    *,
    broker_id: int | None = None,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, tuple[ProducerState, ...]]:
    """The producers that have written to partitions, as their leaders remember them, or another replica."""
    routes = admin._routes

    async def ask_one(
        node_id: int, some: list[TopicPartition]
    ) -> Answers[TopicPartition, tuple[ProducerState, ...]]:
        kind = DescribeProducersRequest.Topic
        request = DescribeProducersRequest(
            topics=[kind(name=t, partition_indexes=numbers) for t, numbers in by_topic(some).items()]
        )
        answer: DescribeProducersResponse = await routes.cluster.ask(node_id, request)
        return {
            (key := TopicPartition(topic.name, row.partition_index)): outcome(
                row.error_code, str(key), row.error_message, tuple(map(_producer, row.active_producers))
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def ask(some: list[TopicPartition]) -> Answers[TopicPartition, tuple[ProducerState, ...]]:
        if broker_id is None:
            return await routes.by_leader(some, ask_one)
        await routes.cluster.refresh([])
        return await routes.from_brokers({broker_id: some}, ask_one)

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(partitions, ask, deadline, "the producers were not described")
    return all_of(answers, "the description of producers")


def _producer(row: DescribeProducersResponse.Topic.Partition.Producer) -> ProducerState:
    start = row.current_txn_start_offset
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        None if row.coordinator_epoch < 0 else row.coordinator_epoch,
        None if start < 0 else start,
    )


async def list_transactions(
    admin: Client,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    duration_ms: int = -1,
    transactional_id_pattern: str | None = None,
    timeout_ms: float | None = None,
) -> dict[str, TransactionListing]:
    """The transactional ids that the coordinators know: all, or those in a state, of a producer, open for longer than
    so many milliseconds, or of a name that matches (in the syntax of RE2)."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=transactional_id_pattern,
    )

    async def ask_one(node_id: int, _: list[int]) -> Answers[int, list[TransactionListing]]:
        answer: ListTransactionsResponse = await routes.cluster.ask(node_id, request)
        check(answer.error_code, f"the transactions of broker {node_id}")
        if answer.unknown_state_filters:
            named = ", ".join(answer.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no such state of a transaction: {named}")
        return {
            node_id: [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state)
                for row in answer.transaction_states
            ]
        }

    async def ask(some: list[int]) -> Answers[int, list[TransactionListing]]:
        return await routes.from_brokers({each: [each] for each in some}, ask_one)

    failed = "the transactions were not listed"
    brokers = await routes.patient(routes.brokers, deadline, failed)
    answers = await routes.settle(brokers, ask, deadline, failed)
    rows = [row for each in all_of(answers, "the listing of transactions").values() for row in each]
    return {row.transactional_id: row for row in sorted(rows)}


async def describe_transactions(
    admin: Client, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
) -> dict[str, TransactionDescription]:
    """The state, owner, age and partitions of transactions."""
    routes = admin._routes

    async def ask_one(node_id: int, some: list[str]) -> Answers[str, TransactionDescription]:
        request = DescribeTransactionsRequest(transactional_ids=some)
        answer: DescribeTransactionsResponse = await routes.ask_coordinator(node_id, request)
        return {
            (key := row.transactional_id): outcome(
                row.error_code, f"transactional id {key}", None, _transaction(node_id, row)
            )
            for row in answer.transaction_states
        }

    async def ask(some: list[str]) -> Answers[str, TransactionDescription]:
        return await routes.by_coordinator(TRANSACTION, some, ask_one)

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(transactional_ids, ask, deadline, "the transactions were not described")
    return all_of(answers, "the description of transactions")


def _transaction(node_id: int, row: DescribeTransactionsResponse.Transaction) -> TransactionDescription:
    start = row.transaction_start_time_ms
    return TransactionDescription(
        row.transactional_id,
        node_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        None if start < 0 else start,
        frozenset(TopicPartition(topic.topic, each) for topic in row.topics for each in topic.partitions),
    )


async def abort_transaction(
    admin: Client,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int | None = None,
    timeout_ms: float | None = None,
) -> None:
    """End a transaction that hangs in a partition, one that its coordinator does not know: a marker is written there
    past all coordinators. The numbers are those of `describe_producers`. To a transaction that is alive, do not do
    this: `fence_producers` ends it everywhere.
    """
    routes = admin._routes
    kind = WriteTxnMarkersRequest.Marker
    marker = kind(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[kind.Topic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=coordinator_epoch or 0,
    )

    async def ask_one(node_id: int, _: list[TopicPartition]) -> Answers[TopicPartition, None]:
        request = WriteTxnMarkersRequest(markers=[marker])
        answer: WriteTxnMarkersResponse = await routes.cluster.ask(node_id, request)
        return {
            TopicPartition(topic.name, row.partition_index): outcome(
                row.error_code, f"the transaction of producer {producer_id} in {partition}", None, None
            )
            for each in answer.markers
            for topic in each.topics
            for row in topic.partitions
        }

    async def ask(some: list[TopicPartition]) -> Answers[TopicPartition, None]:
        return await routes.by_leader(some, ask_one)

    deadline = routes.deadline(timeout_ms)
    the_one(await routes.settle([partition], ask, deadline, "the transaction was not aborted"))


async def fence_producers(
    admin: Client, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
) -> dict[str, FencedProducer]:
    """Take transactional ids away from their producers. What they have open is aborted."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)

    async def ask_one(node_id: int, some: list[str]) -> Answers[str, FencedProducer]:
        answers: Answers[str, FencedProducer] = {}
        for key in some:
            request = InitProducerIdRequest(
                transactional_id=key,
                transaction_timeout_ms=min(_FENCING_MS_MAX, routes.broker_ms(deadline)),
            )
            answer: InitProducerIdResponse = await routes.ask_coordinator(node_id, request)
            fenced = FencedProducer(answer.producer_id, answer.producer_epoch)
            answers[key] = outcome(answer.error_code, f"transactional id {key}", None, fenced)
        return answers

    async def ask(some: list[str]) -> Answers[str, FencedProducer]:
        return await routes.by_coordinator(TRANSACTION, some, ask_one)

    answers = await routes.settle(transactional_ids, ask, deadline, "the producers were not fenced")
    return all_of(answers, "the fencing of producers")
