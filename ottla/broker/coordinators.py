"""The coordinators of this broker: which shards are here, and whether they are ready.

A shard comes with the leadership of its partition of an internal topic, and goes with it. While it is being loaded its
clients are told to try again; a load that leadership has overtaken is dropped before it can take charge.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ottla.broker.loading import Loader
from ottla.broker.metadata import Metadata
from ottla.broker.shards import Shard, moment
from ottla.core.clock import Clock, Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.record_types import RecordType
from ottla.records.errors import RecordError
from ottla.replication.machine import Decision, Later, Machine, Producer, Ticket, answer_of
from ottla.replication.partition import Partition
from ottla.replication.state import NO_LEADER, TopicImage
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log
from ottla.transactions.transaction import NoProducerIds

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
R = TypeVar("R")

RELOAD_SECONDS = 1.0
"""Before a load that failed is tried again."""


class FutureTicket:
    """A ticket that a handler waits for."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, reply: Any) -> None:
        if not self.future.done():
            self.future.set_result(reply)


class Surroundings:
    """What coordinators need of their broker."""

    def __init__(
        self,
        clock: Clock,
        metadata: Metadata,
        commit_of: Callable[[Log], GroupCommit],
        create: Callable[[str], Coroutine[Any, Any, TopicImage]],
        write_timeout_ms: Callable[[], int],
        refill: Callable[[], Awaitable[None]],
        note_failure: Callable[[Partition], object],
    ) -> None:
        self.clock = clock
        self.metadata = metadata
        self.commit_of = commit_of
        self.create = create
        """Create an internal topic."""
        self.write_timeout_ms = write_timeout_ms
        self.refill = refill
        """Have producer ids at hand."""
        self.note_failure = note_failure


