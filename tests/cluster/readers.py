"""Our own clients at work on a cluster that loses brokers: one writes without a pause, others read, alone or in groups.

Everybody notes what was acknowledged, read and committed. A stay is the time that one reader has one partition. In a
stay offsets have no gap and no repetition; a stay begins where the group committed last, or between there and where
others have read to. So nothing is skipped, nothing goes backwards, and what is read twice was not committed.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from ottla.client import Consumer, ConsumerRecord, KafkaError, Producer, RebalanceListener, TopicPartition
from tests.interop.brokers import eventually

KEYS = 11
SENT_AT_ONCE, PAUSE_SECONDS = 20, 0.05
BUFFERED_MAX = 200
POLL_MS = 200


class Worker:
    """A thread that works until it is told to stop. Whatever it raises is raised by `stop`."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_over.set()
        self._thread.join()
        if kind is None and self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.__exit__(None, None, None)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error

    def work(self) -> None:
        raise NotImplementedError


class Writer(Worker):
    """Sends numbers, one key after the other. `acknowledged` has where they came to lie."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[Exception] = []
        self._servers, self._topic = servers, topic

    def work(self) -> None:
        numbers = itertools.count()
        with Producer(
            bootstrap_servers=self._servers, acks="all", buffer_max_records=BUFFERED_MAX
        ) as producer:
            while not self.is_over.wait(PAUSE_SECONDS):
                for number in itertools.islice(numbers, SENT_AT_ONCE):
                    delivery = producer.send(self._topic, b"%d" % number, key=b"%d" % (number % KEYS))
                    delivery.add_callback(
                        lambda where, n=number: self._note(n, where.partition, where.offset)
                    )
                    delivery.add_errback(self.failures.append)

    def _note(self, number: int, partition: int, offset: int) -> None:
        self.acknowledged[number] = partition, offset

    def goes_on(self) -> None:
        """Return when something is acknowledged that was not even in the buffer."""
        count = len(self.acknowledged) + 2 * BUFFERED_MAX
        assert eventually(lambda: self.error or len(self.acknowledged) > count), self.failures
        assert self.error is None, self.error

    def stop(self) -> None:
        super().stop()
        assert not self.failures

    def check_log(self, found: dict[tuple[int, int], ConsumerRecord]) -> None:
        """By partition and offset: exactly what was acknowledged, each once, each key in the order it was sent."""
        values = {place: int(record.value) for place, record in found.items()}
        known = {place: number for number, place in self.acknowledged.items()}
        twice = [number for number, count in Counter(values.values()).items() if count > 1]
        assert not twice, f"written twice: {[(each, self.acknowledged.get(each)) for each in twice[:9]]}"
        strange, missing = values.items() - known.items(), known.items() - values.items()
        assert not strange and not missing, f"read {sorted(strange)[:9]}, not read {sorted(missing)[:9]}"
        for key in range(KEYS):
            own = [number for place, number in sorted(values.items()) if number % KEYS == key]
            assert own == sorted(own), "a key has one partition, and keeps its order there"


class Stay:
    """One reader has one partition, from here to there."""

    __slots__ = ("committed", "next")

    def __init__(self, committed: int) -> None:
        self.committed = committed
        self.next = -1


class Readers:
    """What all members of a group have read, or one reader without a group. Any thread may note."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], ConsumerRecord] = {}
        self.repeated: list[tuple[int, int]] = []
        self.faults: list[str] = []
        self.errors: list[KafkaError] = []
        """What applications were told."""
        self.stay_count = 0
        self._committed: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self._lock = threading.Lock()

    def stay(self, partition: int) -> Stay:
        with self._lock:
            self.stay_count += 1
            return Stay(self._committed.get(partition, 0))

    def read(self, record: ConsumerRecord, stay: Stay) -> None:
        place = record.partition, record.offset
        with self._lock:
            reached = self._reached.get(record.partition, 0)
            if stay.next < 0:
                if not stay.committed <= record.offset <= reached:
                    self.faults.append(f"{place} after a commit of {stay.committed}, read to {reached}")
            elif record.offset != stay.next:
                self.faults.append(f"{place} instead of {stay.next}")
            stay.next = record.offset + 1
            if place in self.records:
                self.repeated.append(place)
            self.records[place] = record
            self._reached[record.partition] = max(reached, record.offset + 1)

    def committed(self, partition: int, offset: int) -> None:
        with self._lock:
            self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def have_read(self, writer: Writer, places: Collection[tuple[int, int]]) -> bool:
        return bool(self.faults or writer.error) or self.records.keys() >= set(places)

    def goes_on(self, writer: Writer) -> None:
        """Return when everything was read that is acknowledged by now."""
        places = list(writer.acknowledged.copy().values())
        assert eventually(lambda: self.have_read(writer, places)), self.lacks(places)
        assert not self.faults

    def lacks(self, places: Collection[tuple[int, int]]) -> str:
        missing = sorted(set(places) - self.records.keys())
        return f"{len(missing)} were not read, {missing[:5]}; they were told {self.errors[-3:]}"


