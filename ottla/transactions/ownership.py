"""Who owns a transactional id: what InitProducerId gets, and whom it fences.

A producer that names no id and epoch is a new owner: whoever came before is fenced. One that names them wants to go on
after an error (KIP-360): it may, if nobody took over since. Who was replaced learns it here, and changes nothing.

Kafka (4.3 was seen to) looks at the epoch only when no transaction is open; here a stale one is refused before an open
transaction is touched, since the answer would be the same in the end, and the transaction somebody else's.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import InitProducerIdRequest
from ottla.replication.machine import Producer
from ottla.transactions.states import State
from ottla.transactions.transaction import LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, Transaction

_FENCED_SINCE = 4
"""The first version of InitProducerId that knows PRODUCER_FENCED."""


class Claim(NamedTuple):
    """What a checked request asks for."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None
    """Who the producer says it is, if it wants to go on."""


class Owner(NamedTuple):
    """What becomes of the id."""

    transaction: Transaction
    last_epoch: int
    """The epoch that its owner gave in exchange: if it is named again, the reply was lost, and is given once more."""


def claim(request: InitProducerIdRequest, timeout_ms_max: int) -> Claim:
    """The request, if it makes sense. Raises KafkaError."""
    transactional_id = request.transactional_id
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    expected = Producer(request.producer_id, request.producer_epoch)
    if (expected.id == NO_PRODUCER_ID) != (expected.epoch == NO_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{expected} is half a producer")
    if request.enable2_pc:
        # Kafka answers so while transaction.two.phase.commit.enable is off.
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is not enabled")
    if request.keep_prepared_txn:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "prepared transactions are not kept")
    if not 0 < request.transaction_timeout_ms <= timeout_ms_max:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"{transactional_id}: {request.transaction_timeout_ms} ms, allowed are 1 to {timeout_ms_max}",
        )
    is_new = expected.id == NO_PRODUCER_ID
    return Claim(transactional_id, request.transaction_timeout_ms, None if is_new else expected)


def first_owner(claim: Claim, producer_id: int, now_ms: int) -> Transaction:
    """A transactional id that nobody has used so far, or not for long. Whatever id its user had before is forgotten."""
    return Transaction(
        claim.transactional_id,
        producer_id,
        0,
        claim.timeout_ms,
        State.EMPTY,
        partitions=frozenset[TopicPartition](),
        last_update_ms=now_ms,
        previous_producer_id=producer_id,
    )


def check_expected(before: Transaction, expected: Producer | None, last_epoch: int, api_version: int) -> None:
    """Raises KafkaError if the one who wants to go on was replaced. `last_epoch` as the last `Owner` had it."""
    if expected is None or expected == before.producer:
        return
    last = before.bumped_from or Producer(before.previous_producer_id, last_epoch)
    if before.state.is_idle and expected == last and expected.epoch != NO_EPOCH:
        return
    code = ErrorCode.PRODUCER_FENCED if api_version >= _FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH
    raise KafkaError(code, f"{before.transactional_id} is owned by {before.producer}, not by {expected}")


def next_owner(before: Transaction, claim: Claim, new_producer_id: Callable[[], int], now_ms: int) -> Owner:
    """The id is idle and the claim was checked: raise the epoch; where epochs have run out, take a new producer id."""
    assert before.state.is_idle
    expected = claim.expected
    last_epoch = NO_EPOCH if expected is None else expected.epoch
    is_repeated = expected is not None and expected != before.producer
    if is_repeated and before.producer_epoch <= LAST_EPOCH:
        kept = before.bumped(before.producer, claim.timeout_ms, now_ms)
        return Owner(kept._replace(previous_producer_id=before.previous_producer_id), last_epoch)
    if before.is_exhausted:
        producer = Producer(new_producer_id(), 0)
    else:
        producer = Producer(before.producer_id, before.producer_epoch + 1)
    return Owner(before.bumped(producer, claim.timeout_ms, now_ms), last_epoch)
