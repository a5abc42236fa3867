"""Writers of transactions: over all partitions, with the offset of a group in each, ended by coordinators that move.

Each knows what it was told about its transactions. In the end the logs must agree with that (`outcomes`): a transaction
is there as a whole or not at all, with its offset or without, and none is open any more.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing.history import HistoryClient, Pending, Send
from ottla.testing.simulation.brokers.clients import DELIVERY_MS, REQUEST_MS, TOPIC, Client, Told, Unanswered
from ottla.testing.simulation.cluster.schedule import Work
from ottla.testing.simulation.world import WALL_MS

TIMEOUT_MS = 3_000
"""After this a coordinator aborts what nobody has ended."""
OF_GROUP, OF_TRANSACTION = 0, 1
_ABANDONED, _COMMITTED, _WITH_OFFSET = 0.1, 0.8, 0.5
_LAST_BY_NAME = 12
"""The version of Produce in which a batch announces its partition by itself."""
_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_REPLACED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Its coordinator has ended the transaction: its time was up."""


class Attempt:
    """One transaction: what it wrote, and how it ended, as far as its writer knows."""

    def __init__(self, number: int, values: dict[int, str], pending: Pending) -> None:
        self.number = number
        self.values = values
        self.pending = pending
        self.offsets: dict[int, int] = {}
        self.has_offset = False
        """Does it commit an offset, which is its number?"""
        self.is_committed: bool | None = None
        """None as long as nobody has said so."""


