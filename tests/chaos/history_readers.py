"""Clients of librdkafka that write down what they read: with `assign`, within transactions, as members of groups."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.testing.history import History, Key, Poll
from tests.chaos.history_load import (
    CALL_SECONDS,
    DONE_SECONDS_MAX,
    KEYS,
    NO_SETTINGS,
    Progress,
    Settings,
    place,
)
from tests.chaos.pipeline_worker import QUICKLY

POLL_MAX = 200
POLL_SECONDS = 0.05
CONSUMER: dict[str, Any] = {
    **QUICKLY,
    "group.id": "nobody",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",  # who lost its place must not begin anew in silence
    "fetch.wait.max.ms": 50,
}
MEMBER = CONSUMER | {"auto.offset.reset": "earliest"}
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
_AT_THE_END = KafkaError._PARTITION_EOF
_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
)
_OUT_OF_PLACE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def key_of(message: Message | TopicPartition) -> Key:
    topic, partition = (
        (message.topic, message.partition)
        if isinstance(message, TopicPartition)
        else (message.topic(), message.partition())
    )
    return f"{topic}-{partition}"


def poll_of(messages: Iterable[Message]) -> Poll:
    """What was read, by key. Most errors pass: the broker is away."""
    records: dict[Key, list[tuple[int, str]]] = {}
    for message in messages:
        error = message.error()
        if error is None:
            records.setdefault(key_of(message), []).append((message.offset(), message.value().decode()))
        assert error is None or error.code() not in _OUT_OF_PLACE, str(error)
    return Poll(records)


class Reader:
    """Reads all keys from their beginning, with `assign`."""

    def __init__(
        self,
        server: str,
        history: History,
        isolation_level: str,
        *,
        keys: Sequence[Key] = KEYS,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        own = {"bootstrap.servers": server, "isolation.level": isolation_level, "enable.partition.eof": True}
        self._consumer = Consumer({**CONSUMER, **own, **settings})
        self._keys = keys
        self._consumer.assign([place(key) for key in keys])
        self._client = history.client()
        self._client.assign(keys).ok()
        self.ends: dict[Key, int] = {}
        """Behind the last record that was read."""

    def run(self, progress: Progress) -> None:
        while not progress.is_over:
            self._poll()
        self._consumer.close()

    def read_to_the_end(self) -> None:
        """Of every key; then there is no more."""
        ended: set[Key] = set()
        while ended != set(self._keys):
            for message in self._poll():
                error = message.error()
                if error is not None and error.code() == _AT_THE_END:
                    ended.add(key_of(message))
        self._consumer.close()

    def _poll(self) -> list[Message]:
        operation = self._client.poll()
        messages = self._consumer.consume(POLL_MAX, timeout=POLL_SECONDS)
        poll = poll_of(messages)
        self.ends |= {key: records[-1][0] + 1 for key, records in poll.records.items()}
        operation.ok([poll])
        return messages


class Reading:
    """What a transactional producer reads within its transactions. What it read in one that was not committed it reads
    again: that one has not happened."""

    def __init__(self, server: str, *, keys: Sequence[Key] = KEYS, settings: Settings = NO_SETTINGS) -> None:
        own = {"bootstrap.servers": server, "isolation.level": "read_committed"}
        self._consumer = Consumer({**CONSUMER, **own, **settings})
        self._positions = dict.fromkeys(keys, 0)
        self._last: Poll = Poll({})
        self.go_back()

    def read(self) -> Poll:
        """Whoever reads again says by this that the last transaction was committed."""
        self._positions |= {key: records[-1][0] + 1 for key, records in self._last.records.items()}
        self._last = poll_of(self._consumer.consume(POLL_MAX, timeout=POLL_SECONDS))
        return self._last

    def go_back(self) -> None:
        self._last = Poll({})
        self._consumer.assign([place(key, offset) for key, offset in self._positions.items()])

    def close(self) -> None:
        self._consumer.close()


class Group:
    """What all members of one group know together: the commits that were acknowledged."""

    def __init__(
        self,
        server: str,
        name: str,
        protocol: str,
        *,
        keys: Sequence[Key] = KEYS,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        own = {"bootstrap.servers": server, "group.id": name, "group.protocol": protocol}
        self.settings = {**MEMBER, **own, "isolation.level": "read_committed", **settings}
        if protocol == "classic":
            self.settings |= CLASSIC
        self.keys = keys
        self.committed = dict.fromkeys(keys, 0)
        self.forgotten: list[str] = []
        """Commits that were acknowledged, and that the next member did not find."""
        self.processes: set[int] = set()
        self.is_over = False
        self.is_waiting = False
        """Members commit nothing new: it would hide what was forgotten."""
        self._lock = threading.Lock()
        self._observer = Consumer({**MEMBER, **own, "group.protocol": "classic", **settings})

    def note_commit(self, offsets: Iterable[TopicPartition]) -> None:
        with self._lock:
            for each in offsets:
                key = key_of(each)
                self.committed[key] = max(self.committed[key], each.offset)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What was committed before is committed after."""
        self.is_waiting = True
        before = self.committed.copy()
        yield
        for each in self._look_up():
            self.judge(key_of(each), before[key_of(each)], each.offset)
        self.is_waiting = False

    def _look_up(self) -> list[TopicPartition]:
        """Again while the coordinator is on the move: this call of librdkafka does not look for it by itself."""
        deadline = time.monotonic() + DONE_SECONDS_MAX
        while True:
            try:
                return self._observer.committed([place(key) for key in self.keys], timeout=CALL_SECONDS)
            except KafkaException as failure:
                if failure.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise

    def judge(self, key: Key, committed: int, found: int) -> None:
        if committed and found < committed:  # where nothing was committed a negative offset is found
            self.forgotten.append(f"{key}: {committed} was committed, {found} was found")

    def has_reached(self, ends: dict[Key, int]) -> bool:
        return all(self.committed[key] >= end for key, end in ends.items())


