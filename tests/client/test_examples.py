"""The examples, as a user runs them: to their end, and killed at random points of their work and started again."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.client import Consumer, Producer, TopicPartition
from ottla.testing.cluster import Cluster
from tests.client.conftest import create_topic, unused_name
from tests.interop.brokers import eventually

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
KILLS = 3
PORTION = 500
"""Records that come before each start: there is always something to be killed in."""
_SMALL_PIPE = 4096  # bytes: a program that is not read must wait, and cannot be done before it is killed


class Example:
    """One example against one broker; a group, and a name in it, are its own."""

    def __init__(self, name: str, server: str, topic: str, *options: str) -> None:
        group = unused_name("example")
        self.group, self.topic, self.server = group, topic, server
        self._command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--bootstrap-server", server]
        self._command += ["--topic", topic, "--group", group, "--member", f"{group}-1", *options]

    def run(self, count: int) -> list[str]:
        """To its end; the lines that it prints."""
        done = subprocess.run(
            [*self._command, "--count", str(count)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    @contextmanager
    def started(self) -> Iterator["subprocess.Popen[str]"]:
        """Running, and killed at the end of the block."""
        with subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, pipesize=_SMALL_PIPE
        ) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGKILL)

    def killed_within(self, lines_max: int) -> list[str]:
        """Kill it when it has printed some lines, chance says how many; all that it has printed."""
        with self.started() as process:
            lines = [process.stdout.readline() for _ in range(random.randrange(1, lines_max))]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        return [line.strip() for line in lines if line.endswith("\n")]

    def finished(self, is_complete: Callable[[], bool]) -> list[str]:
        """Let it run until everything is done; all that it has printed."""
        with self.started() as process, ThreadPoolExecutor(1) as pool:
            printed = pool.submit(process.stdout.readlines)
            is_done = eventually(is_complete)
            process.send_signal(signal.SIGKILL)
            assert is_done
            return [line.strip() for line in printed.result()]

    def has_committed_all(self) -> bool:
        with Consumer(bootstrap_servers=self.server, group_id=self.group) as consumer:
            ends = consumer.end_offsets([TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)])
            places = consumer.committed_many(ends)
        return all(place is not None and place.offset == ends[key] for key, place in places.items())


def filled(server: str, topic: str, count: int = PORTION, first: int = 0, copies: int = 1) -> list[str]:
    """Put orders into a topic of two partitions; their texts."""
    texts = [f"order-{number}" for number in range(first, first + count)]
    with Producer(bootstrap_servers=server, linger_ms=5) as producer:
        for _ in range(copies):
            for text in texts:
                number = int(text[6:])
                producer.send(
                    topic,
                    text.encode(),
                    key=str(number % 7).encode(),
                    partition=number % 7 % 2,
                    headers=[("message-id", text.encode())],
                )
        producer.flush()
    return texts


def committed_values(server: str, topic: str) -> list[str]:
    """What a reader of committed records sees, to the end."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=server, **settings) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[str] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(timeout_ms=200).values():
                found += [record.value.decode() for record in records]
        return found


# --- killed ---------------------------------------------------------------------------------------------------------


