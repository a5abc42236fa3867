"""DescribeLogDirs: what lies where, and how much room is left."""

import os.path
from types import SimpleNamespace

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.cluster import DescribeLogDirsRequest
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
