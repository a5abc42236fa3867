"""Queues of batches against a broker's own judgement: hypothesis loses, delays, refuses and forgets."""

import asyncio
import itertools
import threading
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.client.cluster import Cluster
from ottla.client.errors import ClosedError, NetworkError
from ottla.client.producer.accumulator import Accumulator, PartitionQueue
from ottla.client.producer.batch import NOBODY, Batch, Identity, Landed, size_of
from ottla.client.producer.config import ProducerConfig, producer_config
from ottla.client.producer.identity import Idempotent
from ottla.client.producer.sender import Sender
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.storage.producers import Producers, Stamp

PLACE = TopicPartition("t", 0)
IN_FLIGHT = 5
FIRST_SEQUENCES = [0, 2**31 - 4]
"""Where numbers begin; the second wraps round at once."""


class Request(NamedTuple):
    """A batch as it is on the wire: what becomes of the batch later does not change it."""

    batch: Batch
    identity: Identity
    sequence: int
    values: list[int]


class Broker:
    """One partition's log, with the judgement of the real one."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self._producers = Producers()

    def write(self, request: Request) -> Landed | KafkaError:
        count = len(request.values)
        last = (request.sequence + count - 1) % 2**31
        start = len(self.log)
        stamp = Stamp(*request.identity, request.sequence, last, start, start + count - 1, 0, False)
        try:
            repeated = self._producers.check(stamp)
        except KafkaError as error:
            return error
        if repeated is not None:
            return Landed(repeated.first_offset)
        self._producers.apply(stamp)
        self.log += request.values
        return Landed(start)

    def has_epoch(self, identity: Identity) -> bool:
        known = self._producers.get(identity.producer_id)
        return known is not None and known.epoch == identity.epoch


class QueueMachine(RuleBasedStateMachine):
    """A sender and its queue. The connection, the broker and the answers are played by hypothesis."""

    @initialize(first=st.sampled_from(FIRST_SEQUENCES))
    def begin(self, first: int) -> None:
        config = producer_config({"batch.max.records": 3})
        look = asyncio.Event()
        self.accumulator = Accumulator(config, lambda: None)
        self.gate = Idempotent(Cluster(config), look)
        self.gate.identity = Identity(7, 0)
        self.sender = Sender(self.gate._cluster, config, self.accumulator, self.gate, look)
        self.queue = self.accumulator.queue(PLACE)
        self.queue.identity, self.queue._next_sequence = self.gate.identity, first
        self.broker = Broker()
        self.sent: list[tuple[int, Batch, int]] = []
        self.asked: list[Request] = []
        self.answers: list[tuple[Request, Landed | KafkaError]] = []
        self.late: list[Request] = []
        """Still on a connection that we have given up."""
        self.stuck: list[Request] = []
        """Written, by a leader that answers nobody. Another leads now."""

    # --- what happens -----------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 7))
    def add(self, count: int) -> None:
        for _ in range(count):
            row = (0, None, b"%d" % len(self.sent), ())
            delivery = self.accumulator.append(self.queue, row, size_of(row))
            assert delivery is not None
            self.sent.append((len(self.sent), delivery._batch, delivery._index))

    @rule()
    def send(self) -> None:
        if len(self.queue.in_flight) >= IN_FLIGHT:
            return
        queue, gate = self.queue, self.gate
        if queue.is_doubtful and queue.is_settled and queue.identity == gate.identity:
            gate.wants_renewal()
        with self.accumulator.lock:
            batch = queue.take(float("inf"), lambda _: True, gate.identity)
        if batch is not None:
            batch.attempts += 1
            values = [int(row[2]) for row in batch.rows]
            self.asked.append(Request(batch, batch.identity, batch.sequence, values))

    @precondition(lambda self: self.asked)
    @rule()
    def broker_writes(self) -> None:
        request = self.asked.pop(0)
        self.answers.append((request, self.broker.write(request)))

    @precondition(lambda self: self.asked)
    @rule(
        code=st.sampled_from(
            [
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.MESSAGE_TOO_LARGE,
                ErrorCode.INVALID_RECORD,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            ]
        )
    )
    def broker_refuses(self, code: ErrorCode) -> None:
        request = self.asked.pop(0)
        if code == ErrorCode.MESSAGE_TOO_LARGE and request.values[0] in self.broker.log:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # what was not too large once is not later
        self.answers.append((request, KafkaError.of(code)))

    @precondition(lambda self: self.answers)
    @rule()
    def answer_comes(self) -> None:
        request, answer = self.answers.pop(0)
        self.sender._answered(request.batch, answer)

    @rule(are_late=st.booleans())
    def connection_is_lost(self, are_late: bool) -> None:
        """Answers are gone; requests that the broker has not read are gone as well, or come later."""
        let_down = [*(request for request, _ in self.answers), *self.asked]
        if are_late:
            self.late += self.asked
        self.asked, self.answers = [], []
        for request in let_down:
            self.sender._answered(request.batch, NetworkError("lost"))

    @precondition(lambda self: self.asked)
    @rule()
    def leader_falls_silent(self) -> None:
        self.stuck.append(self.asked.pop(0))
        self.broker.write(self.stuck[-1])

    @precondition(lambda self: self.stuck)
    @rule()
    def silence_is_noticed(self) -> None:
        self.sender._answered(self.stuck.pop(0).batch, NetworkError("lost"))

    @precondition(lambda self: self.late)
    @rule()
    def late_request_comes(self) -> None:
        """Between the refusal of a batch and its repetition under another epoch nothing can be done about it, as in
        Kafka: the log does not know the newer epoch yet."""
        if not self.queue.is_doubtful and self.broker.has_epoch(self.gate.identity):
            self.broker.write(self.late.pop(0))

    @rule()
    def oldest_is_given_up(self) -> None:
        batches = [*self.queue.in_flight, *self.queue.waiting]
        if batches:
            first = min(batches, key=lambda each: each.order)
            for each in batches:
                each.expires = first.created if each is first else float("inf")
            self.sender._expire(self.queue, first.created)

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_doubled_and_nothing_overtakes(self) -> None:
        if hasattr(self, "broker"):
            assert self.broker.log == sorted(set(self.broker.log))

    @invariant()
    def room_is_accounted_for(self) -> None:
        if hasattr(self, "accumulator"):
            batches = self.accumulator.unfinished()
            assert self.accumulator.used_bytes == sum(each.size for each in batches)
            assert self.accumulator.used_records == sum(len(each.rows) for each in batches)

    @invariant()
    def numbers_of_what_is_unresolved_follow_each_other(self) -> None:
        if hasattr(self, "queue"):
            unresolved = [*self.queue.in_flight, *(each for each in self.queue.waiting if each.has_sequence)]
            unresolved.sort(key=lambda each: each.order)
            for one, next_one in itertools.pairwise(unresolved):
                is_gap = (next_one.sequence - one.next_sequence) % 2**31 > 2**30
                assert next_one.identity == one.identity
                assert not is_gap

    def teardown(self) -> None:
        """Without any more trouble everything ends, and all that did not fail is there."""
        if not hasattr(self, "broker"):
            return
        while self.stuck:
            self.silence_is_noticed()
        for _ in range(10_000):
            if not (self.queue.waiting or self.queue.in_flight):
                break
            self.send()
            if self.asked:
                self.broker_writes()
            if self.answers:
                self.answer_comes()
        self.nothing_is_doubled_and_nothing_overtakes()
        log = self.broker.log
        for value, batch, index in self.sent:
            assert batch.outcome is not None
            try:
                offset = batch.metadata(index).offset
            except KafkaError:
                continue
            assert log[offset] == value
        assert self.accumulator.used_bytes == self.accumulator.used_records == 0


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


# --- by hand --------------------------------------------------------------------------------------------------------


def row(value: bytes = b"v") -> tuple[int, None, bytes, tuple[()]]:
    return 0, None, value, ()


def accumulator_of(**given: object) -> Accumulator:
    config = producer_config(given)
    assert isinstance(config, ProducerConfig)
    return Accumulator(config, lambda: None)


def test_to_a_log_that_knows_nothing_of_us_one_batch_goes_alone():
    """It would take any number for a beginning: if the first one failed, the second would be written before it."""
    accumulator = accumulator_of(batch_max_records=1)
    queue = accumulator.queue(PLACE)
    for _ in range(3):
        accumulator.append(queue, row(), 30)
    me = Identity(1, 0)
    first = queue.take(0.0, lambda _: True, me)
    assert first is not None
    assert queue.take(0.0, lambda _: True, me) is None
    queue.in_flight.remove(first)
    queue.written(first)
    second, third = (queue.take(0.0, lambda _: True, me) for _ in range(2))
    assert [each.sequence for each in (first, second, third)] == [0, 1, 2]


def test_no_more_leave_past_a_batch_without_an_answer_than_a_broker_remembers():
    """A leader died and had written it: the next one takes what follows, and must know it when it is sent again."""
    accumulator = accumulator_of(batch_max_records=1)
    queue, me = accumulator.queue(PLACE), Identity(1, 0)
    for _ in range(8):
        accumulator.append(queue, row(), 30)

    def send() -> Batch | None:
        return queue.take(0.0, lambda _: True, me)

    def answered(batch: Batch) -> None:
        queue.in_flight.remove(batch)
        queue.written(batch)

    answered(send())
    silent = send()
    for _ in range(4):
        answered(send())
    assert send() is None
    answered(silent)
    assert send().sequence == 6


def test_without_numbers_nothing_waits_for_anything():
    accumulator = accumulator_of(batch_max_records=1)
    queue = accumulator.queue(PLACE)
    for _ in range(3):
        accumulator.append(queue, row(), 30)
    taken = [queue.take(0.0, lambda _: True, NOBODY) for _ in range(4)]
    assert [each is not None and not each.has_sequence for each in taken] == [True, True, True, False]


def test_a_batch_that_is_full_calls_the_sender_also_if_nothing_follows():
    wakes = []
    accumulator = Accumulator(producer_config({"batch_max_records": 2}), lambda: wakes.append(1))
    queue = accumulator.queue(PLACE)
    accumulator.append(queue, row(), 30)
    accumulator.slept()
    accumulator.append(queue, row(), 30)
    assert len(wakes) == 2
    assert accumulator.is_full_batch(queue.waiting[0])


def test_the_sender_is_called_once_for_a_batch():
    wakes = []
    accumulator = Accumulator(producer_config({}), lambda: wakes.append(1))
    for number in range(100):
        accumulator.append(accumulator.queue(TopicPartition("t", number % 7)), row(), 30)
    assert len(wakes) == 1


@pytest.mark.parametrize("limit", [{"buffer_memory": 100}, {"buffer_max_records": 3}])
def test_there_is_no_room_beyond_the_limit_until_something_is_done(limit):
    accumulator = accumulator_of(**limit)
    queue = accumulator.queue(PLACE)
    found = [accumulator.append(queue, row(), 30) for _ in range(4)]
    assert [each is not None for each in found] == [True, True, True, False]
    assert not accumulator.wait_for_room(30, 0.0)
    batch = queue.take(0.0, lambda _: True, NOBODY)
    assert batch is not None
    waiting = threading.Thread(target=lambda: accumulator.wait_for_room(30, 60.0))
    waiting.start()
    accumulator.release([batch])
    waiting.join(10)
    assert not waiting.is_alive()
    assert accumulator.used_bytes == accumulator.used_records == 0


def test_room_on_a_loop_is_waited_for_with_a_limit():
    async def run() -> None:
        accumulator = accumulator_of(buffer_memory=100)
        queue = accumulator.queue(PLACE)
        accumulator.append(queue, row(), 90)
        assert not await accumulator.room(30, 0.001)
        waiting = asyncio.ensure_future(accumulator.room(30, 60.0))
        await asyncio.sleep(0)
        accumulator.release([queue.waiting.pop()])
        assert await waiting
        assert not accumulator._room_waiters

    asyncio.run(run())


def test_a_closed_one_takes_nothing():
    accumulator = accumulator_of()
    accumulator.close()
    assert accumulator.append(accumulator.queue(PLACE), row(), 30) is None
    assert accumulator.wait_for_room(1, None), "nobody waits for ever for room that will never be"


def test_threads_that_add_at_once_lose_nothing():
    accumulator = accumulator_of(batch_max_records=10)
    queue = accumulator.queue(PLACE)

    def work(number: int) -> None:
        for index in range(500):
            accumulator.append(queue, row(b"%d %d" % (number, index)), 30)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    taken: list[Batch] = []
    while any(each.is_alive() for each in threads) or queue.waiting:
        with accumulator.lock:
            batch = queue.take(0.0, lambda each: each.is_closed or len(threads) == 0, NOBODY)
        if batch is not None:
            taken.append(batch)
        elif not any(each.is_alive() for each in threads):
            break
    with accumulator.lock:
        taken += queue.waiting
    found = [value for batch in taken for _, _, value, _ in batch.rows]
    assert len(found) == 2000
    for number in range(4):
        mine = [value for value in found if value.startswith(b"%d " % number)]
        assert mine == [b"%d %d" % (number, index) for index in range(500)]
    assert accumulator.used_records == 2000


def test_queues_are_made_once():
    accumulator = accumulator_of()
    queue = accumulator.queue(PLACE)
    assert accumulator.queue(PLACE) is queue
    assert isinstance(queue, PartitionQueue)
    assert accumulator.waiting_bytes("t", 0) == accumulator.waiting_bytes("u", 0) == 0


def test_the_end_of_a_sender_fails_what_is_left():
    async def run() -> None:
        config = producer_config({})
        accumulator = Accumulator(config, lambda: None)
        cluster, look = Cluster(config), asyncio.Event()
        sender = Sender(cluster, config, accumulator, Idempotent(cluster, look), look)
        delivery = accumulator.append(accumulator.queue(PLACE), row(), 30)
        assert delivery is not None
        await sender.stop()
        assert isinstance(delivery.exception(), ClosedError)

    asyncio.run(run())
