"""What DescribeTransactions and ListTransactions say about transactional ids."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.core.patterns import compile_pattern
from ottla.protocol.messages.transactions import DescribeTransactionsResponse, ListTransactionsResponse
from ottla.transactions.states import BY_LABEL
from ottla.transactions.transaction import Transaction, by_topic


class Filters(NamedTuple):
    """Which transactional ids to list. Where nothing is said, all."""

    state_names: Collection[str] = ()
    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    """Only transactions that began longer ago than this."""
    pattern: str | None = None
    """A regular expression that must match the whole transactional id."""


def unknown_states(names: Collection[str]) -> list[str]:
    """Those that are no state: ListTransactions returns them, and they match nothing."""
    return [name for name in dict.fromkeys(names) if name not in BY_LABEL]


def matcher(filters: Filters, now_ms: int) -> Callable[[Transaction], bool]:
    """Whether to list an id. Raises KafkaError if the pattern is none."""
    states = {BY_LABEL[name] for name in filters.state_names if name in BY_LABEL}
    producer_ids = frozenset(filters.producer_ids)
    pattern = compile_pattern(filters.pattern) if filters.pattern else None

    def matches(transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not filters.state_names or transaction.state in states)
            and (filters.duration_ms < 0 or now_ms - transaction.start_ms > filters.duration_ms)
            and (pattern is None or pattern.fullmatch(transaction.transactional_id) is not None)
        )

    return matches


def listed(transaction: Transaction) -> ListTransactionsResponse.Transaction:
    """One line of ListTransactions."""
    return ListTransactionsResponse.Transaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


def described(
    transaction: Transaction, partitions: Collection[TopicPartition]
) -> DescribeTransactionsResponse.Transaction:
    """One answer of DescribeTransactions. Of a transaction that has ended, the partitions without a marker."""
    return DescribeTransactionsResponse.Transaction(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            DescribeTransactionsResponse.Transaction.Topic(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
    )


def not_described(transactional_id: str, code: ErrorCode) -> DescribeTransactionsResponse.Transaction:
    """The answer for an id about which there is nothing to say: zeros, as Kafka's."""
    return DescribeTransactionsResponse.Transaction(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
