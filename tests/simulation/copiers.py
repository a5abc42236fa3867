"""Consume, transform, produce: members of a group that copy their input within transactions, offsets included."""

import itertools
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest
from ottla.replication.machine import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.ledger import Place
from tests.simulation.members import NO_COORDINATOR, OUT, PARTITIONS, ClassicMember
from tests.simulation.peers import Ask, Script, Sleep, code_of

INPUT_COUNT = 30
"""Values in each partition of the input."""
OUTPUTS = 2
AGAIN = NO_COORDINATOR | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}
TIMEOUT_MS = 1_500


def output_of(partition: tuple[str, int], index: int) -> TopicPartition:
    return TopicPartition("output", (partition[1] + index) % OUTPUTS)


class Copier(ClassicMember):
    """Uses one transactional id through all its lives."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self.attempts = itertools.count(1)
        self.transaction_coordinator = cluster.names[1]
        self.generation: int | None = None
        self.group_error = ErrorCode.NONE
        self._sequences: dict[tuple[Producer, TopicPartition], int] = {}

    def live(self) -> Script:
        self.member_id, self.generation = "", None
        while True:
            joined = yield from self.join()
            producer = None if joined is None else (yield from self.init())
            if joined is not None and producer is not None:
                self.rounds += 1
                code = yield from self.copy(*joined, producer)
                if code in OUT:
                    self.member_id = ""
            yield Sleep(self.chance.randint(20, 150))

    def ask_transactions(self, api: str, request: Any, attempts: int = 8) -> Script:
        """Ask until there is an answer that is one."""
        reply = None
        for _ in range(attempts):
            reply = yield Ask(self.transaction_coordinator, api, request)
            if code_of(reply) not in AGAIN:
                return reply
            if code_of(reply) in NO_COORDINATOR:
                self.transaction_coordinator = self.cluster.coordinator(
                    self.cluster.transaction_log, self.chance
                )
            yield Sleep(self.chance.randint(10, 60))
        return reply

    def init(self) -> Script:
        """Whoever had the transactional id before has it no more."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        reply = yield from self.ask_transactions("init", request, 20)
        return None if code_of(reply) else Producer(reply.producer_id, reply.producer_epoch)

    def beat(self, generation: int) -> Script:
        """Beside the work, as consumers do it; `group_error` says what the group thinks of it."""
        while self.generation == generation:
            code = yield from self.heartbeat(generation)
            if code and code not in AGAIN and self.generation == generation:
                self.group_error = code
                return
            yield Sleep(100)

    def copy(self, generation: int, partitions: list[tuple[str, int]], producer: Producer) -> Script:
        """Transaction after transaction, until something goes wrong; the error, if that is what went wrong."""
        self.generation, self.group_error = generation, ErrorCode.NONE
        self.spawn(self.beat(generation))
        code = yield from self.copy_until_told_otherwise(generation, partitions, producer)
        self.generation = None
        return code

    def copy_until_told_otherwise(
        self, generation: int, partitions: list[tuple[str, int]], producer: Producer
    ) -> Script:
        positions = None
        while positions is None:
            if self.group_error:
                return self.group_error
            positions = yield from self.fetch(partitions, require_stable=True) if partitions else {}
            yield Sleep(20)
        positions = {place: max(0, committed) for place, committed in positions.items()}
        while True:
            if self.group_error:
                return self.group_error
            ready = [place for place in partitions if positions[place] < INPUT_COUNT]
            if not ready:
                yield Sleep(self.chance.randint(100, 200))
                continue
            next_producer = yield from self.transact(
                generation, producer, positions, self.chance.choice(ready)
            )
            if next_producer is None:
                return ErrorCode.NONE
            producer = next_producer
            yield Sleep(self.chance.randint(5, 60))

    def transact(
        self, generation: int, producer: Producer, positions: dict[Any, int], partition: tuple[str, int]
    ) -> Script:
        """One transaction. Returns the producer to go on with; None if nobody knows what became of it."""
        attempt = f"{self.name}-{next(self.attempts)}"
        start = positions[partition]
        end = min(INPUT_COUNT, start + self.chance.randint(1, 4))
        is_good = yield from self.write(attempt, producer, partition, range(start, end))
        if is_good:
            is_good = yield from self.commit_offset(attempt, generation, producer, partition, end)
        is_commit = is_good and self.chance.random() < 0.85
        if is_commit:
            self.cluster.ledger.asked.add(attempt)
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        )
        reply = yield from self.ask_transactions("end", request)
        if code_of(reply):
            return None
        self.cluster.ledger.acknowledge(attempt, is_commit)
        if is_commit:
            positions[partition] = end
        return Producer(reply.producer_id, reply.producer_epoch) if is_good else None

    def write(self, attempt: str, producer: Producer, partition: tuple[str, int], indexes: range) -> Script:
        for index in indexes:
            place = output_of(partition, index)
            sequence = self._sequences.get((producer, place), 0)
            self._sequences[producer, place] = sequence + 1
            value = (partition[1], index)
            for _ in range(4):
                reply = yield Ask(
                    "data", "produce", (self.name, producer, attempt, place, sequence, value), 900
                )
                if code_of(reply) not in AGAIN:
                    break
            if code_of(reply):
                return False
        return True

    def commit_offset(
        self, attempt: str, generation: int, producer: Producer, partition: tuple[str, int], offset: int
    ) -> Script:
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id=generation,
            member_id=self.member_id,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=partition[0],
                    partitions=[
                        TxnOffsetCommitRequest.Topic.Partition(
                            partition_index=partition[1],
                            committed_offset=offset,
                            committed_metadata=f"{self.name}|{generation}|{attempt}",
                        )
                    ],
                )
            ],
        )
        for _ in range(4):
            reply = yield from self.ask("txn_commit", request, 250)
            code = code_of(reply) or ErrorCode(reply.topics[0].partitions[0].error_code)
            if code not in AGAIN:
                break
        return not code


def is_done(cluster: Cluster) -> bool:
    """Everything is copied, and no transaction is open."""
    done = all(cluster.ledger.committed(Place("g", *place)) == INPUT_COUNT for place in PARTITIONS)
    return done and not cluster.data.open_transactions


def check_output(cluster: Cluster) -> None:
    """Every value of the input is there, once, and those of one input are in their order."""
    outputs = {
        place: [value for _, value in sorted(records)] for place, records in cluster.data.committed.items()
    }
    copied = sorted(value for values in outputs.values() for value in values)
    expected = sorted((index, value) for _, index in PARTITIONS for value in range(INPUT_COUNT))
    if copied != expected:
        cluster.world.violate("exactly once", f"{len(copied)} values instead of {len(expected)}: {copied}")
    for place, values in outputs.items():
        for _, index in PARTITIONS:
            own = [value for partition, value in values if partition == index]
            if own != sorted(own):
                cluster.world.violate("the order of the input", f"{place}: {own}")
