"""Real brokers in processes of their own, and what befalls them."""

import contextlib
import os
import signal
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer

from ottla.core.errors import KafkaError
from ottla.testing import Cluster
from ottla.testing.cluster import ClusterError, NodeState

PATIENCE_S = 60


@pytest.fixture(scope="module")
def shared():
    """One cluster for the tests that break it, and mend it again."""
    with Cluster(nodes=3, links=True, config={"replica.lag.time.max.ms": 2000}) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared):
    yield shared
    shared.heal()
    for node in shared.nodes:
        shared.resume(node.id)
        if node.state is NodeState.DOWN:
            shared.start(node.id)
    shared.wait_until_healthy()


class Writer:
    """Writes to a topic with acks=all, each record once, and knows what was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self.acknowledged: list[bytes] = []
        self._count = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(self._topic, str(self._count), partition=0, on_delivery=self._note)
            self._count += 1

    def finish(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert len(self.acknowledged) == self._count

    def write(self, count: int) -> None:
        self.send(count)
        self.finish()

    def _note(self, error, message) -> None:
        if error is None:
            self.acknowledged.append(message.value())


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    with contextlib.closing(consumer):
        for _ in range(PATIENCE_S):
            if len(found) >= count:
                break
            found += [message.value() for message in consumer.consume(count, 1.0)]
    return found


def another_leads(topic: str, than: int):
    return lambda view: view.partitions[topic, 0].leader not in (-1, than)


def test_a_leader_that_is_killed_is_replaced_and_comes_back_in_sync(cluster):
    cluster.create_topic("killed", 1, 3, min_insync_replicas=2)
    writer = Writer(cluster, "killed")
    writer.write(20)
    first = cluster.leader("killed")
    cluster.kill(first)
    assert cluster.node(first).state is NodeState.DOWN
    cluster.wait_until(another_leads("killed", first))
    assert first not in cluster.isr("killed")
    writer.write(20)
    port = cluster.node(first).port
    cluster.start(first)
    assert cluster.node(first).port == port
    cluster.wait_until_healthy()
    assert cluster.isr("killed") == [1, 2, 3]
    assert read(cluster, "killed", 40) == writer.acknowledged


def test_a_leader_that_stands_still_is_replaced_and_follows_when_it_wakes(cluster):
    cluster.create_topic("paused", 1, 3, min_insync_replicas=2)
    writer = Writer(cluster, "paused")
    writer.write(5)
    first = cluster.leader("paused")
    cluster.pause(first)
    assert cluster.node(first).state is NodeState.PAUSED
    cluster.wait_until(another_leads("paused", first))
    writer.send(5)
    cluster.resume(first)
    cluster.wait_until_healthy()
    writer.finish()
    assert cluster.isr("paused") == [1, 2, 3]
    assert read(cluster, "paused", 10) == writer.acknowledged


def test_a_leader_that_is_isolated_is_replaced_and_follows_when_the_network_heals(cluster):
    cluster.create_topic("isolated", 1, 3, min_insync_replicas=2)
    writer = Writer(cluster, "isolated")
    writer.write(5)
    first = cluster.leader("isolated")
    cluster.isolate(first)
    cluster.wait_until(another_leads("isolated", first))
    assert (
        cluster.told_by(first).partitions["isolated", 0].leader == first
    )  # clients reach it, and it knows no better
    writer.send(5)
    cluster.heal()
    cluster.wait_until_healthy()
    writer.finish()
    assert read(cluster, "isolated", 10) == writer.acknowledged


def test_a_follower_that_is_not_heard_falls_out_of_sync_though_it_hears(cluster):
    cluster.create_topic("one-way", 1, 3, min_insync_replicas=2)
    leader = cluster.leader("one-way")
    follower = next(node.id for node in cluster.nodes if node.id not in (leader, cluster.controller()))
    cluster.partition(follower, leader, one_way=True)
    writer = Writer(cluster, "one-way")
    writer.send(1)
    cluster.wait_until(lambda view: follower not in view.partitions["one-way", 0].isr)
    assert follower in cluster.view().brokers
    writer.finish()
    cluster.heal()
    cluster.wait_until_healthy()
    assert cluster.isr("one-way") == [1, 2, 3]


def test_a_controller_that_loses_the_store_is_replaced(cluster):
    first = cluster.controller()
    cluster.cut_off_from_store(first)
    view = cluster.wait_until(lambda view: view.controller not in (-1, first) and first not in view.brokers)
    assert view.brokers == {1, 2, 3} - {first}
    cluster.heal()
    cluster.wait_until_healthy()


def test_a_clean_stop_hands_over_at_once_and_a_restart_keeps_the_data(cluster):
    cluster.create_topic("stopped", 1, 3)
    writer = Writer(cluster, "stopped")
    writer.write(5)
    first = cluster.leader("stopped")
    cluster.stop(first)
    assert cluster.leader("stopped") not in (-1, first)
    with pytest.raises(ClusterError, match=f"broker {first} is not registered.*broker {first} is down"):
        cluster.wait_until_healthy(timeout=0)
    cluster.start(first)
    cluster.wait_until_healthy()
    assert read(cluster, "stopped", 5) == writer.acknowledged


def test_topics_are_created_as_asked_or_refused_with_the_reason(cluster):
    cluster.create_topic("asked", 4, 2, retention_ms=1000)
    partitions = [each for place, each in cluster.view().partitions.items() if place.topic == "asked"]
    assert [len(each.replicas) for each in partitions] == [2, 2, 2, 2]
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic("asked")
    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
        cluster.create_topic("too-many", 1, 4)
    with pytest.raises(ClusterError, match="there is no nothing-0"):
        cluster.leader("nothing")
    with pytest.raises(ClusterError, match="there is no broker 9; there are 1, 2, 3"):
        cluster.kill(9)


@pytest.mark.kafka_cluster(nodes=1, http=True, racks=["here"], config={"num.partitions": 3})
def test_a_cluster_without_links_grows_and_is_a_fixture_too(kafka_cluster):
    with pytest.raises(ClusterError, match="links=True"):
        kafka_cluster.isolate(1)
    node = kafka_cluster.add_node()
    assert (node.id, kafka_cluster.bootstrap_servers.count(",")) == (2, 1)
    kafka_cluster.wait_until_healthy()
    kafka_cluster.create_topic("spread", 1, 2)
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/readyz", timeout=PATIENCE_S) as answer:
        assert answer.status == 200
    os.kill(node.pid, signal.SIGKILL)
    with pytest.raises(ClusterError, match="broker 2 has ended by itself"):
        kafka_cluster.wait_until_healthy()


def test_data_in_a_directory_stay_for_the_next_cluster_and_nothing_else_is_left(tmp_path):
    with Cluster(nodes=1, data_dir=tmp_path) as cluster:
        cluster.create_topic("kept")
        Writer(cluster, "kept").write(3)
        pid = cluster.node(1).pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with Cluster(nodes=1, data_dir=tmp_path) as cluster:
        assert read(cluster, "kept", 3) == [b"0", b"1", b"2"]


def test_whatever_is_raised_nothing_is_left():
    seen = []
    with pytest.raises(ZeroDivisionError), Cluster(nodes=1) as cluster:
        seen += [cluster.node(1).pid, cluster.node(1).data_dir.parent]
        assert seen[1].exists()
        raise ZeroDivisionError
    assert not seen[1].exists()
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)
    with pytest.raises(RuntimeError, match="does not run"):
        cluster.kill(1)


def test_a_cluster_that_cannot_start_says_what_a_broker_said():
    with pytest.raises(ClusterError, match=r"(?s)broker 1 did not start.*num\.partitions"):
        Cluster(nodes=1, config={"num.partitions": "many"}).open()
