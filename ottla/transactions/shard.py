"""One partition of `__transaction_state`: the transactional ids that hash to it, as a replicated state machine.

Prepare is the commit point: once it is written the outcome stands, whoever coordinates. Markers follow it, and when all
are written Complete does. Which partitions have their marker is known in memory only: a coordinator that takes over
writes all of them again, which does no harm.

Kafka keeps a step that is being written as a "pending state" and answers CONCURRENT_TRANSACTIONS meanwhile. Here what
is appended is applied at once, and only replies and effects wait for the log.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NoReturn, Protocol, TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.timers import Timer, Timers
from ottla.groups.group import Asker
from ottla.protocol.messages.coordinator_records import TransactionLogKey, TransactionLogValue
from ottla.protocol.messages.transactions import (
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsResponse,
)
from ottla.replication.machine import Alarm, Decision, Entry, Producer, Ticket
from ottla.transactions import ending, listing, ownership
from ottla.transactions.ending import Verdict
from ottla.transactions.markers import WriteMarkers
from ottla.transactions.states import State
from ottla.transactions.transaction import (
    BUMPING_VERSION,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    of_record,
)

R = TypeVar("R")

RETRY_MS = 10_000
"""When to try again what could not be written. Kafka looks for transactions that are overdue as often."""
_NEWEST_VERSION = 5


class Settings(Protocol):
    """What transactions obey, by the names of the settings."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int


