"""Clients of librdkafka that write down what they send, each in a thread of its own.

There are two histories, because there are two truths. In `everything` (for read_uncommitted) each record is a send of
its own, whatever becomes of its transaction. In `committed` (for read_committed) a transaction is one operation: an
abort that was acknowledged is `fail`, and so is a transaction that nobody had tried to commit when its producer was
fenced; a commit without an answer is `info`.

Each client draws from a source of its own: a seed decides what each of them does, if not when.
"""

import itertools
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.testing.history import History, HistoryClient, Key, Pending, Poll, Send, Step
from tests.chaos.pipeline_worker import QUICKLY

TOPICS = {"orders": 3, "payments": 2}
KEYS = [f"{topic}-{number}" for topic, count in TOPICS.items() for number in range(count)]
BATCH_MAX = 8  # values for one key at once
AHEAD_MAX = 3  # plans of a sender for each transaction that has ended
CALL_SECONDS = 30.0
DONE_SECONDS_MAX = 90.0
Settings = Mapping[str, Any]
"""Of a client. What a test says goes before what is said here."""
NO_SETTINGS: Settings = {}
PRODUCER = {
    **QUICKLY,
    "linger.ms": 1,
    "batch.num.messages": 3,
}  # so that several batches are on their way at once
IDEMPOTENT = {**PRODUCER, "enable.idempotence": True, "message.timeout.ms": 300_000}
TRANSACTIONAL = {**PRODUCER, "transaction.timeout.ms": 60_000}
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})

Plan = Mapping[Key, Sequence[str]]
"""Values to be sent, by key."""


def place(key: Key, offset: int = 0) -> TopicPartition:
    topic, _, number = key.rpartition("-")
    return TopicPartition(topic, int(number), offset)