class Member:
    """A member of a group, which commits what it has read, and now and then makes room for another one."""

    def __init__(self, group: Group, history: History) -> None:
        self._group = group
        self._history = history
        self.is_to_leave = threading.Event()
        self._moved: set[Key] = set()
        self._floors: dict[Key, int] = {}
        """Commits that were acknowledged before these keys came to this member."""
        self._read: dict[Key, int] = {}
        """Behind what was read, and is to be committed."""

    def run(self, progress: Progress) -> None:
        while not self._group.is_over:
            self.is_to_leave.clear()
            self._live(progress)
            progress.add("memberships")

    def _live(self, progress: Progress) -> None:
        consumer, client = Consumer(self._group.settings), self._history.client()
        self._read.clear()
        self._group.processes.add(client.process)
        topics = sorted({place(key).topic for key in self._group.keys})
        consumer.subscribe(topics, on_assign=self._take, on_revoke=self._give, on_lost=self._give)
        client.subscribe(self._group.keys).ok()
        while not (self._group.is_over or self.is_to_leave.is_set()):
            operation = client.poll()
            poll = poll_of(consumer.consume(POLL_MAX, timeout=POLL_SECONDS))
            operation.ok([poll], rebalanced=self._moved)
            self._moved.clear()
            self._look_for_forgotten(poll)
            self._read |= {key: records[-1][0] + 1 for key, records in poll.records.items()}
            if self._read and not self._group.is_waiting:
                self._commit(consumer, progress)
        consumer.close()

    def _take(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for key in map(key_of, partitions):
            self._moved.add(key)
            self._floors[key] = self._group.committed[key]

    def _give(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for key in map(key_of, partitions):
            self._moved.add(key)
            self._floors.pop(key, None)
            self._read.pop(key, None)

    def _look_for_forgotten(self, poll: Poll) -> None:
        for key, records in poll.records.items():
            floor = self._floors.pop(key, 0)
            self._group.judge(key, floor, records[0][0])

    def _commit(self, consumer: Consumer, progress: Progress) -> None:
        """Tried again with the next poll, if it must be: the group has moved on, or the broker is away."""
        try:
            answers = consumer.commit(
                offsets=[place(key, end) for key, end in self._read.items()], asynchronous=False
            )
        except KafkaException:
            return
        done = [each for each in answers or () if each.error is None]
        self._group.note_commit(done)
        self._read.clear()
        progress.add("commits", len(done))
