"""Replicas on racks, and on the move between brokers under load: real processes, real clients."""

import asyncio
import itertools
import re
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.network.peer import Peer, connect
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from ottla.testing.cluster import Cluster

RACKS = ["a", "a", "b", "b"]
RECORD_BYTES, RECORDS = 10_000, 1_500
RATE = 2_000_000
PATIENCE_SECONDS = 60.0
_names = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"replica.selector.class": "RackAwareReplicaSelector", "auto.leader.rebalance.enable": "false"}
    with Cluster(nodes=4, racks=RACKS, config=config, http=True) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A name that no other test has; the test creates it."""
    return f"orders-{next(_names)}"


def rack_of(broker: int) -> str:
    return RACKS[broker - 1]


def write(cluster: Cluster, topic: str, count: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%08d" % number + b"." * (size - 8), partition=0)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def read(cluster: Cluster, topic: str, count: int, **settings: Any) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody", "log_level": 0, **settings}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() or b"" for message in consumer.consume(500, 1.0) if not message.error()]
    consumer.close()
    return values


def metric(cluster: Cluster, broker: int, name: str) -> float:
    port = cluster.node(broker).http_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        found = re.findall(rf"^{re.escape(name)} (\S+)$", page.read().decode(), re.MULTILINE)
    return float(found[0]) if found else 0.0


def of_the_controller(cluster: Cluster, ask: Callable[[Peer], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with await connect("127.0.0.1", cluster.node(cluster.controller()).port) as peer:
            return await ask(peer)

    return asyncio.run(run())


def move(cluster: Cluster, topic: str, replicas: list[int] | None) -> None:
    wanted = AlterPartitionReassignmentsRequest.Topic
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000,
        topics=[
            wanted(name=topic, partitions=[wanted.Partition(partition_index=0, replicas=replicas)]),
        ],
    )
    answer = of_the_controller(cluster, lambda peer: peer.send(request))
    assert [each.error_code for each in answer.responses[0].partitions] == [0]


def moving(cluster: Cluster) -> list[str]:
    request = ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=None)
    return [topic.name for topic in of_the_controller(cluster, lambda peer: peer.send(request)).topics]


def until(is_so: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, "it took too long"
        pause.wait(0.05)


def test_every_partition_is_on_both_racks_and_consumers_read_on_theirs(cluster, topic):
    cluster.create_topic(topic, partitions=8, replication_factor=2)
    partitions = [each for place, each in cluster.view().partitions.items() if place.topic == topic]
    assert all({rack_of(id) for id in each.replicas} == {"a", "b"} for each in partitions)
    write(cluster, topic, 100, 1_000)
    leader = cluster.leader(topic, 0)
    (follower,) = set(cluster.isr(topic, 0)) - {leader}
    served = f'ottla_topic_bytes_out_total{{topic="{topic}"}}'
    assert len(read(cluster, topic, 100, **{"client.rack": rack_of(follower)})) == 100
    assert metric(cluster, follower, served) >= 100_000
    before = metric(cluster, follower, served)
    assert len(read(cluster, topic, 100)) == 100
    assert metric(cluster, follower, served) == before, "who does not say where it is reads from the leader"


def throttle(cluster: Cluster, topic: str, rate: int) -> None:
    """As kafka-reassign-partitions --throttle does."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def entry(name: str, value: object) -> ConfigEntry:
        return ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)

    sides = ("leader", "follower")
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[entry(f"{side}.replication.throttled.replicas", "*") for side in sides],
        )
    ]
    resources += [
        ConfigResource(
            ResourceType.BROKER,
            str(node.id),
            incremental_configs=[entry(f"{side}.replication.throttled.rate", rate) for side in sides],
        )
        for node in cluster.nodes
    ]
    for resource in resources:  # librdkafka takes one broker at a time
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(PATIENCE_SECONDS)


class Writer:
    """Writes as long as it is there, and knows what was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._topic = topic
        self._is_over = threading.Event()
        self.acknowledged: list[bytes] = []
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        for number in itertools.count():
            if self._is_over.wait(0.002):
                break
            self._producer.produce(self._topic, b"new %d" % number, partition=0, on_delivery=self._note)
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _note(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append(message.value())

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def test_a_throttled_move_under_load_loses_nothing_and_keeps_to_its_rate(cluster, topic):
    cluster.create_topic(topic, replication_factor=2)
    write(cluster, topic, RECORDS, RECORD_BYTES)
    old = list(cluster.view().partitions[topic, 0].replicas)
    new = sorted({1, 2, 3, 4} - set(old))
    throttle(cluster, topic, RATE)
    fetched = sum(metric(cluster, id, "ottla_replication_bytes_in_total") for id in new)
    began = time.monotonic()
    with Writer(cluster, topic) as writer:
        move(cluster, topic, new)
        assert moving(cluster) == [topic]
        until(lambda: not moving(cluster))
        seconds = time.monotonic() - began
        fetched = sum(metric(cluster, id, "ottla_replication_bytes_in_total") for id in new) - fetched
        cluster.wait_until(lambda view: view.partitions[topic, 0].isr == tuple(new))
    assert fetched >= len(new) * RECORDS * RECORD_BYTES
    assert fetched / seconds < 2 * RATE * len(new)
    values = read(cluster, topic, RECORDS + len(writer.acknowledged))
    assert values[RECORDS:] == writer.acknowledged
    assert [int(value[:8]) for value in values[:RECORDS]] == list(range(RECORDS))
    for id in old:
        until(lambda id=id: not list(Path(cluster.node(id).data_dir).glob(f"{topic}-0")))


def test_a_move_that_is_taken_back_leaves_everything_as_it_was(cluster, topic):
    cluster.create_topic(topic, replication_factor=2)
    write(cluster, topic, RECORDS, RECORD_BYTES)
    throttle(cluster, topic, 100_000)
    old = list(cluster.view().partitions[topic, 0].replicas)
    move(cluster, topic, sorted({1, 2, 3, 4} - set(old)))
    assert moving(cluster) == [topic]
    move(cluster, topic, None)
    assert moving(cluster) == []
    cluster.wait_until(lambda view: list(view.partitions[topic, 0].replicas) == old)
    cluster.wait_until_healthy()
    assert len(read(cluster, topic, RECORDS)) == RECORDS


def test_leadership_goes_back_to_the_first_replica_when_it_is_asked_for(cluster, topic):
    cluster.create_topic(topic, replication_factor=3)
    first = cluster.leader(topic)
    cluster.restart(first)
    cluster.wait_until_healthy()
    assert cluster.leader(topic) != first
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000)
    answer = of_the_controller(cluster, lambda peer: peer.send(request))
    assert answer.error_code == 0
    cluster.wait_until(lambda view: view.partitions[topic, 0].leader == first)