class Transactions(Client):
    """One transactional id, one transaction after the other."""

    def __init__(
        self, told: Told, name: str, work: Work, history: HistoryClient, partitions: Collection[int]
    ) -> None:
        super().__init__(told, name)
        self.attempts: list[Attempt] = []
        self._work = work
        self._history = history
        self._partitions = list(partitions)
        self._producer = (-1, -1)
        self._coordinators: dict[int, int] = {}
        self.is_ready = self.loop.run(self._find_coordinators()).done
        self._task = self.loop.run(self._work_on())

    @property
    def is_idle(self) -> bool:
        return self._task.done()

    async def _find_coordinators(self) -> None:
        """The first who looks for them has their topics created."""
        for kind in (OF_GROUP, OF_TRANSACTION):
            while kind not in self._coordinators:
                with contextlib.suppress(Unanswered):
                    await self._coordinator(kind)
                await self.pause()

    async def _work_on(self) -> None:
        await asyncio.sleep(self._work.at_ms / 1_000)
        while not self.told.is_over:
            await asyncio.sleep(self.chance.expovariate(1 / self._work.gap_ms) / 1_000)
            if self._producer[0] < 0:
                await self._become_somebody()
            else:
                await self._run()

    # --- whom to ask ----------------------------------------------------------------------------------------------

    async def _coordinator(self, kind: int) -> int:
        """As somebody said last. Raises Unanswered."""
        if kind not in self._coordinators:
            request = FindCoordinatorRequest(key=self.name, key_type=kind)
            found = await self.ask(self.chance.choice(self.told.brokers), request, 3)
            if found.error_code != ErrorCode.NONE:
                raise Unanswered(f"error {found.error_code}")
            self._coordinators[kind] = found.node_id
        return self._coordinators[kind]

    async def _insist(
        self,
        who: Callable[[], Awaitable[int]],
        request: object,
        version: int,
        code: Callable[[Any], int],
        until: float = float("inf"),
    ) -> Any:
        """The first answer that is not to come again, or to ask somebody else; None if there is none in time."""
        while self.loop.time() < until:
            try:
                answer = await self.ask(await who(), request, version)
                if code(answer) not in _AGAIN:
                    return answer
                self.world.sometimes(f"a transaction is told to come again ({code(answer)})")
            except Unanswered:
                pass
            self._coordinators.clear()
            await self.learn()
            await self.pause()
        return None

    # --- a transaction --------------------------------------------------------------------------------------------

    async def _become_somebody(self) -> None:
        """Also ends what was open under this id."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self._insist(
            lambda: self._coordinator(OF_TRANSACTION), request, 4, lambda each: each.error_code
        )
        if answer.error_code != ErrorCode.NONE:
            self.world.violate("transactions", f"{self.name} is refused its id: {answer.error_code}")
        self._producer = answer.producer_id, answer.producer_epoch

    async def _run(self) -> None:
        number = len(self.attempts) + 1
        values = {partition: f"{self.name}.{number}.{partition}" for partition in self._partitions}
        pending = self._history.txn([Send(str(partition), value) for partition, value in values.items()])
        attempt = Attempt(number, values, pending)
        self.attempts.append(attempt)
        is_written = await self._write(attempt)
        if self.chance.random() < _ABANDONED:
            self.world.sometimes("a transaction is left open")
            self._note(attempt, is_committed=False)
            self._producer = (-1, -1)
        else:
            await self._end(attempt, is_commit=is_written and self.chance.random() < _COMMITTED)

    async def _write(self, attempt: Attempt) -> bool:
        """Is everything where it was to be? If not, there is nothing left but to abort it."""
        until = self.loop.time() + DELIVERY_MS / 1_000
        for partition, value in attempt.values.items():
            since_ms = self.world.now_ms
            request = self._produce(partition, value)

            answer = await self._insist(
                partial(self._leader, partition), request, _LAST_BY_NAME, _code_of_batch, until
            )
            if answer is None or not self._is_taken(_code_of_batch(answer)):
                return False
            attempt.offsets[partition] = answer.responses[0].partition_responses[0].base_offset
            self.told.acknowledge(partition, attempt.offsets[partition], [value], since_ms)
        if self.chance.random() < _WITH_OFFSET:
            attempt.has_offset = True
            return await self._commit_offset(attempt.number, until)
        return True

    async def _leader(self, partition: int) -> int:
        if self.leaders.get(partition, -1) < 0:
            await self.learn()
        if (leader := self.leaders.get(partition, -1)) < 0:
            raise Unanswered(f"nobody leads {partition}")
        return leader

    def _is_taken(self, code: int) -> bool:
        if code != ErrorCode.NONE and code not in _REPLACED:
            self.world.violate("transactions", f"{self.name} is refused a batch: {code}")
        return code == ErrorCode.NONE

    def _produce(self, partition: int, value: str) -> ProduceRequest:
        id, epoch = self._producer
        record = Record(0, WALL_MS + self.world.now_ms, None, value.encode())
        data = build([record], producer_id=id, producer_epoch=epoch, base_sequence=0, is_transactional=True)
        part = ProduceRequest.Topic.Partition(index=partition, records=data)
        topic = ProduceRequest.Topic(name=TOPIC, partition_data=[part])
        return ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=REQUEST_MS, topic_data=[topic])

    async def _commit_offset(self, number: int, until: float) -> bool:
        """Its own number, for the group of its name."""
        topic = TxnOffsetCommitRequest.Topic
        part = topic.Partition(partition_index=0, committed_offset=number, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            topics=[topic(name=TOPIC, partitions=[part])],
        )

        def code(answer: Any) -> int:
            return int(answer.topics[0].partitions[0].error_code)

        answer = await self._insist(lambda: self._coordinator(OF_GROUP), request, 5, code, until)
        return answer is not None and self._is_taken(code(answer))

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """Asks until somebody answers."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=is_commit,
        )
        answer = await self._insist(
            lambda: self._coordinator(OF_TRANSACTION), request, 5, lambda each: each.error_code
        )
        if answer.error_code == ErrorCode.NONE:
            self._producer = answer.producer_id, answer.producer_epoch
            self._note(attempt, is_committed=is_commit)
            return
        if answer.error_code not in _REPLACED:
            self.world.violate("transactions", f"{self.name} cannot end its own: {answer.error_code}")
        self.world.sometimes("a transaction was ended by its coordinator")
        self._producer = (-1, -1)
        if is_commit:
            attempt.pending.info("its coordinator has ended it, nobody knows how")
        else:
            self._note(attempt, is_committed=False)

    def _note(self, attempt: Attempt, *, is_committed: bool) -> None:
        attempt.is_committed = is_committed
        self.world.note(f"{self.name}: {attempt.number} is {'committed' if is_committed else 'aborted'}")
        self.world.sometimes("a transaction is committed" if is_committed else "a transaction is aborted")
        if is_committed:
            steps = [Send(str(at), value, attempt.offsets[at]) for at, value in attempt.values.items()]
            attempt.pending.ok(steps)
        else:
            attempt.pending.fail("aborted")


def _code_of_batch(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)