class Coordinator(Generic[M]):
    """All shards of one internal topic that this broker leads."""

    def __init__(
        self,
        topic: str,
        types: Mapping[int, RecordType],
        make: Callable[[int, Moment], M],
        count: Callable[[], int],
        surroundings: Surroundings,
    ) -> None:
        self.topic = topic
        self.clock = surroundings.clock
        self.commit_of = surroundings.commit_of
        self.shards: dict[int, Shard[M]] = {}
        self.on_effect: Callable[[Any], object] = lambda effect: None
        self.on_active: Callable[[int, Shard[M]], object] = lambda index, shard: None
        """Called with every shard that takes charge."""
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._types = types
        self._make = make
        """A new machine, for a leader epoch."""
        self._count = count
        self._around = surroundings

    # --- coming and going ---------------------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Leadership of a partition of the topic may have changed."""
        index = partition.topic_partition.partition
        shard = self.shards.get(index)
        if shard is not None:
            is_same = shard.partition is partition and shard.leader_epoch == partition.leader_epoch
            if partition.is_leader and is_same:
                return
            self._drop(index, f"{partition.topic_partition} is led by somebody else now")
        loading = self._loads.pop(index, None)
        if loading is not None:
            loading.cancel()
        if partition.is_leader:
            self._begin(partition)

    def close(self) -> None:
        """Nobody is served any more."""
        for loading in self._loads.values():
            loading.cancel()
        for index in list(self.shards):
            self._drop(index, "the broker stops")

    def _begin(self, partition: Partition) -> None:
        index = partition.topic_partition.partition
        if partition.log.log_start_offset == partition.log.end_offset:
            self._take_charge(partition, self._make(partition.leader_epoch, moment(self.clock)))
            return
        load = asyncio.get_running_loop().create_task(
            self._load(partition), name=f"load {partition.topic_partition}"
        )
        self._loads[index] = load

    async def _load(self, partition: Partition) -> None:
        index, epoch = partition.topic_partition.partition, partition.leader_epoch
        while True:
            started = self.clock.monotonic_ms()
            machine = self._make(epoch, moment(self.clock))
            loader = Loader(partition.log, self._types, machine)
            try:
                await loader.load()
                break
            except (KafkaError, RecordError) as error:
                logger.error("%s cannot be loaded: %s", partition.topic_partition, error)
                self.note_failure(partition)
                await asyncio.sleep(RELOAD_SECONDS)
        # From the last record applied to here nothing else has run: whoever appends next finds the shard in charge.
        if self._loads.get(index) is not asyncio.current_task():
            return
        del self._loads[index]
        if partition.is_leader and partition.leader_epoch == epoch:
            self._take_charge(partition, machine)
            spent = self.clock.monotonic_ms() - started
            logger.info("%s: %d records loaded in %d ms", partition.topic_partition, loader.records, spent)

    def _take_charge(self, partition: Partition, machine: M) -> None:
        index, shard = partition.topic_partition.partition, Shard(partition, machine, self)
        self.shards[index] = shard
        shard.activate()
        self.on_active(index, shard)

    def _drop(self, index: int, reason: str) -> None:
        self.shards.pop(index).retire(KafkaError(ErrorCode.NOT_COORDINATOR, reason))

    def reload(self, shard: Shard[Any], reason: str) -> None:
        index = shard.partition.topic_partition.partition
        if self.shards.get(index) is not shard:
            return
        logger.warning("%s is loaded anew: %s", shard.partition.topic_partition, reason)
        self._drop(index, reason)
        if shard.partition.is_leader:
            self._begin(shard.partition)

    def note_failure(self, partition: Partition) -> None:
        self._around.note_failure(partition)

    def carry_out(self, effect: Any) -> None:
        self.on_effect(effect)

    # --- finding ------------------------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        return bool(self._loads)

    @property
    def loading(self) -> Collection[int]:
        """The partitions that are being read from the log."""
        return self._loads.keys()

    @property
    def partition_count(self) -> int:
        """Of the topic, or of what it will have when it is created."""
        image = self._around.metadata.topics.get(self.topic)
        return self._count() if image is None else len(image.partitions)

    def partition_of(self, key: str) -> int:
        """Which partition holds what is known of the key."""
        return place_of(key, self.partition_count)

    async def find(self, key: str) -> int:
        """Who coordinates the key. The topic is created if it does not exist. Raises COORDINATOR_NOT_AVAILABLE."""
        image = self._around.metadata.topics.get(self.topic) or await self._create()
        leader = image.partitions[self.partition_of(key)].leader
        if leader == NO_LEADER or leader not in self._around.metadata.brokers:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads the partition of {key!r}")
        return leader

    async def _create(self) -> TopicImage:
        try:
            return await self._around.create(self.topic)
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic}: {error.detail}") from error

    def shard_of(self, key: str) -> Shard[M]:
        """The shard that knows of the key. Raises 14 while it is loaded, 16 if it is not here."""
        index = self.partition_of(key)
        shard = self.shards.get(index)
        if shard is None:
            raise self._absent(index)
        return shard

    def _absent(self, index: int) -> KafkaError:
        place = TopicPartition(self.topic, index)
        if index in self._loads:
            return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{place} is being loaded")
        return KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {place}")

    # --- asking -------------------------------------------------------------------------------------------------

    async def run(self, key: str, decide: Callable[[M, Moment], Decision[R]]) -> R:
        """Have it decided, written and committed."""
        try:
            decision, waiting = self.shard_of(key).run(decide)
        except NoProducerIds:
            await self._around.refill()
            return await self.run(key, decide)
        if waiting is not None:
            await self._committed(waiting)
        assert not isinstance(decision.reply, Later), "without a ticket there is nothing to wait for"
        return decision.reply

    async def run_with_ticket(self, key: str, decide: Callable[[M, Ticket, Moment], Decision[R]]) -> R:
        """As `run`, for what may be answered much later."""
        ticket = FutureTicket()
        decision, waiting = self.shard_of(key).run(lambda machine, now: decide(machine, ticket, now))
        if isinstance(decision.reply, Later):
            answer: R | KafkaError = await ticket.future
            if isinstance(answer, KafkaError):
                raise answer
            return answer
        if waiting is not None:
            await self._committed(waiting)
        return decision.reply

    async def read(self, key: str, ask: Callable[[M], R]) -> R:
        """What the machine knows, once it is sure to stay."""
        answer, waiting = self.shard_of(key).read(ask)
        if waiting is not None:
            await self._committed(waiting)
        return answer

    async def read_all(self, ask: Callable[[M], R]) -> list[R]:
        """The same question to every shard in charge here."""
        answers = []
        for shard in list(self.shards.values()):
            answer, waiting = shard.read(ask)
            if waiting is not None:
                await self._committed(waiting)
            answers.append(answer)
        return answers

    async def _committed(self, waiting: "asyncio.Task[None]") -> None:
        """Wait for replicas and disks, but not for ever."""
        timeout_ms = self._around.write_timeout_ms()
        await asyncio.wait([waiting], timeout=timeout_ms / 1000)
        if not waiting.done():
            detail = f"not replicated within {timeout_ms} ms"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, detail)
        try:
            waiting.result()
        except KafkaError as error:
            raise answer_of(error) from error

    def apply_end(self, index: int, producer: Producer, *, is_commit: bool) -> None:
        """A marker was written to a partition of the topic. A shard that is being loaded will come across it."""
        shard = self.shards.get(index)
        if shard is not None:
            shard.apply_end(producer, is_commit=is_commit)


@lru_cache(maxsize=10_000)  # every request asks, and most ask about the same few
def place_of(key: str, count: int) -> int:
    """Where Kafka keeps what it knows of a group or a transactional id, among `count` partitions."""
    number = java_hash(key)
    return (0 if number == -(1 << 31) else abs(number)) % count


def java_hash(text: str) -> int:
    """String.hashCode() of Java: Kafka's clients and brokers all place groups by it."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (31 * value + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
