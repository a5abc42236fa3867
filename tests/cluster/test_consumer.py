"""Our consumers on a cluster whose brokers are killed, restarted and away: what was acknowledged is read, in order, and
nothing is read twice unless the group gave it to somebody else before it was committed."""

import itertools
import re
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from ottla.broker.coordinators import place_of
from ottla.client import Consumer, KafkaError, Producer, TopicPartition
from ottla.testing.cluster import Cluster
from tests.cluster.readers import Group, Readers, Worker, Writer, reading
from tests.interop.brokers import eventually

PARTITIONS = 6
BROKERS = (1, 2, 3)
RACKS = ["a", "b", "c"]
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PLACES = 4
"""Partitions of each of them."""
CLASSIC = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500}
KINDS: dict[str, dict[str, object]] = {
    "range": {"partition_assignment_strategy": "range", **CLASSIC},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky", **CLASSIC},
    "consumer": {"group_protocol": "consumer"},
}
_names = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "offsets.topic.num.partitions": PLACES,
        "transaction.state.log.num.partitions": PLACES,
        "min.insync.replicas": 2,
        "group.consumer.heartbeat.interval.ms": 500,
        "group.consumer.min.heartbeat.interval.ms": 500,
        "replica.selector.class": "RackAwareReplicaSelector",
        "auto.leader.rebalance.enable": "false",
    }
    with Cluster(nodes=len(BROKERS), racks=RACKS, config=config, http=True) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return new_topic(cluster, PARTITIONS)


def new_topic(cluster: Cluster, partitions: int) -> str:
    name = f"t{next(_names)}"
    cluster.create_topic(name, partitions, 3, min_insync_replicas=2)
    cluster.wait_until_healthy()
    return name


def placed(name: str, place: int) -> str:
    """A name for a group, or a transactional id, whose coordinator is the leader of that partition."""
    tried = (f"{name}-{number}" for number in itertools.count())
    return next(each for each in tried if place_of(each, PLACES) == place)


def kill(cluster: Cluster, victim: int, go_on: Callable[[], None]) -> None:
    """Kill a broker; everything goes on without it, and then with it."""
    cluster.kill(victim)
    go_on()
    cluster.start(victim)
    cluster.wait_until_healthy()
    go_on()


def busiest(cluster: Cluster, writer: Writer, topic: str) -> int:
    """The leader of the partition that has the most records."""
    held = [partition for partition, _ in writer.acknowledged.copy().values()]
    return cluster.leader(topic, max(set(held), key=held.count))


# --- groups -------------------------------------------------------------------------------------------------------


def test_groups_of_all_kinds_read_everything_whoever_is_killed(cluster, topic):
    servers = cluster.bootstrap_servers
    groups = [
        Group(servers, topic, PARTITIONS, placed(f"{kind}-{topic}", 0), **how) for kind, how in KINDS.items()
    ]
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(servers, topic))
        for group in groups:
            stack.enter_context(group.joined(3))

        def go_on() -> None:
            writer.goes_on()
            for group in groups:
                group.goes_on(writer)

        go_on()
        repeated = {group.group_id: len(group.repeated) for group in groups}
        kill(cluster, busiest(cluster, writer, topic), go_on)
        kill(cluster, cluster.leader(OFFSETS, 0), go_on)
        assert {group.group_id: len(group.repeated) for group in groups} == repeated, "no member came or went"
        for group in groups:
            group.leave()
            group.join()
        kill(cluster, cluster.controller(), go_on)
        writer.stop()
        for group in groups:
            group.goes_on(writer)
    for group in groups:
        writer.check_log(group.records)


# --- without a group ----------------------------------------------------------------------------------------------


def test_a_reader_without_a_group_sees_the_log_exactly_when_leaders_are_killed(cluster, topic, caplog):
    """With `none`, a position that seems to lie outside the log, or log that seems to be cut, would raise."""
    servers = cluster.bootstrap_servers
    with (
        Writer(servers, topic) as writer,
        reading(servers, topic, PARTITIONS, auto_offset_reset="none") as readers,
    ):

        def go_on() -> None:
            writer.goes_on()
            readers.goes_on(writer)

        go_on()
        kill(cluster, busiest(cluster, writer, topic), go_on)
        writer.stop()
        readers.goes_on(writer)
    writer.check_log(readers.records)
    assert not readers.repeated and not readers.errors
    assert not [each for each in caplog.messages if "was cut" in each or "is not in its log" in each]


# --- transactions -------------------------------------------------------------------------------------------------


class Pipeline(Worker):
    """Reads, and writes what it read together with how far it has read."""

    def __init__(self, cluster: Cluster, source: str, target: str, group_id: str, id: str) -> None:
        super().__init__()
        self.count = 0
        self.spoilt: list[KafkaError] = []
        self._servers, self._source, self._target = cluster.bootstrap_servers, source, target
        self._group_id, self._id = group_id, id

    def work(self) -> None:
        settings = {"bootstrap_servers": self._servers}
        reads = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **CLASSIC}
        with (
            Consumer(self._source, group_id=self._group_id, **settings, **reads) as consumer,
            Producer(**settings, transactional_id=self._id) as producer,
        ):
            producer.init_transactions()
            while not self.is_over.is_set():
                try:
                    self._step(consumer, producer)
                except KafkaError as error:
                    self.spoilt.append(error)
                    rewind(consumer)

    def _step(self, consumer: Consumer, producer: Producer) -> None:
        found = consumer.poll(100, max_records=30)
        if not found:
            return
        with producer.transaction():
            for records in found.values():
                for record in records:
                    producer.send(self._target, record.value, key=record.key)
            places = {partition: records[-1].offset + 1 for partition, records in found.items()}
            producer.send_offsets_to_transaction(places, consumer.group_metadata())
        self.count += sum(map(len, found.values()))

    def goes_on(self) -> None:
        count = self.count + 100
        assert eventually(lambda: self.error or self.count >= count), self.spoilt[-3:]
        assert self.error is None, self.error


