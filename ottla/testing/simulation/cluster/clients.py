"""Clients of a simulated cluster. They know what they were told last, ask again, repeat, and write down what they saw.

A producer is idempotent: what it repeats carries the same sequence. When it gives up on a record, nobody knows whether
it was written, and it goes on under a new producer id. What is acknowledged with acks=1 is no promise: the history has
it as `info`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.replication.state import NO_LEADER, PartitionState
from ottla.testing.history import HistoryClient, Pending, Send
from ottla.testing.simulation.cluster.calls import Calls
from ottla.testing.simulation.cluster.messages import AskMetadata, MetadataAnswer, Produce, Produced
from ottla.testing.simulation.cluster.object_log import Kind, Record
from ottla.testing.simulation.cluster.schedule import Work
from ottla.testing.simulation.cluster.settings import TOPIC
from ottla.testing.simulation.world import World

REQUEST_MS = 700
RETRY_MS = (10, 60)
DELIVERY_MS = 2_500
"""After this a producer gives up on a record."""
_SURE = {ErrorCode.NOT_ENOUGH_REPLICAS}
"""After these nothing was written by this attempt."""
_PIPELINED_MAX = 3


class Cluster:
    """What all clients of a run share: names of brokers, numbers that are given once, and counts."""

    def __init__(self, world: World, brokers: Sequence[str]) -> None:
        self.world = world
        self.brokers = list(brokers)
        self.acknowledged = 0
        self.is_over = False
        """No new work is begun."""
        self._last_producer_id = 0

    def new_producer_id(self) -> int:
        self._last_producer_id += 1
        return self._last_producer_id


class Client:
    """A node that asks. `metadata` is what it was told last, by whomever."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.chance = cluster.world.stream(name)
        self.calls = Calls(cluster.world, name)
        self.states: dict[TopicPartition, PartitionState] = {}
        self.controller = -1
        cluster.world.add(self)

    def receive(self, sender: str, message: Any) -> None:
        self.calls.answered(message)

    def crash(self) -> None: ...

    def restart(self) -> None: ...

    def after(self, delay_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        self.world.after(delay_ms, call, *arguments, node=self.name)

    def later(self, call: Callable[..., None], *arguments: Any) -> None:
        self.after(self.chance.randint(*RETRY_MS), call, *arguments)

    def ask(self, receiver: str, question: Callable[[int], Any], then: Callable[[Any], None]) -> None:
        self.calls.ask(receiver, question, then, REQUEST_MS)

    def learn(self, then: Callable[[], None]) -> None:
        """Ask anybody how the cluster looks."""

        def told(answer: MetadataAnswer | None) -> None:
            if answer is not None:
                self.controller = answer.controller
                for topic in answer.topics:
                    for state in topic.partitions:
                        self._keep_newest(state)
            then()

        self.calls.ask(self.chance.choice(self.cluster.brokers), AskMetadata, told, REQUEST_MS // 4)

    def _keep_newest(self, state: PartitionState) -> None:
        known = self.states.get(state.topic_partition)
        if known is None or known.topic_id != state.topic_id or known.leader_epoch <= state.leader_epoch:
            self.states[state.topic_partition] = state

    def leader_of(self, where: TopicPartition) -> str | None:
        state = self.states.get(where)
        return None if state is None or state.leader == NO_LEADER else f"b{state.leader}"


class Sending:
    """One record on its way: repeated until it is acknowledged, refused for good, or given up."""

    def __init__(
        self,
        client: Client,
        where: TopicPartition,
        record: Record,
        acks: int,
        then: Callable[[int | None, bool], None],
        deadline_ms: int | None = None,
    ) -> None:
        """`then` gets the offset, or None and whether it may have been written. Without a deadline it goes on."""
        self.client, self.where, self.record, self.acks, self.then = client, where, record, acks, then
        self.deadline_ms = deadline_ms
        self.is_unsure = False
        self._try()

    def _try(self) -> None:
        if self.deadline_ms is not None and self.client.world.now_ms >= self.deadline_ms:
            self.then(None, self.is_unsure)
            return
        leader = self.client.leader_of(self.where)
        if leader is None or self.client.chance.random() < 0.02:
            self.client.learn(lambda: self.client.later(self._try))
            return
        self.client.ask(
            leader, lambda number: Produce(number, self.where, self.record, self.acks), self._answered
        )

    def _answered(self, answer: Produced | None) -> None:
        if answer is not None and answer.error is ErrorCode.NONE:
            self.then(answer.offset, False)
        elif answer is not None and answer.error is ErrorCode.INVALID_PRODUCER_EPOCH:
            self.then(None, True)  # fenced: whoever sent on our behalf has ended this
        else:
            if answer is None or answer.error not in _SURE:
                self.is_unsure = True
            self.client.learn(lambda: self.client.later(self._try))


class Producer(Client):
    """Sends values to one partition, up to three at a time, one after the other."""

    def __init__(self, cluster: Cluster, name: str, work: Work, history: HistoryClient) -> None:
        super().__init__(cluster, name)
        self.where = TopicPartition(TOPIC, work.partition)
        self._work = work
        self._history = history
        self._producer_id = cluster.new_producer_id()
        self._sequence = 0
        self._values = 0
        self._is_known = False
        """Has this producer id been acknowledged anywhere? Before, the order of two is not safe."""
        self.is_idle = True
        self.after(work.at_ms + work.gap_ms, self._next)

    def _next(self) -> None:
        if self.cluster.is_over:
            return
        self.is_idle = False
        count = self.chance.randint(1, _PIPELINED_MAX) if self._is_known and self._work.acks != 1 else 1
        values = [self._value() for _ in range(count)]
        pending = self._history.send(str(self.where), *values)
        offsets: dict[str, int | None] = {}
        unsure: list[bool] = []
        deadline_ms = self.world.now_ms + DELIVERY_MS

        def ended(value: str, offset: int | None, is_unsure: bool) -> None:
            offsets[value] = offset
            unsure.append(is_unsure)
            if len(offsets) == len(values):
                self._ended(pending, [offsets[each] for each in values], values, any(unsure))

        for value in values:
            record = Record(value, self._producer_id, 0, self._sequence)
            self._sequence += 1
            self._send(record, deadline_ms, ended)

    def _send(self, record: Record, deadline_ms: int, ended: Callable[[str, int | None, bool], None]) -> None:
        def then(offset: int | None, is_unsure: bool) -> None:
            ended(record.value, offset, is_unsure)

        Sending(self, self.where, record, self._work.acks, then, deadline_ms)

    def _value(self) -> str:
        self._values += 1
        return f"{self.name}.{self._values}"

    def _ended(
        self, pending: Pending, offsets: Sequence[int | None], values: Sequence[str], is_unsure: bool
    ) -> None:
        key = str(self.where)
        if None not in offsets:
            steps = [Send(key, value, offset) for value, offset in zip(values, offsets, strict=True)]
            self._is_known = True
            if self._work.acks == 1:
                pending.info("acks=1")
            else:
                pending.ok(steps)
                self.cluster.acknowledged += len(values)
        else:
            certain = not is_unsure and all(offset is None for offset in offsets)
            pending.fail("never written") if certain else pending.info("given up")
            self._producer_id, self._sequence = self.cluster.new_producer_id(), 0
            self._is_known = False
        self.is_idle = True
        self.after(self._work.gap_ms + self.chance.randint(0, self._work.gap_ms), self._next)


class Transactions(Client):
    """Writes transactions over all partitions, and is their coordinator, too: it never dies, and ends what it began.

    Every transaction has a producer id of its own. The marker carries the next epoch, so that what comes late is
    refused (KIP-890).
    """

    def __init__(
        self, cluster: Cluster, name: str, work: Work, history: HistoryClient, partitions: int
    ) -> None:
        super().__init__(cluster, name)
        self._work = work
        self._history = history
        self._places = [TopicPartition(TOPIC, partition) for partition in range(partitions)]
        self._values = 0
        self.is_idle = True
        self.after(work.at_ms + work.gap_ms, self._next)

    def _next(self) -> None:
        if self.cluster.is_over:
            return
        self.is_idle = False
        self._values += 1
        producer_id = self.cluster.new_producer_id()
        values = [(where, f"{self.name}.{self._values}.{n}") for n, where in enumerate(self._places)]
        pending = self._history.txn([Send(str(where), value) for where, value in values])
        offsets: dict[TopicPartition, int | None] = {}

        def written(where: TopicPartition, offset: int | None) -> None:
            offsets[where] = offset
            if len(offsets) == len(values):
                is_commit = None not in offsets.values() and self.chance.random() < 0.75
                self._end(pending, producer_id, is_commit, values, offsets)

        deadline_ms = self.world.now_ms + DELIVERY_MS
        for where, value in values:
            record = Record(value, producer_id, 0, 0, Kind.IN_TRANSACTION)
            self._write(where, record, written, deadline_ms)

    def _write(
        self,
        where: TopicPartition,
        record: Record,
        then: Callable[[TopicPartition, int | None], None],
        deadline_ms: int | None,
    ) -> None:
        Sending(self, where, record, -1, lambda offset, _: then(where, offset), deadline_ms)

    def _end(
        self,
        pending: Pending,
        producer_id: int,
        is_commit: bool,
        values: Sequence[tuple[TopicPartition, str]],
        offsets: dict[TopicPartition, int | None],
    ) -> None:
        """The outcome stands. Now the markers, until every partition has its own."""
        marker = Record("", producer_id, 1, -1, Kind.COMMIT if is_commit else Kind.ABORT)
        missing = dict.fromkeys(self._places)

        def marked(where: TopicPartition, offset: int | None) -> None:
            missing.pop(where, None)
            if not missing:
                self._ended(pending, is_commit, [Send(str(w), v, offsets[w]) for w, v in values])

        self.world.sometimes("a transaction is committed" if is_commit else "a transaction is aborted")
        for where in self._places:
            self._write(where, marker, marked, None)

    def _ended(self, pending: Pending, is_commit: bool, steps: Sequence[Send]) -> None:
        if is_commit:
            pending.ok(steps)
            self.cluster.acknowledged += len(steps)
        else:
            pending.fail("aborted")
        self.is_idle = True
        self.after(self._work.gap_ms, self._next)