def test_at_most_once_does_nothing_twice_though_it_is_killed(server, new_topic):
    topic = new_topic(2)
    example = Example("at_most_once", server, topic)
    texts, seen = [], []
    for number in range(KILLS):
        texts += filled(server, topic, first=number * PORTION)
        seen += example.killed_within(PORTION // 2)
    seen += example.finished(example.has_committed_all)
    assert seen and set(seen) <= set(texts)
    assert max(Counter(seen).values()) == 1


def test_at_least_once_loses_nothing_though_it_is_killed(server, new_topic):
    topic = new_topic(2)
    example = Example("at_least_once", server, topic)
    texts, seen = [], []
    for number in range(KILLS):
        texts += filled(server, topic, first=number * PORTION)
        seen += example.killed_within(PORTION // 2)
    seen += example.finished(example.has_committed_all)
    assert set(seen) == set(texts)


def test_exactly_once_does_neither_though_it_is_killed(server, new_topic):
    topic, output = new_topic(2), new_topic()
    example = Example("exactly_once", server, topic, "--output", output)
    texts = []
    for number in range(KILLS):
        texts += filled(server, topic, first=number * PORTION)
        example.killed_within(4)
    example.finished(example.has_committed_all)
    assert sorted(committed_values(server, output)) == sorted(text.upper() for text in texts)


@pytest.mark.parametrize("name", ["exactly_once_database", "deduplicate"])
def test_a_database_has_everything_once_though_its_writer_is_killed(server, new_topic, tmp_path, name):
    topic, path = new_topic(2), tmp_path / "orders.db"
    example = Example(name, server, topic, "--database", str(path))
    texts = []
    for number in range(KILLS):
        texts += filled(server, topic, first=number * PORTION, copies=2 if name == "deduplicate" else 1)
        example.killed_within(4)

    def rows() -> list[str]:
        connection = sqlite3.connect(path, timeout=30)
        try:
            return [text for (text,) in connection.execute("SELECT text FROM orders")]
        finally:
            connection.close()

    # Only one of them tells Kafka how far it is.
    is_complete = example.has_committed_all if name == "deduplicate" else lambda: len(rows()) >= len(texts)
    example.finished(is_complete)
    assert sorted(rows()) == sorted(texts)


# --- to their end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["at_most_once", "at_least_once", "retry_in_place"])
def test_those_that_print_end_by_themselves(server, new_topic, name):
    topic = new_topic(2)
    texts = filled(server, topic, 50)
    seen = Example(name, server, topic).run(50)
    # One in 3000 records fails five times in a row, and is dropped then.
    assert set(seen) == set(texts) or (name == "retry_in_place" and len(seen) >= 48)
    assert len(seen) == len(set(seen))


def test_the_dead_letters_say_where_they_come_from_and_why(server, new_topic):
    topic = new_topic()
    for ending in ("retry.1", "retry.2", "dlq"):
        asyncio.run(create_topic(server, f"{topic}.{ending}"))
    with Producer(bootstrap_servers=server) as producer:
        for value in (b"1", b"two", b"3"):
            producer.send(topic, value)
    assert Example("dead_letter", server, topic).run(5) == ["1", "3"]
    with Consumer(f"{topic}.dlq", bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
        letter = consumer.getone()
    headers = dict(letter.headers)
    assert letter.value == b"two" and headers["x-original-topic"] == topic.encode()
    assert headers["x-original-offset"] == b"1" and headers["ottla-retry-attempt"] == b"3"
    assert headers["ottla-retry-exception"] == b"builtins.ValueError"


def test_a_key_stays_in_order_in_parallel(server, new_topic):
    topic = new_topic(2)
    filled(server, topic, 200)
    seen = Example("parallel_by_key", server, topic).run(200)
    for key in "0123456":
        numbers = [int(line[9:]) for line in seen if line.startswith(f"{key}: order-")]
        assert numbers == list(range(int(key), 200, 7))


def test_the_pipeline_prices_every_order(server, new_topic):
    topic, output = new_topic(2), new_topic()
    texts = filled(server, topic, 100)
    Example("async_pipeline", server, topic, "--output", output).run(100)
    assert sorted(committed_values(server, output)) == sorted(f"{text}: 3 euros" for text in texts)


def test_orders_are_written_though_no_broker_is_at_their_site(server, new_topic):
    topic = new_topic(2)
    seen = Example("custom_partitioner", server, topic).run(6)
    assert len(seen) == 6 and seen[0].startswith("berlin/customer-0 is at offset 0")


def test_orders_are_written_at_the_site_of_their_customer():
    with Cluster(nodes=2, racks=["berlin", "tokyo"]) as cluster:
        cluster.create_topic("orders", partitions=4, replication_factor=1)
        sites = {number: ("berlin", "tokyo")[cluster.leader("orders", number) - 1] for number in range(4)}
        seen = Example("custom_partitioner", cluster.bootstrap_servers, "orders").run(20)
        assert len(seen) == 20 and len(set(sites.values())) == 2
        for line in seen:
            assert line.startswith(sites[int(line.split()[-1])] + "/"), line