class Progress:
    """What the clients have done so far, and whether they are to go on. The kills are timed by it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.is_over = False
        self._changed = threading.Condition()
        self.clients: list[Future[None]] = []

    def add(self, what: str, count: int = 1) -> None:
        with self._changed:
            self.counts[what] += count
            self._changed.notify_all()

    def wait(self, is_reached: Callable[[], bool]) -> None:
        """Return when it is so. A client that failed fails the test."""
        deadline = time.monotonic() + DONE_SECONDS_MAX
        with self._changed:
            while not is_reached():
                for client in self.clients:
                    if client.done():
                        client.result()
                assert time.monotonic() < deadline, f"no progress: {self.counts}"
                self._changed.wait(0.1)

    def wait_for(self, what: str, count: int) -> None:
        until = self.counts[what] + count
        self.wait(lambda: self.counts[what] >= until)


class Plans:
    """What one client sends: values that nobody else sends, to keys as chance has it."""

    def __init__(self, name: str, source: random.Random, keys: Sequence[Key] = KEYS) -> None:
        self._name, self._source, self._keys = name, source, keys
        self._numbers = itertools.count()

    def draw(self) -> Plan:
        keys = self._source.sample(self._keys, self._source.randint(1, 3))
        return {key: [self._value() for _ in range(self._source.randint(1, BATCH_MAX))] for key in keys}

    def _value(self) -> str:
        return f"{self._name}:{next(self._numbers)}"


class Reports:
    """Delivery reports: where the values of a plan lie. A broker may say that it had one before, and not where."""

    def __init__(self) -> None:
        self.offsets: dict[str, int | None] = {}
        self.errors: list[str] = []

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.name())
            return
        offset = message.offset()
        self.offsets[(message.value() or b"").decode()] = (
            offset if offset is not None and offset >= 0 else None
        )

    def sends(self, key: Key, values: Sequence[str]) -> list[Send]:
        return [Send(key, value, self.offsets.get(value)) for value in values]


def send(producer: Producer, plan: Plan) -> Reports:
    """Hand it to the producer, the keys in turn. The reports come whenever the producer is called."""
    reports = Reports()
    for turn in itertools.zip_longest(*plan.values()):
        for key, value in zip(plan, turn, strict=True):
            if value is not None:
                to = place(key)
                producer.produce(to.topic, value, partition=to.partition, on_delivery=reports.note)
    return reports


class Batches:
    """Sends of one client, as one history has them: a batch for each key, one after the other."""

    def __init__(self, history: History) -> None:
        self._clients: defaultdict[Key, HistoryClient] = defaultdict(history.client)
        self._open: dict[Key, Pending] = {}

    def begin(self, plan: Plan) -> None:
        self._open = {key: self._clients[key].send(key, *values) for key, values in plan.items()}

    def end(self, plan: Plan, reports: Reports) -> None:
        for key, values in plan.items():
            steps = reports.sends(key, values)
            if all(value in reports.offsets for value in values):
                self._open[key].ok(steps)
            else:
                self._open[key].info("not all of it was reported", steps)


class Sender:
    """An idempotent producer without transactions, which writes between those of the others; faster than they, but not
    by much, or a history would have little else in it."""

    def __init__(
        self,
        server: str,
        name: str,
        everything: History,
        committed: History,
        *,
        keys: Sequence[Key] = KEYS,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        self._producer = Producer({"bootstrap.servers": server, **IDEMPOTENT, **settings})
        self._plans = Plans(name, random.Random(name), keys)
        self._batches = Batches(everything), Batches(committed)

    def run(self, progress: Progress) -> None:
        for number in itertools.count():
            progress.wait(
                lambda n=number: n < AHEAD_MAX * (progress.counts["transactions"] + 1) or progress.is_over
            )
            if progress.is_over:
                return
            plan = self._plans.draw()
            for batches in self._batches:
                batches.begin(plan)
            reports = send(self._producer, plan)
            assert self._producer.flush(DONE_SECONDS_MAX) == 0
            for batches in self._batches:
                batches.end(plan, reports)
            assert not reports.errors, reports.errors  # it has minutes to try again
            progress.add("sends", len(reports.offsets))


class Transaction:
    """One transaction as it goes: what it sends, what it read before, and whether its commit was tried."""

    def __init__(self, plan: Plan, read: Poll) -> None:
        self.plan, self.read = plan, read
        self.reports = Reports()
        self.is_commit_tried = False

    def steps(self) -> list[Step]:
        steps: list[Step] = [self.read] if self.read.records else []
        for key, values in self.plan.items():
            steps += self.reports.sends(key, values)
        return steps


class Transactor:
    """A transactional producer. It commits most times, sometimes it aborts, and sometimes another one takes its id
    while its transaction is open, and it commits nevertheless.

    `reading` is what it reads within its transactions, if anything: `read` gives it, `go_back` undoes it."""

    def __init__(
        self,
        server: str,
        name: str,
        everything: History,
        committed: History,
        reading: Any = None,
        *,
        keys: Sequence[Key] = KEYS,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        self._settings = {"bootstrap.servers": server, "transactional.id": name, **TRANSACTIONAL, **settings}
        self._source = random.Random(name)
        self._plans = Plans(name, self._source, keys)
        self._batches = Batches(everything)
        self._client = committed.client()
        self._reading = reading
        self._producer = self._next_producer()

    def run(self, progress: Progress) -> None:
        while not progress.is_over:
            read = self._reading.read() if self._reading else Poll({})
            transaction = Transaction(self._plans.draw(), read)
            self._batches.begin(transaction.plan)
            pending = self._client.txn(transaction.steps())
            outcome, error = self._try(transaction)
            self._batches.end(transaction.plan, transaction.reports)
            if outcome == "ok":
                pending.ok(transaction.steps())
            elif outcome == "fail":
                pending.fail(error, transaction.steps())
            else:
                pending.info(error, transaction.steps())
            if self._reading and outcome != "ok":
                self._reading.go_back()
            progress.add("transactions")
            progress.add(f"transactions: {outcome} {error}".rstrip())

    def _try(self, transaction: Transaction) -> tuple[str, str]:
        """How it ended, and why so."""
        try:
            return self._go_through(transaction)
        except KafkaException as failure:
            error = failure.args[0]
        if error.txn_requires_abort():
            try:
                self._call(self._producer.abort_transaction)
                self._producer.poll(0)
                return "fail", f"aborted after {error.name()}"
            except KafkaException as failure:
                error = failure.args[0]
        self._producer = self._next_producer()  # which ends whatever the last one had begun
        return ("info" if transaction.is_commit_tried else "fail"), error.name()

    def _go_through(self, transaction: Transaction) -> tuple[str, str]:
        end = self._source.choices(["commit", "abort", "lose"], [70, 20, 10])[0]
        is_flushed = self._source.random() < 0.5
        self._producer.begin_transaction()
        transaction.reports = send(self._producer, transaction.plan)
        if is_flushed or end == "lose":
            self._producer.flush(DONE_SECONDS_MAX)
        if end == "lose":
            return self._lose(transaction)
        if end == "abort":
            self._call(self._producer.abort_transaction)
            self._producer.poll(0)
            return "fail", "aborted"
        transaction.is_commit_tried = True
        self._call(self._producer.commit_transaction)
        return "ok", ""

    def _lose(self, transaction: Transaction) -> tuple[str, str]:
        """Another producer takes the id; what the first one says then comes too late."""
        late, self._producer = self._producer, self._next_producer()
        try:
            self._call(late.commit_transaction)
        except KafkaException as failure:
            error = failure.args[0]
            return ("fail" if error.code() in FENCED else "info"), f"late: {error.name()}"
        return "ok", "too late"

    def _next_producer(self) -> Producer:
        producer = Producer(self._settings)
        self._call(producer.init_transactions)
        return producer

    def _call(self, method: Callable[[float], None]) -> None:
        """Again while the client says that it may go on with the call."""
        deadline = time.monotonic() + DONE_SECONDS_MAX
        while True:
            try:
                method(CALL_SECONDS)
                return
            except KafkaException as failure:
                if not failure.args[0].retriable() or time.monotonic() > deadline:
                    raise