class TransactionShard:
    """The coordinator of some transactional ids."""

    def __init__(
        self, settings: Settings, new_producer_id: Callable[[], int], coordinator_epoch: int, now: Moment
    ) -> None:
        self.timers: Timers[Alarm] = Timers(now.monotonic_ms)
        self.coordinator_epoch = coordinator_epoch
        """The leader epoch of the partition. Markers carry it, so that those of a predecessor are refused."""
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        # In memory only:
        self._alarms: dict[str, Timer[Alarm]] = {}  # of open transactions, and of ended ones to look after
        self._unmarked: dict[str, set[TopicPartition]] = {}  # of ended ones: where the marker is missing
        self._last_epochs: dict[str, int] = {}  # of empty ones: see Owner.last_epoch

    @property
    def count(self) -> int:
        """Of what it knows."""
        return len(self._transactions)

    # --- machine ---------------------------------------------------------------------------------------------

    def apply(self, entry: Entry, producer: Producer | None) -> None:
        """A record was written. What is no state of a transactional id is passed over."""
        if not isinstance(entry.key, TransactionLogKey):
            return
        transactional_id = entry.key.transactional_id
        if entry.value is None:
            self._transactions.pop(transactional_id, None)
            self._unmarked.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
            self._silence(transactional_id)
            return
        if not isinstance(entry.value, TransactionLogValue):
            return
        transaction = of_record(transactional_id, entry.value)
        if transaction is None:
            return
        self._transactions[transactional_id] = transaction
        if transaction.state is not State.ONGOING:
            self._silence(transactional_id)
        if transaction.state is not State.EMPTY:
            self._last_epochs.pop(transactional_id, None)
        if transaction.state.is_prepared:
            self._unmarked[transactional_id] = set(transaction.partitions)
        else:
            self._unmarked.pop(transactional_id, None)

    def apply_end(self, producer: Producer, is_commit: bool) -> None:
        """Nobody writes to this topic in transactions."""

    def activate(self, now: Moment) -> None:
        """Open transactions get what is left of their time; those whose outcome stands get their markers."""
        for transaction in self._transactions.values():
            if transaction.state is State.ONGOING:
                left_ms = transaction.start_ms + transaction.timeout_ms - now.wall_ms
                # A clock that was set back gives nobody more time than it asked for.
                self._watch(transaction, now.monotonic_ms + max(0, min(left_ms, transaction.timeout_ms)))
            elif transaction.state.is_prepared:
                self._look_after(transaction, now.monotonic_ms)

    def retire(self) -> Iterable[Ticket]:
        """Nobody waits: whoever would have to is told to come again."""
        return ()

    # --- requests --------------------------------------------------------------------------------------------

    def decide_init(
        self, request: InitProducerIdRequest, asker: Asker, ticket: Ticket | None, now: Moment
    ) -> Decision[InitProducerIdResponse]:
        """A producer wants to use a transactional id. If it is in the middle of a transaction, that is aborted first,
        and the producer told to come again. Raises NoProducerIds."""
        claim = ownership.claim(request, self._settings.transaction_max_timeout_ms)
        before = self._transactions.get(claim.transactional_id)
        if before is None:
            first = ownership.first_owner(claim, self._new_producer_id(), now.wall_ms)
            self._last_epochs.pop(claim.transactional_id, None)
            return self._initialized(first)
        if before.state.is_prepared:
            raise ending.being_ended(before)
        last_epoch = self._last_epochs.get(claim.transactional_id, NO_EPOCH)
        ownership.check_expected(before, claim.expected, last_epoch, asker.api_version)
        if before.state is State.ONGOING:
            come_again = InitProducerIdResponse(
                error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=NO_EPOCH
            )
            return self._ended(self._fence(before, now), come_again, now)
        owner = ownership.next_owner(before, claim, self._new_producer_id, now.wall_ms)
        self._last_epochs[claim.transactional_id] = owner.last_epoch
        return self._initialized(owner.transaction)

    def decide_add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        transaction_version: int,
        now: Moment,
        *,
        api_version: int = _NEWEST_VERSION,
    ) -> Decision[None]:
        """The transaction will write to these. The first ones begin it. Raises KafkaError.

        `transaction_version` is 2 for AddPartitionsToTxn 4 and later, which brokers send, else 0; `api_version` that of
        AddPartitionsToTxn or AddOffsetsToTxn."""
        before = self._of(transactional_id, producer.id)
        if before.state.is_prepared:
            # First of all, as in EndTxn: the client may know its next producer id already.
            raise ending.being_ended(before)
        if before.producer_id != producer.id:
            raise ending.not_its_id(transactional_id, producer.id)
        if before.producer_epoch != producer.epoch:
            raise ending.fenced(before, producer, api_version)
        if before.state is State.ONGOING and before.partitions.issuperset(partitions):
            return Decision(None)
        after = before.added(partitions, transaction_version, now.wall_ms)
        if before.state is not State.ONGOING:
            self._watch(after, now.monotonic_ms + after.timeout_ms)
        return Decision(None, [after.to_entry()], if_refused=_refuse)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Are these part of the open transaction? A partition's leader asks before it lets the producer write.

        The codes are Kafka's for every version that can verify; what older producers get to see is the leader's to say.
        """
        try:
            transaction = self._of(transactional_id, producer.id)
            if transaction.producer_id != producer.id:
                raise ending.not_its_id(transactional_id, producer.id)
            if transaction.producer_epoch != producer.epoch:
                raise ending.fenced(transaction, producer, _NEWEST_VERSION)
            if transaction.state.is_prepared:
                raise ending.being_ended(transaction)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return {
            partition: ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def decide_end(self, request: EndTxnRequest, asker: Asker, now: Moment) -> Decision[EndTxnResponse]:
        """Commit or abort. Answered when the outcome stands; markers follow. Raises KafkaError, NoProducerIds."""
        producer = Producer(request.producer_id, request.producer_epoch)
        before = self._of(request.transactional_id, producer.id)
        verdict = ending.judge(before, producer, request.committed, asker.api_version)
        if verdict is Verdict.DONE:
            return Decision(_going_on_as(before.producer))
        version = ending.version_of(asker.api_version)
        rotates = version >= BUMPING_VERSION and before.is_exhausted
        next_producer_id = self._new_producer_id() if rotates else NO_PRODUCER_ID
        after = before.prepared(request.committed, version, next_producer_id, now.wall_ms)
        goes_on_as = Producer(next_producer_id, 0) if rotates else after.producer
        return self._ended(after, _going_on_as(goes_on_as), now)

    # --- ends ------------------------------------------------------------------------------------------------

    def decide_marked(
        self,
        transactional_id: str,
        producer: Producer,
        coordinator_epoch: int,
        partitions: Collection[TopicPartition],
        now: Moment,
    ) -> Decision[None]:
        """These partitions have their marker. With the last one, the transaction is complete.

        Of another transaction than the one whose markers are missing, or of another coordinator: nothing."""
        transaction = self._transactions.get(transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or transaction.producer != producer
            or coordinator_epoch != self.coordinator_epoch
        ):
            return Decision(None)
        missing = self._unmarked[transactional_id]
        if not missing.issubset(partitions):
            missing.difference_update(partitions)
            return Decision(None)
        # What is missing stays noted until Complete is written: if that fails, the alarm has it to go by.
        self._look_after(transaction, now.monotonic_ms + RETRY_MS)
        return Decision(None, [transaction.completed(now.wall_ms).to_entry()], if_refused=_leave_to_alarm)

    def decide_expire(self, now: Moment) -> Decision[None]:
        """Forget ids that nobody has used for long. An id with a transaction under way is in use."""
        oldest_ms = now.wall_ms - self._settings.transactional_id_expiration_ms
        tombstones = [
            Entry(TransactionLogKey(transactional_id=transaction.transactional_id))
            for transaction in self._transactions.values()
            if transaction.state.is_idle and transaction.last_update_ms <= oldest_ms
        ]
        return Decision(None, tombstones, is_atomic=False, if_refused=_leave_to_alarm)

    def _fence(self, before: Transaction, now: Moment) -> Transaction:
        """Abort in the name of the coordinator. The raised epoch shuts out whoever had it (KIP-588), and is its
        own: also of a client that raises no epochs."""
        return before.prepared(False, BUMPING_VERSION, NO_PRODUCER_ID, now.wall_ms)

    def _ended(self, after: Transaction, reply: R, now: Moment) -> Decision[R]:
        """The outcome, and what follows from it. Without partitions nothing is left to do."""
        entries = [after.to_entry()]
        if not after.partitions:
            entries.append(after.completed(now.wall_ms).to_entry())
            return Decision(reply, entries, if_refused=_refuse)
        return Decision(reply, entries, effects=[self._markers(after, after.partitions)], if_refused=_refuse)

    def _initialized(self, after: Transaction) -> Decision[InitProducerIdResponse]:
        reply = InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=after.producer_id, producer_epoch=after.producer_epoch
        )
        return Decision(reply, [after.to_entry()], if_refused=_refuse)

    def _markers(self, transaction: Transaction, partitions: Collection[TopicPartition]) -> WriteMarkers:
        return WriteMarkers(
            transaction.transactional_id,
            transaction.producer,
            transaction.state.is_commit,
            tuple(sorted(partitions)),
            self.coordinator_epoch,
            transaction.client_version,
        )

    # --- alarms ----------------------------------------------------------------------------------------------

    def _watch(self, transaction: Transaction, deadline_ms: int) -> None:
        """Abort the transaction when its time is up."""
        self._set_alarm(transaction.transactional_id, deadline_ms, partial(self._time_out, transaction))

    def _time_out(self, transaction: Transaction, now: Moment) -> Decision[None]:
        before = self._transactions.get(transaction.transactional_id)
        if (
            before is None
            or before.state is not State.ONGOING
            or (before.producer, before.start_ms) != (transaction.producer, transaction.start_ms)
        ):
            return Decision(None)
        self._watch(before, now.monotonic_ms + RETRY_MS)  # in case that nothing can be written now
        decision = self._ended(self._fence(before, now), None, now)
        decision.if_refused = _leave_to_alarm
        return decision

    def _look_after(self, transaction: Transaction, deadline_ms: int) -> None:
        """See to the markers that are missing."""
        self._set_alarm(transaction.transactional_id, deadline_ms, partial(self._finish, transaction))

    def _finish(self, transaction: Transaction, now: Moment) -> Decision[None]:
        if self._transactions.get(transaction.transactional_id) != transaction:
            return Decision(None)
        missing = self._unmarked[transaction.transactional_id]
        if missing:
            return Decision(None, effects=[self._markers(transaction, missing)])
        self._look_after(transaction, now.monotonic_ms + RETRY_MS)
        entry = transaction.completed(now.wall_ms).to_entry()
        return Decision(None, [entry], if_refused=_leave_to_alarm)

    def _set_alarm(self, transactional_id: str, deadline_ms: int, alarm: Alarm) -> None:
        self._silence(transactional_id)
        self._alarms[transactional_id] = self.timers.add(deadline_ms, alarm)

    def _silence(self, transactional_id: str) -> None:
        timer = self._alarms.pop(transactional_id, None)
        if timer is not None:
            self.timers.cancel(timer)

    # --- state -----------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.Transaction:
        """One answer of DescribeTransactions; what is wrong is in its error code."""
        if not transactional_id:
            return listing.not_described(transactional_id, ErrorCode.INVALID_REQUEST)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return listing.not_described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return listing.described(transaction, self._unmarked.get(transactional_id, transaction.partitions))

    def list(
        self,
        state_filters: Collection[str],
        producer_ids: Collection[int],
        duration_ms: int,
        pattern: str | None,
        now: Moment,
    ) -> Sequence[ListTransactionsResponse.Transaction]:
        """Those that match. Which of the filters are no states at all, `listing.unknown_states` says."""
        filters = listing.Filters(state_filters, producer_ids, duration_ms, pattern)
        matches = listing.matcher(filters, now.wall_ms)
        return [listing.listed(each) for each in self._transactions.values() if matches(each)]

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """What the log holds, by transactional id."""
        return self._transactions

    def _of(self, transactional_id: str, producer_id: int) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise ending.not_its_id(transactional_id, producer_id)
        return transaction


def _going_on_as(producer: Producer) -> EndTxnResponse:
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=producer.id, producer_epoch=producer.epoch)


def _refuse(error: KafkaError) -> NoReturn:
    """Nothing was written and nothing in memory counts on it: the asker learns why."""
    raise error


def _leave_to_alarm(error: KafkaError) -> Decision[None]:
    """Nothing was written: a timer will try again."""
    return Decision(None)
