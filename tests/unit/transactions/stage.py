"""A host for the brain of transactions, in memory: a list as log, partitions that take markers, a clock to turn.

What is appended goes through the bytes of its record and back. Markers are written when the test says so: until then
they lie in `orders`, as they would while a partition has no leader.
"""

import itertools
from dataclasses import dataclass
from typing import Any

from ottla.core.clock import ManualClock, Moment
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.groups.group import Asker
from ottla.protocol.messages import record_types
from ottla.protocol.messages.record_types import TRANSACTION_STATE
from ottla.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from ottla.replication.machine import Decision, Entry, Producer
from ottla.transactions.markers import WriteMarkers
from ottla.transactions.shard import TransactionShard
from ottla.transactions.transaction import NoProducerIds, Transaction, of_record

START = Moment(wall_ms=1_700_000_000_000, monotonic_ms=0)
FIRST_PRODUCER_ID = 1000
INIT, ADD, END = 5, 5, 5
"""The newest versions of InitProducerId (without two-phase commit), AddPartitionsToTxn and EndTxn."""


@dataclass
class TransactionSettings:
    """Kafka's defaults."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 86_400_000


def partitions(*names: str) -> list[TopicPartition]:
    return [TopicPartition.parse(name) for name in names]


class Stage:
    """One shard and its surroundings."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.clock = ManualClock(*START)
        self.log: list[Entry] = []
        self.orders: list[WriteMarkers] = []
        self.refuse_with: KafkaError | None = None
        self.has_producer_ids = True
        self._ids = itertools.count(FIRST_PRODUCER_ID)
        self.leader_epoch = 0
        self.shard = self._new_shard()

    @property
    def now(self) -> Moment:
        return Moment(self.clock.now_ms(), self.clock.monotonic_ms())

    def of(self, transactional_id: str) -> Transaction:
        return self.shard.transactions[transactional_id]

    # --- requests --------------------------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        expected: tuple[int, int] = (-1, -1),
        *,
        timeout_ms: int = 60_000,
        version: int = INIT,
        **more: Any,
    ) -> Any:
        """The response, whatever it says."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            **more,
        )
        return self.carry_out(self.shard.decide_init(request, asker(version), None, self.now))

    def own(self, transactional_id: str, expected: tuple[int, int] = (-1, -1), **more: Any) -> Producer:
        """An owner, without errors."""
        response = self.init(transactional_id, expected, **more)
        assert response.error_code == 0, response
        return Producer(response.producer_id, response.producer_epoch)

    def add(self, transactional_id: str, producer: Producer, *names: str, version: int = ADD) -> None:
        transaction_version = 2 if version > 3 else 0
        self.carry_out(
            self.shard.decide_add_partitions(
                transactional_id,
                producer,
                partitions(*names),
                transaction_version,
                self.now,
                api_version=version,
            )
        )

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, version: int = END) -> Producer:
        """Who the producer is from now on."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        response = self.carry_out(self.shard.decide_end(request, asker(version), self.now))
        assert response.error_code == 0
        return Producer(response.producer_id, response.producer_epoch)

    # --- host ------------------------------------------------------------------------------------------------

    def carry_out(self, decision: Decision[Any]) -> Any:
        if decision.entries and self.refuse_with is not None:
            assert decision.if_refused is not None
            decision = decision.if_refused(self.refuse_with)
            assert not decision.entries
        for entry in decision.entries:
            self.log.append(as_kept(entry))
            self.shard.apply(self.log[-1], None)
        self.orders += decision.effects
        return decision.reply

    def mark(self, order: WriteMarkers, *names: str) -> None:
        """Markers were written to these partitions, or to all of the order."""
        marked = partitions(*names) or order.partitions
        self.carry_out(
            self.shard.decide_marked(
                order.transactional_id, order.producer, order.coordinator_epoch, marked, self.now
            )
        )

    def mark_all(self) -> list[WriteMarkers]:
        """Carry out every order."""
        orders, self.orders = self.orders, []
        for order in orders:
            self.mark(order)
        return orders

    def advance(self, by_ms: int) -> None:
        """Let time pass; timers fire at their own moment."""
        end = self.clock.monotonic_ms() + by_ms
        while (due := self.shard.timers.next_deadline_ms()) is not None and due <= end:
            self.clock.advance(max(due - self.clock.monotonic_ms(), 0))
            self._ring()
        self.clock.advance(end - self.clock.monotonic_ms())

    def restart(self, *, compacted: bool = False) -> None:
        """The shard is gone, with its orders; another broker loads the log."""
        self.leader_epoch += 1
        self.orders.clear()
        self.shard = self.replayed(compacted=compacted)
        self.shard.activate(self.now)
        self._ring()

    def replayed(self, *, compacted: bool = False) -> TransactionShard:
        """A shard that has seen what the log holds, or what compaction leaves of it."""
        shard = self._new_shard()
        last = {entry.key.transactional_id: entry for entry in self.log}
        for entry in last.values() if compacted else self.log:
            shard.apply(entry, None)
        return shard

    def written(self) -> list[Transaction | None]:
        """The steps in the log."""
        return [entry.value and of_record(entry.key.transactional_id, entry.value) for entry in self.log]

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.settings, self._new_producer_id, self.leader_epoch, self.now)

    def _new_producer_id(self) -> int:
        if not self.has_producer_ids:
            raise NoProducerIds("the block is used up")
        return next(self._ids)

    def _ring(self) -> None:
        for timer in self.shard.timers.fire(self.clock.monotonic_ms()):
            self.carry_out(timer.value(self.now))


def asker(version: int) -> Asker:
    return Asker(version, "client", "/127.0.0.1")


def as_kept(entry: Entry) -> Entry:
    """The record as the log gives it back."""
    key = record_types.encode_key(entry.key)
    kept_key = record_types.decode_key(TRANSACTION_STATE, key)
    if entry.value is None:
        return Entry(kept_key)
    value = record_types.encode_value(entry.value)
    return Entry(kept_key, record_types.decode_value(TRANSACTION_STATE, key, value))
