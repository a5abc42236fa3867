"""Load for a compacted topic: keys whose values are replaced again and again, some by nothing, some in transactions.

Two clients of librdkafka, each in a thread of its own with keys of its own: an idempotent producer, and a transactional
one that commits or aborts. What they know for certain is in `KeyedLoad.records`; with `pause` all of it is settled.
"""

import itertools
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.chaos.history_load import CALL_SECONDS, IDEMPOTENT, TRANSACTIONAL

TOPIC, PARTITIONS = "accounts", 3
KEYS = 45  # of each client: 15 in a partition
UNACKNOWLEDGED_MAX = 60
PAUSE_SECONDS = 0.0005  # between two records: whoever compacts them slowly must not fall behind for ever
TRANSACTION_MAX = 6
SECONDS_MAX = 60.0

Fate = Literal["written", "aborted", "unknown"]


class Written(NamedTuple):
    """A record whose place is known. One whose transaction nobody knows the end of may count or not."""

    key: bytes
    value: bytes | None
    fate: Fate


class KeyedLoad:
    """Writes until it is told to finish. `records` is by partition and offset."""

    def __init__(self, server: str, seed: int) -> None:
        self._server = server
        self.records: list[dict[int, Written]] = [{} for _ in range(PARTITIONS)]
        self.unplaced: defaultdict[bytes, set[bytes | None]] = defaultdict(set)
        """Values, by key, of which a broker said that it had them before, and not where."""
        self.counts: Counter[str] = Counter()
        self._source = random.Random(seed)
        self._numbers = [0] * (2 * KEYS)
        self._is_over = False
        self._may_go = threading.Event()
        self._may_go.set()
        self._resting = [threading.Event(), threading.Event()]
        self._failure: BaseException | None = None
        work = (self._write, self._transact)
        self._threads = [
            threading.Thread(target=self._guarded, args=(each,), daemon=True, name=each.__name__)
            for each in work
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int) -> None:
        """Return when `count` more records have been acknowledged."""
        until = self.counts["acknowledged"] + count
        self._wait(lambda: self.counts["acknowledged"] >= until, "no progress")

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Nothing is on its way, and no transaction is open."""
        self._may_go.clear()
        self._wait(lambda: all(resting.is_set() for resting in self._resting), "it does not come to rest")
        try:
            yield
        finally:
            for resting in self._resting:
                resting.clear()
            self._may_go.set()

    def __enter__(self) -> "KeyedLoad":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After a failure nobody waits: the broker may be gone, and what failed is to be told."""
        self._is_over = True
        self._may_go.set()
        if kind is None:
            self._wait(lambda: not any(thread.is_alive() for thread in self._threads), "it does not end")

    def _wait(self, is_reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not is_reached() or self._failure is not None:
            if self._failure is not None:
                raise self._failure
            assert time.monotonic() < deadline, f"{what}: {self.counts}"
            time.sleep(0.001)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as failure:
            self._failure = failure

    def _rest(self, number: int) -> None:
        self._resting[number].set()
        self._may_go.wait()

    def _next(self, index: int) -> tuple[int, bytes, bytes | None]:
        """Partition, key, and the next value: larger than the one before, and every now and then none."""
        number = self._numbers[index] = self._numbers[index] + 1
        value = f"{number:08d}".encode() + b"." * (index % 7 * 40)
        return index % PARTITIONS, f"key-{index}".encode(), None if (number + index) % 9 == 0 else value

    # --- the clients --------------------------------------------------------------------------------------------

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._server, **IDEMPOTENT})
        for index in itertools.cycle(range(KEYS)):
            if self._is_over or not self._may_go.is_set():
                assert producer.flush(SECONDS_MAX) == 0
                if self._is_over:
                    return
                self._rest(0)
            partition, key, value = self._next(index)
            producer.produce(TOPIC, value, key, partition, on_delivery=self._on_delivery)
            producer.poll(PAUSE_SECONDS)
            while len(producer) >= UNACKNOWLEDGED_MAX and not self._is_over:
                producer.poll(0.005)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, str(error)
        self._note(message, "written")
        self.counts["acknowledged"] += 1

    def _transact(self) -> None:
        producer = self._transactional()
        while not self._is_over:
            if not self._may_go.is_set():
                self._rest(1)
                continue
            messages: list[Message] = []
            try:
                fate = self._one_transaction(producer, messages)
            except KafkaException as failure:
                fate = self._after(producer, failure.args[0])
                if fate == "unknown":
                    producer = self._transactional()
            for message in messages:
                self._note(message, fate)
            self.counts[f"transactions {fate}"] += 1

    def _one_transaction(self, producer: Producer, messages: list[Message]) -> Fate:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                messages.append(message)

        producer.begin_transaction()
        for index in self._source.sample(range(KEYS), self._source.randint(1, TRANSACTION_MAX)):
            partition, key, value = self._next(KEYS + index)
            producer.produce(TOPIC, value, key, partition, on_delivery=note)
        if self._source.random() < 0.3:
            producer.flush(SECONDS_MAX)  # or most of what is aborted would never be sent
            _persist(producer.abort_transaction)
            return "aborted"
        _persist(producer.commit_transaction)
        return "written"

    def _after(self, producer: Producer, error: KafkaError) -> Fate:
        if not error.txn_requires_abort():
            return "unknown"
        _persist(producer.abort_transaction)
        return "aborted"

    def _transactional(self) -> Producer:
        settings = {"bootstrap.servers": self._server, "transactional.id": "keyed", **TRANSACTIONAL}
        producer = Producer(settings)
        _persist(producer.init_transactions)
        return producer

    def _note(self, message: Message, fate: Fate) -> None:
        partition, offset, key = message.partition(), message.offset(), message.key()
        assert partition is not None and offset is not None and isinstance(key, bytes)
        if offset < 0:
            self.unplaced[key].add(message.value())
        else:
            self.records[partition][offset] = Written(key, message.value(), fate)


def _persist(call: Callable[[float], None]) -> None:
    """Again while the client says that it may go on with the call."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return call(CALL_SECONDS)
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