class Member(Worker, RebalanceListener):
    """A blocking consumer: it works on what a poll brings, and commits it. `config` may assign partitions instead of a
    group; then nothing is committed."""

    def __init__(self, readers: Readers, topic: str, assigned: int = 0, **config: object) -> None:
        super().__init__()
        self._readers, self._topic, self._assigned, self._config = readers, topic, assigned, config
        self._stays: dict[int, Stay] = {}

    @property
    def partition_count(self) -> int:
        return len(self._stays)

    def work(self) -> None:
        with Consumer(**self._config) as consumer:
            if self._assigned:
                places = [TopicPartition(self._topic, number) for number in range(self._assigned)]
                consumer.assign(places)
                consumer.seek_to_beginning()
                self.on_partitions_assigned(places)
            else:
                consumer.subscribe(self._topic, listener=self)
            while not self.is_over.is_set():
                try:
                    self._poll(consumer)
                except KafkaError as error:
                    self._readers.errors.append(error)

    def _poll(self, consumer: Consumer) -> None:
        found = consumer.poll(POLL_MS, max_records=100)
        for partition, records in found.items():
            for record in records:
                self._readers.read(record, self._stays[partition.partition])
        if found and not self._assigned:
            consumer.commit()
            for partition, records in found.items():
                self._readers.committed(partition.partition, records[-1].offset + 1)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._stays |= {each.partition: self._readers.stay(each.partition) for each in assigned}

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        for each in revoked:
            del self._stays[each.partition]


class Group(Readers):
    """Members that come and go."""

    def __init__(self, servers: str, topic: str, partitions: int, group_id: str, **config: object) -> None:
        super().__init__()
        self.group_id = group_id
        self._topic, self._partitions = topic, partitions
        self._config = {
            "bootstrap_servers": servers,
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            **config,
        }
        self._members: list[Member] = []

    def join(self) -> None:
        member = Member(self, self._topic, **self._config)
        self._members.append(member)
        member.__enter__()
        assert eventually(lambda: self._is_shared or member.error), self.errors

    @property
    def _is_shared(self) -> bool:
        """Whether everybody has a fair share of the partitions."""
        counts = [member.partition_count for member in self._members]
        return sum(counts) == self._partitions and max(counts) - min(counts) <= 1

    def leave(self) -> None:
        """The eldest goes."""
        self._members.pop(0).stop()

    @contextmanager
    def joined(self, count: int) -> Iterator["Group"]:
        with ExitStack() as stack:
            stack.callback(self._let_go)
            for _ in range(count):
                self.join()
            yield self
            while self._members:
                self.leave()

    def _let_go(self) -> None:
        for member in self._members:
            member.is_over.set()
        for member in self._members:
            member.__exit__(RuntimeError, None, None)


@contextmanager
def reading(servers: str, topic: str, partitions: int, **config: object) -> Iterator[Readers]:
    """One reader of all partitions, without a group."""
    readers = Readers()
    with Member(readers, topic, partitions, bootstrap_servers=servers, **config):
        yield readers
