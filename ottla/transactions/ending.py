"""How a transaction ends when its client says so: what EndTxn may do, by the transaction version of the client.

Up to version 1 the epoch stays, so an EndTxn that comes twice can be told from the next one only by the outcome it asks
for. From version 2 on each end raises the epoch: what names the epoch before is a repetition and gets the same answer
again, and once the next transaction has begun it is refused. So nothing that comes late can end the wrong transaction.
"""

import enum

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.machine import Producer
from ottla.transactions.states import State
from ottla.transactions.transaction import BUMPING_VERSION, LAST_EPOCH, Transaction

_FENCED_SINCE = 2
"""The first version of EndTxn, AddPartitionsToTxn and AddOffsetsToTxn that knows PRODUCER_FENCED."""
_BUMPING_SINCE = 5
"""The first version of EndTxn that a client of transaction version 2 sends."""


class Verdict(enum.Enum):
    """What to do with an EndTxn that may be."""

    END = "end the open transaction"
    END_EMPTY = "there is none: raise the epoch nevertheless"
    DONE = "it was done before: answer again"


def version_of(api_version: int) -> int:
    """The transaction version of a client that sends EndTxn in this version."""
    return BUMPING_VERSION if api_version >= _BUMPING_SINCE else 0


def fenced(transaction: Transaction, producer: Producer, api_version: int) -> KafkaError:
    """This producer was replaced, or its transaction is over."""
    code = ErrorCode.PRODUCER_FENCED if api_version >= _FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH
    return KafkaError(code, f"{transaction.transactional_id} is at {transaction.producer}, not at {producer}")


def not_its_id(transactional_id: str, producer_id: int) -> KafkaError:
    """No such transactional id, or it goes by another producer id."""
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id} does not belong to producer {producer_id}"
    )


def being_ended(transaction: Transaction) -> KafkaError:
    """Markers are still being written."""
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"{transaction.transactional_id} is in {transaction.state.label}"
    )


def judge(transaction: Transaction, producer: Producer, is_commit: bool, api_version: int) -> Verdict:
    """What the request asks for, as far as its sender may. Raises KafkaError."""
    if version_of(api_version) >= BUMPING_VERSION:
        return _judge_bumping(transaction, producer, is_commit, api_version)
    return _judge_plain(transaction, producer, is_commit, api_version)


def _judge_plain(transaction: Transaction, producer: Producer, is_commit: bool, api_version: int) -> Verdict:
    if transaction.producer_id != producer.id:
        raise not_its_id(transaction.transactional_id, producer.id)
    if transaction.producer_epoch != producer.epoch:
        raise fenced(transaction, producer, api_version)
    if transaction.state.is_prepared:
        raise being_ended(transaction)
    if transaction.state is State.ONGOING:
        return Verdict.END
    if transaction.state.is_complete and transaction.state.is_commit == is_commit:
        return Verdict.DONE
    raise _not_in(transaction, is_commit)


def _judge_bumping(
    transaction: Transaction, producer: Producer, is_commit: bool, api_version: int
) -> Verdict:
    if transaction.state.is_prepared:
        # First of all: where epochs ran out, the client knows its new producer id before the markers are written.
        raise being_ended(transaction)
    # The coordinator's own last epoch was never given to a client: nor may it be now.
    is_repeated = producer == transaction.bumped_from and transaction.producer_epoch <= LAST_EPOCH
    if not is_repeated and transaction.producer_id != producer.id:
        raise not_its_id(transaction.transactional_id, producer.id)
    if not is_repeated and transaction.producer_epoch != producer.epoch:
        raise fenced(transaction, producer, api_version)
    if is_repeated and transaction.state.is_commit == is_commit:
        return Verdict.DONE
    if is_repeated:
        raise _not_in(transaction, is_commit)
    if transaction.state is State.ONGOING:
        return Verdict.END
    if is_commit:
        raise _not_in(transaction, is_commit)
    return Verdict.END_EMPTY


def _not_in(transaction: Transaction, is_commit: bool) -> KafkaError:
    asked = "commit" if is_commit else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{transaction.transactional_id} is in {transaction.state.label}: cannot {asked}",
    )
