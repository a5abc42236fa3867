"""Who is on the stage: brokers, each with a replica on a disk of its own, and controllers that write to one store."""

import copy
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from ottla.broker.metadata import Metadata
from ottla.broker.orders import Order, Orders
from ottla.controller import brokers, reassignment
from ottla.controller.context import Context, Policy
from ottla.controller.decision import Decision, Effect
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import LAYOUT, ControllerEpochNode
from ottla.metadata.store import BadVersion, Check, Create, Op, Set
from ottla.metadata.tree import Tree
from ottla.records.batch import read_header, records_of
from ottla.replication.exchange import BrokerLife, FetchAnswer, FetchQuestion
from ottla.replication.partition import Partition
from ottla.replication.state import NO_EPOCH, BrokerImage, PartitionState
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.controller.helpers import TOPIC_ID

ORDERS = TopicPartition("orders", 0)
LAG_MS = 10_000
"""replica.lag.time.max.ms"""


class Nothing(random.Random):
    """Chance at its worst: of what was not synced, nothing is left."""

    def random(self) -> float:
        return 0.99

    def randint(self, a: int, b: int) -> int:
        return a


class Actor:
    """A broker: its lives, its replica, and what it has heard."""

    def __init__(self, id: int, config: TopicConfig, clock: list[int]) -> None:
        self.id = id
        self.epoch = self.previous_epoch = NO_EPOCH
        self.is_alive, self.is_cut = False, False
        self.partition: Partition | None = None
        self.letters: list[tuple[FetchQuestion, FetchAnswer]] = []
        self.unheard: list[Order] = []
        self._disk, self._config, self._clock = SimDisk(), config, clock
        self._has_log, self._high_watermark = False, 0

    @property
    def life(self) -> BrokerLife:
        return BrokerLife(self.id, self.epoch)

    @property
    def image(self) -> BrokerImage:
        return BrokerImage(self.id, self.epoch, (), None, self.previous_epoch)

    @property
    def replica(self) -> Partition:
        assert self.partition is not None, f"broker {self.id} has no replica"
        return self.partition

    # --- lives ---------------------------------------------------------------------------------------------------

    def start(self, epoch: int) -> None:
        self.is_alive, self.epoch = True, epoch
        self.orders = Orders(self.id, self, Metadata(), None)  # type: ignore[arg-type]  # no settings change here
        self.orders.broker_epoch = epoch
        if self._has_log:
            self._open()

    def register_again(self, epoch: int) -> None:
        """The session ended, the process did not: it knows that it has lost nothing."""
        self.previous_epoch, self.epoch = self.epoch, epoch
        self.orders.broker_epoch = epoch
        if self.partition is not None:
            self.partition.broker_epoch = epoch

    def stop(self) -> None:
        if self.partition is not None:
            self.partition.log.close()
        self._end(previous_epoch=self.epoch)

    def kill(self) -> None:
        if self.partition is not None:
            self.partition.log.abandon()
        self._end()

    def lose_power(self) -> None:
        self.kill()
        self._disk.crash(Nothing())

    def _end(self, previous_epoch: int = NO_EPOCH) -> None:
        if self.partition is not None:
            self._high_watermark = self.partition.high_watermark.value  # as its checkpoint has it
        self.is_alive, self.previous_epoch = False, previous_epoch
        self.partition, self.letters, self.unheard = None, [], []

    def _open(self) -> None:
        log = Log.open(self._disk, "d/orders-0", self._config, high_watermark=self._high_watermark)
        self.partition = Partition(self.id, ORDERS, TOPIC_ID, log)
        self._has_log = True
        self.partition.lag_ms, self.partition.broker_epoch = LAG_MS, self.epoch

    # --- what the controller says ----------------------------------------------------------------------------------

    def hear(self, order: Order) -> None:
        _at_once(self.orders.follow(order))

    async def leader_and_isr(
        self, controller_epoch: int, states: Sequence[PartitionState]
    ) -> Mapping[TopicPartition, ErrorCode]:
        for state in states:
            if self.partition is None:
                self._open()
            self.replica.follow_orders(state, self._clock[0])
        return {}

    async def stop_replicas(
        self, controller_epoch: int, partitions: Mapping[TopicPartition, bool]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.replica.stop()
        self.partition, self._disk, self._has_log, self._high_watermark = None, SimDisk(), False, 0
        return {}

    # --- what it answers -------------------------------------------------------------------------------------------

    def answer(self, life: BrokerLife, question: FetchQuestion) -> FetchAnswer:
        """To a follower, as the handler of Fetch does."""
        leader = self.replica
        try:
            diverging = leader.follower_fetch(life, question, self._clock[0])
        except KafkaError as error:
            return FetchAnswer(error.code)
        mark, start = leader.high_watermark.value, leader.log.log_start_offset
        if diverging is not None:
            return FetchAnswer(ErrorCode.NONE, mark, start, diverging)
        found = leader.read(question.fetch_offset, 1 << 20, leader.log.end_offset, at_least_one=True)
        return FetchAnswer(ErrorCode.NONE, mark, start, records=leader.log.load(found) if found.size else b"")

    def content(self, limit: int | None = None) -> list[tuple[int, str, int]]:
        """Offset, value and epoch of every record."""
        log, found = self.replica.log, []
        offset, end = log.log_start_offset, log.end_offset if limit is None else limit
        while offset < end:
            data = log.load(log.read(offset, 0, end, at_least_one=True))
            header = read_header(data)
            found += [(offset, record.value.decode(), header.leader_epoch) for record in records_of(data)]
            offset = header.last_offset + 1
        return found


class Consumer:
    """Reads what is committed. Behind a new leader it asks first where its epoch ended, as clients do (KIP-320)."""

    def __init__(self) -> None:
        self._position, self._epoch, self._leader_epoch = 0, -1, -1
        """Where it reads on, the epoch of its last record, and of the leader it knew last."""

    def read(self, actor: Actor) -> Iterator[str]:
        replica = actor.replica
        if self._leader_epoch not in (-1, replica.leader_epoch) and self._epoch >= 0:
            epoch, end = replica.end_of_epoch(self._epoch)
            yield f"the consumer asks for the end of epoch {self._epoch}: {end}, of epoch {epoch}"
            if end < self._position:
                yield f"the log was truncated: it had read up to {self._position}, and goes back to {end}"
                self._position = end
        self._leader_epoch = replica.leader_epoch
        new = [one for one in actor.content(replica.high_watermark.value) if one[0] >= self._position]
        for offset, _, self._epoch in new:
            self._position = offset + 1
        yield f"the consumer reads {' '.join(value for _, value, _ in new) or 'nothing'}"


class Controller:
    """A context, and the store to which its decisions go. `tell` gets what brokers are to hear."""

    def __init__(self, store: Tree, context: Context) -> None:
        self.store, self.context = store, context
        self.told: list[Order] = []

    @classmethod
    def first(cls, policy: Callable[[str], Policy]) -> "Controller":
        store = Tree()
        _write(store, [*map(Create, LAYOUT), Create(ControllerEpochNode.path, ControllerEpochNode.encode(1))])
        return cls(store, Context(1, 1, 0, policy=policy))

    def successor(self) -> "Controller":
        """Another one, which has read what the store holds."""
        context = copy.deepcopy(self.context)
        context.controller_id, context.epoch = context.controller_id + 1, context.epoch + 1
        data = ControllerEpochNode.encode(context.epoch)
        _write(self.store, [Set(ControllerEpochNode.path, data, context.epoch_version)])
        context.epoch_version += 1
        next = Controller(self.store, context)
        next.carry_out(brokers.begin(context))
        return next

    @property
    def state(self) -> PartitionState:
        return self.context.topics["orders"].image.partitions[0]

    def carry_out(self, decision: Decision) -> bool:
        """Write, remember, tell. False if somebody else is controller by now."""
        guard: list[Op] = [Check(ControllerEpochNode.path, self.context.epoch_version)]
        try:
            if decision.writes:
                _write(self.store, guard + decision.writes)
        except BadVersion:
            return False
        for change in decision.changes:
            self.context.apply(change)
        self.told += [self.order(effect) for effect in decision.effects]
        moved = reassignment.advance(self.context)
        return self.carry_out(moved) if moved.writes else True

    def order(self, effect: Effect) -> Order:
        broker = self.context.brokers.get(getattr(effect, "broker", -1))
        epoch = NO_EPOCH if broker is None else broker.epoch
        return Order(effect, self.context.controller_id, self.context.epoch, epoch)


def _write(store: Tree, ops: Sequence[Op]) -> None:
    store.apply(store.plan(ops, session=0))


def _at_once(work: Coroutine[Any, Any, Any]) -> None:
    """What waits for nothing needs no event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("nobody waits on the stage")
