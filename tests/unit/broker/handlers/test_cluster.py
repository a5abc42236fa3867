"""DescribeLogDirs: what lies where, and how much room is left. AlterReplicaLogDirs: where it should lie."""

import os.path
from types import SimpleNamespace

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.cluster import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from tests.unit.broker.handlers.fakes import ask, broker_with


def directory(path, **sizes):
    """`orders_0=17`: partition 0 of orders has 17 bytes."""
    logs = {
        TopicPartition(name.rpartition("_")[0], int(name.rpartition("_")[2])): SimpleNamespace(
            segments=SimpleNamespace(size=size)
        )
        for name, size in sizes.items()
    }
    return SimpleNamespace(path=str(path), logs=logs, futures={})


def broker_on(*directories, offline=()):
    broker = broker_with()
    broker.replicas = SimpleNamespace(directories=list(directories), offline=dict.fromkeys(offline, "failed"))
    return broker


def sizes(result):
    return {
        (topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(6))
def test_every_version_tells_the_size_of_each_log(version, tmp_path):
    broker = broker_on(directory(tmp_path, orders_0=17, orders_1=0, clicks_0=4))
    found = ask(broker, "DescribeLogDirs", version, topics=None)
    assert found.error_code == ErrorCode.NONE
    (result,) = found.results
    assert result.log_dir == str(tmp_path)
    assert sizes(result) == {("orders", 0): 17, ("orders", 1): 0, ("clicks", 0): 4}
    assert all(each.offset_lag == 0 for topic in result.topics for each in topic.partitions)


def test_the_room_on_the_disk_is_told_since_v4(tmp_path):
    broker = broker_on(directory(tmp_path))
    (old,) = ask(broker, "DescribeLogDirs", 3, topics=None).results
    (new,) = ask(broker, "DescribeLogDirs", 4, topics=None).results
    assert (old.total_bytes, old.usable_bytes) == (-1, -1)
    assert new.total_bytes > new.usable_bytes > 0


def test_a_directory_without_a_disk_has_no_known_size(tmp_path):
    (result,) = ask(broker_on(directory(tmp_path / "none")), "DescribeLogDirs", 5, topics=None).results
    assert result.error_code == ErrorCode.NONE
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_a_path_is_told_in_full():
    (result,) = ask(broker_on(directory("data/here")), "DescribeLogDirs", 5, topics=None).results
    assert os.path.isabs(result.log_dir)


def test_only_the_partitions_asked_for_are_told_but_every_directory(tmp_path):
    broker = broker_on(
        directory(tmp_path / "a", orders_0=1, orders_1=2), directory(tmp_path / "b", clicks_0=3)
    )
    wanted = DescribeLogDirsRequest.Topic(topic="orders", partitions=[1, 7])
    first, second = ask(broker, "DescribeLogDirs", 4, topics=[wanted]).results
    assert sizes(first) == {("orders", 1): 2}
    assert second.topics == []


def test_a_failed_directory_is_told_with_its_error(tmp_path):
    failed = directory(tmp_path / "bad", orders_0=1)
    broker = broker_on(directory(tmp_path), failed, offline=[failed.path, str(tmp_path / "never")])
    results = ask(broker, "DescribeLogDirs", 4, topics=None).results
    assert [(os.path.basename(each.log_dir), each.error_code) for each in results[1:]] == [
        ("bad", ErrorCode.KAFKA_STORAGE_ERROR),
        ("never", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    assert results[0].error_code == ErrorCode.NONE
    assert all(each.topics == [] for each in results[1:])


def test_who_may_not_describe_the_cluster_sees_nothing(tmp_path):
    broker = broker_on(directory(tmp_path, orders_0=1))
    broker.authorizer.deny(Operation.DESCRIBE)
    found = ask(broker, "DescribeLogDirs", 3, topics=None)
    assert (found.error_code, found.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    assert ask(broker, "DescribeLogDirs", 1, topics=None).results == []


def test_a_copy_is_shown_with_how_far_it_is_behind(tmp_path):
    first, second = directory(tmp_path / "a", orders_0=10), directory(tmp_path / "b", clicks_0=1)
    where = TopicPartition("orders", 0)
    second.futures[where] = SimpleNamespace(segments=SimpleNamespace(size=4), end_offset=4)
    broker = broker_on(first, second)
    broker.replicas.partitions = {where: SimpleNamespace(log=SimpleNamespace(end_offset=10))}
    results = ask(broker, "DescribeLogDirs", 4, topics=None).results
    shown = [
        (topic.name, each.partition_size, each.offset_lag, each.is_future_key)
        for result in results
        for topic in result.topics
        for each in topic.partitions
    ]
    assert shown == [("orders", 10, 0, False), ("clicks", 1, 0, False), ("orders", 4, 6, True)]
    broker.replicas.partitions = {}
    (_, second) = ask(broker, "DescribeLogDirs", 4, topics=None).results
    assert second.topics[1].partitions[0].offset_lag == -1


class Moves:
    """Takes orders, and refuses those for other directories."""

    def __init__(self):
        self.orders = []

    async def move(self, partition, path):
        if path != "/there":
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")
        self.orders.append(partition)


def alter(broker, version):
    asked = AlterReplicaLogDirsRequest.Dir
    dirs = [
        asked(path="/there", topics=[asked.Topic(name="orders", partitions=[0, 1])]),
        asked(path="/nowhere", topics=[asked.Topic(name="orders", partitions=[2])]),
    ]
    results = ask(broker, "AlterReplicaLogDirs", version, dirs=dirs).results
    return {
        (each.topic_name, one.partition_index): one.error_code for each in results for one in each.partitions
    }


@pytest.mark.parametrize("version", range(3))
def test_every_version_moves_replicas_and_tells_of_each(version):
    broker = broker_with()
    broker.log_dir_moves = Moves()
    assert alter(broker, version) == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 1): ErrorCode.NONE,
        ("orders", 2): ErrorCode.LOG_DIR_NOT_FOUND,
    }
    assert broker.log_dir_moves.orders == [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def test_who_may_not_alter_the_cluster_moves_nothing():
    broker = broker_with()
    broker.log_dir_moves = Moves()
    broker.authorizer.deny(Operation.ALTER)
    assert set(alter(broker, 2).values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert broker.log_dir_moves.orders == []
