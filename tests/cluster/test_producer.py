"""Our producers and a cluster whose leaders are killed: nothing is lost, nothing doubled, and keys keep their order."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.client import AsyncProducer, Producer
from ottla.client.errors import TransactionAbortableError
from ottla.testing.cluster import Cluster

KEYS = 7
KILLS = 2
_names = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t{next(_names)}"
    cluster.create_topic(name, partitions=2, replication_factor=3, min_insync_replicas=2)
    return name


class Murderer:
    """Kills the leader of partition 0, again and again; each comes back before the next dies."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._thread = threading.Thread(target=self._work)
        self.is_over = threading.Event()
        self.error: BaseException | None = None

    def __enter__(self) -> "Murderer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        assert self.error is None, self.error

    def _work(self) -> None:
        try:
            for _ in range(KILLS):
                self._kill_one()
        except BaseException as error:
            self.error = error
        finally:
            self.is_over.set()

    def _kill_one(self) -> None:
        place, victim = (self._topic, 0), self._cluster.leader(self._topic, 0)
        self._cluster.kill(victim)
        self._cluster.wait_until(lambda view: view.partitions[place].leader not in (-1, victim))
        self._cluster.start(victim)
        self._cluster.wait_until_healthy()


def read_all(cluster: Cluster, topic: str, isolation: str = "read_uncommitted") -> dict[bytes, list[int]]:
    """The values of each key in the order of the log, as somebody else's client reads them."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "nobody",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    found: dict[bytes, list[int]] = {}
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
        ends: set[int] = set()
        while len(ends) < 2:
            message = consumer.poll(10)
            assert message is not None, "nothing more, and no end either"
            if message.error() is not None:
                ends.add(message.partition())
            else:
                found.setdefault(message.key(), []).append(int(message.value()))
    finally:
        consumer.close()
    return found


def expected(count: int) -> dict[bytes, list[int]]:
    return {b"%d" % key: list(range(key, count, KEYS)) for key in range(KEYS)}


def numbered(is_over: Callable[[], bool], at_least: int) -> Iterator[int]:
    for number in itertools.count():
        if number >= at_least and is_over():
            return
        yield number


def test_a_blocking_producer_under_load_while_leaders_are_killed(cluster, topic):
    with Producer(bootstrap_servers=cluster.bootstrap_servers, buffer_max_records=2_000) as producer:
        with Murderer(cluster, topic) as murderer:
            failures: list[BaseException] = []
            count = 0
            for number in numbered(murderer.is_over.is_set, 5_000):
                producer.send(topic, b"%d" % number, key=b"%d" % (number % KEYS)).add_errback(failures.append)
                count += 1
                if number % 500 == 0:
                    murderer.is_over.wait(0.01)
        producer.flush(30)
    assert not failures
    assert read_all(cluster, topic) == expected(count)


def test_an_asynchronous_producer_under_load_while_leaders_are_killed(cluster, topic):
    async def run(murderer: Murderer) -> int:
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "compression_type": "lz4"}
        async with AsyncProducer(**settings, buffer_max_records=2_000) as producer:
            deliveries = []
            for number in numbered(murderer.is_over.is_set, 5_000):
                deliveries.append(await producer.send(topic, b"%d" % number, key=b"%d" % (number % KEYS)))
                if number % 500 == 0:
                    await asyncio.sleep(0.01)
            for each in deliveries:
                await each
            return len(deliveries)

    with Murderer(cluster, topic) as murderer:
        count = asyncio.run(run(murderer))
    assert read_all(cluster, topic) == expected(count)


def test_transactions_while_leaders_are_killed_are_whole_or_not_there(cluster, topic):
    """The kill may spoil a transaction: then it is aborted and done again, and only then are its records there."""
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=f"id-{topic}", max_block_ms=30_000
    ) as producer:
        producer.init_transactions()
        with Murderer(cluster, topic) as murderer:
            count = 0
            while count < 1_000 or not murderer.is_over.is_set():
                try:
                    with producer.transaction():
                        for number in range(count, count + 70):
                            producer.send(topic, b"%d" % number, key=b"%d" % (number % KEYS))
                except TransactionAbortableError:
                    continue
                count += 70
                if count % 700 == 0:
                    with producer.transaction():
                        producer.send(topic, b"-1", key=b"0")
                        producer.flush()
                        producer.abort_transaction()
                        producer.begin_transaction()
    assert read_all(cluster, topic, "read_committed") == expected(count)
