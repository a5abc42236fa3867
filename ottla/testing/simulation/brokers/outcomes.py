"""How transactions have ended, as the logs say, against what their writers were told.

A transaction is there in all of its partitions or in none, its offset counts if and only if its records do, and once
everything is well nothing is open any more: the last stable offset is the high watermark.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set

from ottla.broker.coordination import Coordination
from ottla.broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.core.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.storage.producers import NO_OFFSET
from ottla.testing.simulation.brokers.clients import TOPIC
from ottla.testing.simulation.brokers.node import SimBroker
from ottla.testing.simulation.brokers.transactions import Attempt, Transactions
from ottla.transactions.transaction import NO_EPOCH

_WRITTEN = (TOPIC, CONSUMER_OFFSETS, TRANSACTION_STATE)
"""Where transactions leave something."""


class Outcomes:
    """Looks at the brokers that lead. `there` are all partitions, `is_hopeless` says whether one of them could only be
    led by somebody who is away for ever: without its coordinator a transaction stays open, and nobody can help it."""

    def __init__(
        self,
        brokers: Sequence[SimBroker],
        writers: Sequence[Transactions],
        there: Collection[TopicPartition],
        is_hopeless: Callable[[], bool],
    ) -> None:
        self._brokers = brokers
        self._writers = writers
        self._there = there
        self._is_hopeless = is_hopeless

    def _led(self) -> dict[TopicPartition, Partition]:
        """By whoever leads in the newest epoch."""
        found: dict[TopicPartition, Partition] = {}
        for node in self._brokers:
            for partition in node.partitions:
                where = partition.topic_partition
                known = found.get(where)
                if partition.is_leader and (known is None or known.leader_epoch < partition.leader_epoch):
                    found[where] = partition
        return found

    def are_all_ended(self) -> bool:
        return self.open() is None

    def open(self) -> str | None:
        """What keeps readers of committed records from seeing how all has ended."""
        if not self._writers or self._is_hopeless():
            return None
        for writer in self._writers:
            if not writer.is_idle:
                return f"{writer.name} is not done"
        led = self._led()
        for where in self._there:
            if where.topic not in _WRITTEN:
                continue
            if where not in led:
                return f"nobody leads {where}"
            partition = led[where]
            stable, high = partition.log.last_stable_offset, partition.high_watermark.value
            if high < partition.log.end_offset:
                return f"{where} is committed up to {high} of {partition.log.end_offset}"
            if stable < high:
                return f"{where} is stable up to {stable} of {high}"
        return self._loading()

    def _coordinating(self) -> Iterator[tuple[SimBroker, Coordination]]:
        for node in self._brokers:
            if node.broker is not None and "coordination" in vars(
                node.broker
            ):  # it is made when it is needed
                yield node, node.broker.coordination

    def _loading(self) -> str | None:
        for node, found in self._coordinating():
            if found.groups.is_loading or found.transactions.is_loading:
                return f"{node} loads"
        return None

    # --- at any time ------------------------------------------------------------------------------------------------

    def look_at(self, partition: Partition) -> str | None:
        """A transaction that its coordinator calls complete is open nowhere."""
        if not self._writers or partition.log.last_stable_offset == partition.high_watermark.value:
            return None
        led, where = self._led(), partition.topic_partition
        if where.topic != TOPIC or led[where] is not partition:
            return None
        completed = self._completed(led)
        for known in partition.log.producers.all():
            is_open = known.txn_first_offset != NO_OFFSET
            if is_open and known.epoch < completed.get(known.producer_id, NO_EPOCH):
                return f"producer {known.producer_id} has a transaction open that is complete"
        return None

    def _completed(self, led: Mapping[TopicPartition, Partition]) -> dict[int, int]:
        """By producer id: the epoch of the marker that has ended its last transaction. A coordinator that was replaced
        may believe what is not committed."""
        return {
            each.producer_id: each.producer_epoch
            for _, found in self._coordinating()
            for index, shard in found.transactions.shards.items()
            if led.get(TopicPartition(TRANSACTION_STATE, index)) is shard.partition
            and shard.partition.high_watermark.value == shard.partition.log.end_offset
            for each in shard.machine.transactions.values()
            if each.state.is_complete
        }

    # --- in the end -------------------------------------------------------------------------------------------------

    def judge(self, seen: Set[str]) -> str | None:
        """What is wrong; `seen` is all that readers of committed records get to see."""
        committed = dict(self._committed())
        for writer in self._writers:
            for attempt in writer.attempts:
                if (sentence := _whole(attempt, seen)) is not None:
                    return f"{writer.name}: {sentence}"
            if (sentence := self._judge_offset(writer, seen, committed)) is not None:
                return f"{writer.name}: {sentence}"
        return None

    @staticmethod
    def _judge_offset(writer: Transactions, seen: Set[str], committed: Mapping[str, int]) -> str | None:
        last = max(
            (
                each.number
                for each in writer.attempts
                if each.has_offset and not seen.isdisjoint(each.values.values())
            ),
            default=None,
        )
        found = committed.get(writer.name)
        return None if last == found else f"its offset is {found}, but its last transaction is {last}"

    def _committed(self) -> Iterator[tuple[str, int]]:
        """The offsets that groups have, as their coordinators say."""
        led = self._led()
        for _, found in self._coordinating():
            for index, shard in found.groups.shards.items():
                if led.get(TopicPartition(CONSUMER_OFFSETS, index)) is shard.partition:
                    for group_id, _, offset in shard.machine.committed():
                        yield group_id, offset


def _whole(attempt: Attempt, seen: Set[str]) -> str | None:
    values = set(attempt.values.values())
    there = values & seen
    if there and there != values:
        return f"of transaction {attempt.number} only {sorted(there)} are there"
    if attempt.is_committed is not None and attempt.is_committed != bool(there):
        said = "committed" if attempt.is_committed else "aborted"
        return f"transaction {attempt.number} was {said}, but is {'there' if there else 'not there'}"
    return None
