"""Transactions as coordinators know them and as partitions show them, and the difference between the two.

A transaction hangs when a partition holds its records open and no coordinator will ever end it: readers of committed
records wait behind it, and compaction does too. It is found as KIP-664 finds it: open transactions of partitions,
without those whose coordinator says that they are under way there. What is left is looked at a second time, because
a transaction may have ended while the coordinators were being asked.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.cli.remote import NOT_FOUND, TRANSACTION, Cluster, Failed, check, each_of, pieces
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
_DURATION_SINCE, _PATTERN_SINCE = 1, 2


class Listed(NamedTuple):
    """A transactional id that a broker coordinates."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class Wanted(NamedTuple):
    """Which transactions a list should hold; empty means all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None


async def listed(cluster: Cluster, wanted: Wanted) -> tuple[list[Listed], dict[int, Failed], set[str]]:
    """Those of all brokers by name, the brokers that did not answer, and the states that none of them knows."""
    request = ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=wanted.duration_ms,
        transactional_id_pattern=wanted.pattern,
    )
    needed = (
        _PATTERN_SINCE if wanted.pattern is not None else _DURATION_SINCE if wanted.duration_ms >= 0 else 0
    )
    answers = await cluster.everywhere(request, needed)
    found, unknown = [], set()
    for node_id, answer in answers.by_broker.items():
        assert isinstance(answer, ListTransactionsResponse)
        unknown |= set(answer.unknown_state_filters)
        found += [
            Listed(row.transactional_id, row.producer_id, row.transaction_state, node_id)
            for row in answer.transaction_states
        ]
    return sorted(found), answers.failures, unknown


class Transaction(NamedTuple):
    """What the coordinator knows of a transactional id."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int | None
    """None if none is open."""
    partitions: frozenset[TopicPartition]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


async def described(cluster: Cluster, transactional_id: str) -> Transaction:
    """Raises KafkaError, TRANSACTIONAL_ID_NOT_FOUND among them."""

    async def once() -> Transaction:
        node_id = await cluster.coordinator(transactional_id, TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer: DescribeTransactionsResponse = await cluster.ask(node_id, request)
        if not answer.transaction_states:
            check(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {transactional_id!r}")
        row = answer.transaction_states[0]
        check(row.error_code, f"transactional id {transactional_id!r}")
        places = frozenset(TopicPartition(each.topic, i) for each in row.topics for i in each.partitions)
        return Transaction(
            transactional_id,
            node_id,
            row.producer_id,
            row.producer_epoch,
            row.transaction_state,
            row.transaction_timeout_ms,
            row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
            places,
        )

    return await cluster.patiently(once)


# --- what partitions show -------------------------------------------------------------------------------------------


class Producer(NamedTuple):
    """One that a partition remembers. `start_offset` is where its open transaction starts, None if none is open."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    start_offset: int | None


async def producers(
    cluster: Cluster, places: Iterable[TopicPartition]
) -> tuple[list[Producer], dict[TopicPartition, Failed]]:
    """Those of all these partitions, and the partitions that could not be asked."""
    leaders = await cluster.leaders(places)
    gone = Failed("nobody leads it, or it does not exist", NOT_FOUND)
    failures: dict[TopicPartition, Failed] = dict.fromkeys(leaders.pop(-1, ()), gone)
    found: list[Producer] = []
    tasks = [(leader, tuple(some)) for leader, led in leaders.items() for some in pieces(led)]

    async def one(task: tuple[int, tuple[TopicPartition, ...]]) -> DescribeProducersResponse:
        by_topic: dict[str, list[int]] = {}
        for place in task[1]:
            by_topic.setdefault(place.topic, []).append(place.partition)
        topics = [
            DescribeProducersRequest.Topic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic.items()
        ]
        answer: DescribeProducersResponse = await cluster.ask(
            task[0], DescribeProducersRequest(topics=topics)
        )
        return answer

    for (_, some), answer in (await each_of(tasks, one)).items():
        if isinstance(answer, Failed):
            failures |= dict.fromkeys(some, answer)
            continue
        for topic in answer.topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    failures[place] = Failed(KafkaError.of(row.error_code).code.name)
                found += [_producer(place, each) for each in row.active_producers]
    return sorted(found, key=lambda each: each[:2]), failures


def _producer(place: TopicPartition, row: DescribeProducersResponse.Topic.Partition.Producer) -> Producer:
    start = row.current_txn_start_offset
    return Producer(
        place,
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.coordinator_epoch,
        None if start < 0 else start,
    )


async def partitions_of(
    cluster: Cluster, topic: str | None, partition: int | None = None
) -> list[TopicPartition]:
    """One partition, all of a topic, or all there are. Raises KafkaError if there is no such thing."""
    topics = await cluster.topics(None if topic is None else [topic])
    if topic is not None and (
        topic not in topics or (partition is not None and partition not in topics[topic].leaders)
    ):
        name = topic if partition is None else f"{topic}:{partition}"
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    places = [TopicPartition(each.name, index) for each in topics.values() for index in each.leaders]
    return sorted(place for place in places if partition is None or place.partition == partition)


# --- the difference between the two -----------------------------------------------------------------------------------


class Hanging(NamedTuple):
    """An open transaction that nobody will end, and the transactional id if its producer still has one."""

    producer: Producer
    transactional_id: str | None
    age_ms: int


async def owners(cluster: Cluster, producer_ids: Iterable[int]) -> Mapping[int, list[Transaction]]:
    """What coordinators know of these producers. Raises `Failed` unless all brokers answer: who is silent may know."""
    wanted = sorted(set(producer_ids))
    found: dict[int, list[Transaction]] = {}
    for some in pieces(wanted):
        rows, failures, _ = await listed(cluster, Wanted(producer_ids=tuple(some)))
        for why in failures.values():
            raise why
        ids = [row.transactional_id for row in rows]
        for name, each in (await each_of(ids, lambda name: described(cluster, name))).items():
            if not isinstance(each, Failed):
                found.setdefault(each.producer_id, []).append(each)
            elif each.exit_code != NOT_FOUND:  # an id that has expired meanwhile knows of nothing
                raise Failed(f"{name}: {each.message}", each.exit_code)
    return found


async def hanging(
    cluster: Cluster, places: Iterable[TopicPartition], age_ms_min: int, now_ms: int
) -> tuple[list[Hanging], dict[TopicPartition, Failed]]:
    """Open transactions that have not been written to for `age_ms_min`, and that no coordinator knows of."""
    seen, failures = await producers(cluster, places)
    suspects = [
        each for each in seen if each.start_offset is not None and now_ms - each.last_timestamp >= age_ms_min
    ]
    if not suspects:
        return [], failures
    known = await owners(cluster, (each.producer_id for each in suspects))
    unknown = [each for each in suspects if not is_under_way(each, known.get(each.producer_id, ()))]
    again, more = await producers(cluster, {each.place for each in unknown})
    still_open = {_identity(each) for each in again}
    found = []
    for each in unknown:
        if _identity(each) in still_open:
            named = known.get(each.producer_id, ())
            found.append(
                Hanging(each, named[0].transactional_id if named else None, now_ms - each.last_timestamp)
            )
    return found, failures | more


def is_under_way(producer: Producer, known: Iterable[Transaction]) -> bool:
    """Does a coordinator know that this transaction is open in this partition? Then it will end it, some day."""
    return any(each.is_open and producer.place in each.partitions for each in known)


def _identity(producer: Producer) -> tuple[TopicPartition, int, int, int | None]:
    return producer.place, producer.producer_id, producer.producer_epoch, producer.start_offset