def rewind(consumer: Consumer) -> None:
    """Back to what was committed: what was read since then came to nothing."""
    for partition, place in consumer.committed_many(consumer.assignment()).items():
        if place is not None:
            consumer.seek(partition, place)
        else:
            consumer.seek_to_beginning(partition)


def committed_values(cluster: Cluster, topic: str) -> list[int]:
    """All that a reader of committed records finds up to the end."""
    how = {"isolation_level": "read_committed", "auto_offset_reset": "none"}
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **how) as consumer:
        places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(places), []
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(1_000).values():
                found += [int(record.value) for record in records]
    return found


def test_a_pipeline_of_transactions_brings_each_input_exactly_once(cluster):
    source, target = new_topic(cluster, 2), new_topic(cluster, 2)
    group_id, id = placed(f"pipes-{source}", 1), placed(f"pipe-{source}", 2)
    with (
        Writer(cluster.bootstrap_servers, source) as writer,
        Pipeline(cluster, source, target, group_id, id) as pipeline,
    ):

        def go_on() -> None:
            writer.goes_on()
            pipeline.goes_on()

        go_on()
        for place in ((target, 0), (TRANSACTIONS, 2), (OFFSETS, 1)):
            kill(cluster, cluster.leader(*place), go_on)
        writer.stop()
        wanted = sorted(writer.acknowledged)
        assert eventually(lambda: len(committed_values(cluster, target)) >= len(wanted)), pipeline.spoilt[-3:]
        pipeline.stop()
    assert sorted(committed_values(cluster, target)) == wanted


# --- near replicas ------------------------------------------------------------------------------------------------


def bytes_read(cluster: Cluster, broker: int, topic: str) -> float:
    """What consumers have fetched of a topic from a broker, as it counts itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.node(broker).http_port}/metrics") as page:
        text = page.read().decode()
    found = re.search(rf'^ottla_topic_bytes_out_total{{topic="{topic}"}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_reader_turns_to_the_replica_in_its_rack_and_to_the_leader_when_that_dies(cluster):
    topic = new_topic(cluster, 1)
    leader = cluster.leader(topic)
    near = next(each for each in BROKERS if each not in (leader, cluster.controller()))
    how = {"client_rack": RACKS[near - 1], "auto_offset_reset": "none"}
    servers = cluster.bootstrap_servers
    with Writer(servers, topic) as writer, reading(servers, topic, 1, **how) as readers:

        def go_on() -> None:
            writer.goes_on()
            readers.goes_on(writer)

        go_on()
        assert bytes_read(cluster, near, topic) > 0
        before = bytes_read(cluster, leader, topic)
        go_on()
        assert bytes_read(cluster, leader, topic) == before, "it is all read nearby"
        cluster.kill(near)
        go_on()
        assert bytes_read(cluster, leader, topic) > before
        cluster.start(near)
        cluster.wait_until_healthy()
        assert eventually(lambda: bytes_read(cluster, near, topic) > 0), "it does not come back"
        go_on()
        writer.stop()
        readers.goes_on(writer)
    writer.check_log(readers.records)
    assert not readers.repeated and not readers.errors


# --- all brokers --------------------------------------------------------------------------------------------------


def test_nobody_notices_that_all_brokers_are_restarted(cluster, topic):
    servers = cluster.bootstrap_servers
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(servers, topic))
        everybody: list[Readers] = [stack.enter_context(reading(servers, topic, PARTITIONS))]
        everybody += [
            stack.enter_context(Group(servers, topic, PARTITIONS, f"{kind}-{topic}", **how).joined(2))
            for kind, how in KINDS.items()
        ]

        def go_on() -> None:
            writer.goes_on()
            for readers in everybody:
                readers.goes_on(writer)

        go_on()
        stays = [readers.stay_count for readers in everybody]
        told = [list(readers.errors) for readers in everybody]
        repeated = [len(readers.repeated) for readers in everybody]
        for broker in BROKERS:
            cluster.restart(broker)
            cluster.wait_until_healthy()
            go_on()
        assert [readers.stay_count for readers in everybody] == stays, "no group has rebalanced"
        assert [readers.errors for readers in everybody] == told
        assert [len(readers.repeated) for readers in everybody] == repeated
        writer.stop()
        for readers in everybody:
            readers.goes_on(writer)
    for readers in everybody:
        writer.check_log(readers.records)


def test_clients_outlast_a_time_without_any_broker(cluster, topic):
    """One of their bootstrap servers was never there."""
    servers = f"127.0.0.1:1,{cluster.bootstrap_servers}"
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(servers, topic))
        everybody: list[Readers] = [stack.enter_context(reading(servers, topic, PARTITIONS))]
        everybody += [
            stack.enter_context(Group(servers, topic, PARTITIONS, f"{kind}-{topic}", **how).joined(1))
            for kind, how in KINDS.items()
        ]

        def go_on() -> None:
            writer.goes_on()
            for readers in everybody:
                readers.goes_on(writer)

        go_on()
        with ThreadPoolExecutor(len(BROKERS)) as pool:
            list(pool.map(cluster.kill, BROKERS))
            list(pool.map(cluster.start, BROKERS))
        go_on()
        writer.stop()
        for readers in everybody:
            readers.goes_on(writer)
    for readers in everybody:
        writer.check_log(readers.records)
        assert not readers.errors
