"""What `kafka-transactions` asks a cluster, and which transactions hang (KIP-664).

A transaction hangs when a partition holds its records open, longer than any transaction may be, and no coordinator
knows that it is under way there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ottla.cli.classic.java import hash_ordered
from ottla.cli.classic.transactions import Failing
from ottla.cli.txn_state import OPEN_STATES
from ottla.client.admin.topics import describe_topics, list_topics
from ottla.client.admin.transactions import (
    ProducerState,
    describe_producers,
    describe_transactions,
    list_transactions,
)
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import ListTransactionsRequest, ListTransactionsResponse

_LISTING = "Failed to list transactions"
Row = ListTransactionsResponse.Transaction
Producers = dict[TopicPartition, tuple[ProducerState, ...]]


async def listed(admin: Any, duration_ms: int, pattern: str | None) -> list[tuple[int, Row]]:
    """The transactions with their coordinators, in the order in which these tell of them."""
    request = ListTransactionsRequest(
        state_filters=[],
        producer_id_filters=[],
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    found: list[tuple[int, Row]] = []
    for broker in sorted(await admin._routes.brokers()):
        answer: ListTransactionsResponse = await admin._routes.cluster.ask(broker, request)
        if answer.error_code:
            told = f"ListTransactions request sent to broker {broker} failed with an unexpected exception"
            raise Failing(_LISTING, KafkaError(KafkaError.of(answer.error_code).code, told))
        found += [(broker, row) for row in answer.transaction_states]
    return found


async def producers_of(
    admin: Any, places: Sequence[TopicPartition], broker_id: int | None, what: str
) -> Producers:
    """The producers that partitions remember, as their leaders or one of the brokers know them."""
    from ottla.cli.classic.reassign_state import replicas_of_topics

    if broker_id is None:  # who leads a partition that is not there could be looked for for long
        known = await replicas_of_topics(admin, {place.topic for place in places}, must_be=False)
        if any(place not in known for place in places):
            raise Failing(what, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""))
    try:
        return await describe_producers(admin, places, broker_id=broker_id) if places else {}
    except PartialFailure as failure:
        place, error = next(iter(failure.errors.items()))
        raise Failing(what, error, str(place)) from None


async def places_of(
    admin: Any, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """Where to look: one partition, those of a topic, those of a broker, or both."""
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    names = [topic] if topic is not None else list(await list_topics(admin, include_internal=True))
    try:
        found = await describe_topics(admin, names) if names else {}
    except PartialFailure as failure:
        error = next(iter(failure.errors.values()))
        told = error if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else KafkaError(error.code, "")
        raise Failing(f"Failed to describe {len(failure.errors)} topics", told) from None
    return [
        TopicPartition(each.name, row.partition)
        for each in found.values()
        for row in each.partitions
        if broker_id is None or broker_id in row.replicas
    ]


async def hanging(
    admin: Any, places: Sequence[TopicPartition], broker_id: int | None, before_ms: int
) -> list[tuple[TopicPartition, ProducerState]]:
    """Open transactions that were not written to since then, and that no coordinator knows of."""
    where = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
    what = f"Failed to describe producers for {len(places)} partitions on broker {where}"
    found = await producers_of(admin, places, broker_id, what)
    suspects = [
        (place, each)
        for place, producers in sorted(found.items())
        for each in producers
        if each.current_txn_start_offset is not None and each.last_timestamp < before_ms
    ]
    if not suspects:
        return []
    ids = hash_ordered(dict.fromkeys(each.producer_id for _, each in suspects))
    known = await _under_way(admin, ids)
    return [
        (place, each)
        for id in ids
        for place, each in suspects
        if each.producer_id == id and (id, place) not in known
    ]


async def _under_way(admin: Any, producer_ids: Iterable[int]) -> set[tuple[int, TopicPartition]]:
    """Where coordinators know transactions of these producers to be open."""
    names = list(await list_transactions(admin, producer_ids=producer_ids))
    try:
        found = await describe_transactions(admin, names) if names else {}
    except PartialFailure as failure:
        for error in failure.errors.values():  # an id that has expired meanwhile knows of nothing
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise Failing(f"Failed to describe {len(names)} transactions", error) from None
        found = {key: each for key, each in failure.results.items() if key not in failure.errors}
    return {
        (each.producer_id, place)
        for each in found.values()
        if each.state in OPEN_STATES
        for place in each.partitions
    }
