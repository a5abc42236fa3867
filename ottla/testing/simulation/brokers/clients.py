"""Clients of simulated brokers: they know what they were told last, ask again, repeat, and write down what they saw."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ottla.core.errors import ErrorCode, OttlaError
from ottla.network.peer import Peer, PeerLimits, connect
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.protocol.messages.transactions import InitProducerIdRequest
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing.history import HistoryClient, Poll, Send
from ottla.testing.simulation.brokers.node import PORT, name_of
from ottla.testing.simulation.cluster.schedule import Work
from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.wire import Wires
from ottla.testing.simulation.world import WALL_MS, World

TOPIC = "t"
REQUEST_MS = 1_500
DELIVERY_MS = 4_000
"""After this a producer gives up on a batch."""
_RETRY_MS = (10, 80)
_FETCH_WAIT_MS = 300
_FETCH_BYTES = 64 * 1024
_FROM_ANYBODY = 0.1
_STALE_METADATA = 0.02
_PARTITION_VERSION = 12
"""The last version of Produce and Fetch that names topics by name."""


class Unanswered(Exception):
    """No answer, for whatever reason; or there is nobody to ask."""


class Told:
    """What clients of one run share: who may be asked, and what was acknowledged."""

    def __init__(self, world: World, wires: Wires, brokers: Sequence[int]) -> None:
        self.world = world
        self.wires = wires
        self.brokers = list(brokers)
        self.acknowledged: dict[int, dict[int, str]] = {}
        """By partition: what lies at which offset, for ever."""
        self.is_over = False
        """No new work is begun."""
        self.lost_ms: dict[int, int] = {}
        """By partition: when records were lost last, which was allowed."""

    def acknowledge(self, partition: int, offset: int, values: Sequence[str], since_ms: int) -> None:
        """Somebody sent this at `since_ms`, and was told where it lies."""
        if since_ms <= self.lost_ms.get(partition, -1):
            return  # it may be among what was lost
        known = self.acknowledged.setdefault(partition, {})
        for number, value in enumerate(values):
            was = known.setdefault(offset + number, value)
            if was != value:
                self.world.violate("offsets are unique", f"{offset + number} holds {was} and {value}")


class Client:
    """A node with connections. `leaders` is what it was told last, by whomever."""

    def __init__(self, told: Told, name: str) -> None:
        self.told = told
        self.world = told.world
        self.name = name
        self.chance = told.world.stream(name)
        self.leaders: dict[int, int] = {}
        self.replicas: dict[int, list[int]] = {}
        self.controller = -1
        self.epochs: dict[int, int] = {}
        self._peers: dict[int, Peer] = {}
        told.world.add(self)
        self.loop = NodeLoop(told.world, name, wires=told.wires)

    def receive(self, sender: str, message: Any) -> None:
        raise AssertionError("clients are spoken to over wires")

    def crash(self) -> None: ...

    def restart(self) -> None: ...

    async def ask(self, broker: int, request: object, version: int | None = None) -> Any:
        """Raises Unanswered; the connection is given up then."""
        try:
            peer = await self._peer(broker)
            return await peer.send(request, version)
        except (OttlaError, OSError) as error:
            gone = self._peers.pop(broker, None)
            if gone is not None:
                gone.abort()
            raise Unanswered(str(error)) from error

    async def _peer(self, broker: int) -> Peer:
        known = self._peers.get(broker)
        if known is None or not known.is_open:
            limits = PeerLimits(timeout_ms=REQUEST_MS)
            known = await connect(name_of(broker), PORT, client_id=self.name, limits=limits)
            self._peers[broker] = known
        return known

    async def pause(self) -> None:
        await asyncio.sleep(self.chance.randint(*_RETRY_MS) / 1_000)

    async def learn(self) -> None:
        """Ask anybody how the cluster looks."""
        asked = [MetadataRequest.Topic(name=TOPIC)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        try:
            answer: MetadataResponse = await self.ask(self.chance.choice(self.told.brokers), request)
        except Unanswered:
            return
        self.controller = answer.controller_id
        for topic in answer.topics:
            for each in topic.partitions:
                if each.leader_epoch >= self.epochs.get(each.partition_index, 0):
                    self.epochs[each.partition_index] = each.leader_epoch
                    self.leaders[each.partition_index] = each.leader_id
                    self.replicas[each.partition_index] = list(each.replica_nodes)

    async def leader_of(self, partition: int) -> int:
        """Waits until somebody is said to lead it."""
        if self.chance.random() < _STALE_METADATA:
            await self.learn()
        while (leader := self.leaders.get(partition, -1)) < 0:
            await self.learn()
            await self.pause()
        return leader


class Producer(Client):
    """Sends values to one partition, a batch at a time, with a producer id."""

    def __init__(self, told: Told, name: str, work: Work, history: HistoryClient) -> None:
        super().__init__(told, name)
        self.sent = 0
        self.acknowledged = 0
        self._work = work
        self._history = history
        self._producer = (-1, -1)
        self._sequence = 0
        self._task = self.loop.run(self._work_on())

    @property
    def partition(self) -> int:
        return self._work.partition

    @property
    def is_idle(self) -> bool:
        """Is there nothing left to do?"""
        return self._task.done()

    async def _work_on(self) -> None:
        await asyncio.sleep(self._work.at_ms / 1_000)
        while not self.told.is_over:
            await asyncio.sleep(self.chance.expovariate(1 / self._work.gap_ms) / 1_000)
            if self._producer[0] < 0:
                await self._become_somebody()
            else:
                await self._send(self.chance.choice((1, 1, 2, 3)))

    async def _become_somebody(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        try:
            answer = await self.ask(self.chance.choice(self.told.brokers), request)
        except Unanswered:
            return
        if answer.error_code == ErrorCode.NONE:
            self._producer, self._sequence = (answer.producer_id, answer.producer_epoch), 0

    async def _send(self, count: int) -> None:
        values = [f"{self.name}-{self.sent + number}" for number in range(count)]
        self.sent += count
        key = str(self._work.partition)
        pending, since_ms = self._history.send(key, *values), self.world.now_ms
        offset = await self._deliver(values)
        if offset is None:
            pending.info("nobody knows")
            self._producer = (-1, -1)  # what comes later must not be mistaken for a repetition
            return
        self.world.note(f"{self.name} has {values[0]} at {offset}")
        self._sequence += count
        self.acknowledged += count
        if self._work.acks == -1:
            self.told.acknowledge(self._work.partition, offset, values, since_ms)
            pending.ok([Send(key, value, offset + number) for number, value in enumerate(values)])
        else:
            pending.info("the leader has it, which is no promise")

    async def _deliver(self, values: Sequence[str]) -> int | None:
        """The offset, as soon as somebody acknowledges; None if that takes too long or cannot be any more."""
        deadline = self.loop.time() + DELIVERY_MS / 1_000
        request = self._request(values)
        while self.loop.time() < deadline:
            try:
                leader = await asyncio.wait_for(self.leader_of(self._work.partition), DELIVERY_MS / 1_000)
                answer: ProduceResponse = await self.ask(leader, request, _PARTITION_VERSION)
            except (Unanswered, TimeoutError):
                await self.learn()
                await self.pause()
                continue
            told = answer.responses[0].partition_responses[0]
            if told.error_code == ErrorCode.NONE:
                return told.base_offset
            self.world.note(f"{self.name} is refused {values[0]}: {told.error_code}")
            self.world.sometimes(f"a producer is refused ({told.error_code})")
            if told.error_code in _HOPELESS:
                if self._work.acks == -1 and self._work.partition not in self.told.lost_ms:
                    sentence = f"{self.name} got {told.error_code}, though all before was acknowledged"
                    self.world.violate("sequences", sentence)
                return None
            await self.learn()
            await self.pause()
        return None

    def _request(self, values: Sequence[str]) -> ProduceRequest:
        now_ms = WALL_MS + self.world.now_ms
        records = [Record(number, now_ms, None, value.encode()) for number, value in enumerate(values)]
        id, epoch = self._producer
        data = build(records, producer_id=id, producer_epoch=epoch, base_sequence=self._sequence)
        part = ProduceRequest.Topic.Partition(index=self._work.partition, records=data)
        topic = ProduceRequest.Topic(name=TOPIC, partition_data=[part])
        return ProduceRequest(acks=self._work.acks, timeout_ms=REQUEST_MS, topic_data=[topic])


_HOPELESS = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)
"""After these the same batch need not be tried again."""


class Reader(Client):
    """Reads one partition from its start, from the leader or from anybody, and writes down what it saw."""

    def __init__(
        self, told: Told, name: str, work: Work, history: HistoryClient, *, until: int | None = None
    ) -> None:
        super().__init__(told, name)
        self.offset = 0
        self.read = 0
        self.seen: set[str] = set()
        self.is_done = False
        self._work = work
        self._history = history
        self._until = until
        history.assign([str(work.partition)]).ok()
        self.loop.run(self._work_on())

    async def _work_on(self) -> None:
        while not self.is_done:
            try:
                await self._fetch(await self._place())
            except Unanswered:
                await self.learn()
                await self.pause()
            self.is_done = self._until is not None and self.offset >= self._until

    async def _place(self) -> int:
        leader = await self.leader_of(self._work.partition)
        if self._work.from_follower or self.chance.random() < _FROM_ANYBODY:
            return self.chance.choice(self.replicas[self._work.partition])
        return leader

    async def _fetch(self, broker: int) -> None:
        part = FetchRequest.Topic.Partition(
            partition=self._work.partition,
            current_leader_epoch=self.epochs.get(self._work.partition, -1),
            fetch_offset=self.offset,
            partition_max_bytes=_FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=int(self._work.read_committed),
            topics=[FetchRequest.Topic(topic=TOPIC, partitions=[part])],
        )
        answer: FetchResponse = await self.ask(broker, request, _PARTITION_VERSION)
        told = answer.responses[0].partitions[0] if answer.responses else None
        if told is None or told.error_code != ErrorCode.NONE:
            code = told.error_code if told else answer.error_code
            self.world.sometimes(f"a reader is refused ({code})")
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._begin_again(broker)
            raise Unanswered(f"error {code}")
        values = self._take(told.records or b"", told.aborted_transactions or ())
        if values:
            self.read += len(values)
            self.seen.update(value for _, value in values)
            self.world.note(f"{self.name} reads from {broker} up to {self.offset}")
            self._history.poll().ok([Poll({str(self._work.partition): values})])

    def _begin_again(self, broker: int) -> None:
        """What we have read is not there any more."""
        if self._work.partition not in self.told.lost_ms:
            sentence = f"{self.name} has read up to {self.offset}, which {broker} does not know of"
            self.world.violate("what was read stays", sentence)
        self.offset = 0

    def _take(self, data: Any, aborted: Sequence[Any]) -> list[tuple[int, str]]:
        """As a consumer does: no markers, and nothing of transactions that were aborted."""
        values, skipped = [], set[int]()
        to_come = sorted(aborted, key=lambda each: each.first_offset)
        for position, header in iter_batches(data, partial=True):
            while to_come and to_come[0].first_offset <= header.last_offset:
                skipped.add(to_come.pop(0).producer_id)
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in skipped:
                values += [
                    (record.offset, (record.value or b"").decode())
                    for record in records_of(data, position)
                    if record.offset >= self.offset
                ]
            self.offset = max(self.offset, header.next_offset)
        return values
