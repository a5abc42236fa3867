"""Brokers and their disks: DescribeLogDirs."""

import asyncio
import os.path
import shutil
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.storage.log import Log

Dir = DescribeLogDirsResponse.Dir


class Volume(NamedTuple):
    """The file system below a directory; -1 where nobody knows."""

    total_bytes: int = -1
    usable_bytes: int = -1


async def describe_log_dirs(
    broker: "Broker", call: Call, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """All directories, also those without any of the partitions that were asked for; the failed ones with 56."""
    if not broker.authorizer.allows(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        # Before v3 the reply has no field to say so: it is just empty.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])
    offline = set(broker.replicas.offline)
    online = [each for each in broker.replicas.directories if each.path not in offline]
    wanted = _wanted(request)
    found = [(each.path, _topics(each.logs, wanted)) for each in online]
    volumes = await asyncio.to_thread(_volumes, [path for path, _ in found])  # a sick disk may hang
    failed = [_failed(path) for path in sorted(offline)]
    return DescribeLogDirsResponse(
        results=[_result(path, topics, volumes[path]) for path, topics in found] + failed
    )


def _wanted(request: DescribeLogDirsRequest) -> frozenset[TopicPartition] | None:
    if request.topics is None:
        return None
    return frozenset(
        TopicPartition(each.topic, index) for each in request.topics for index in each.partitions
    )


def _topics(
    logs: Mapping[TopicPartition, "Log"], wanted: frozenset[TopicPartition] | None
) -> list[Dir.Topic]:
    topics: dict[str, Dir.Topic] = {}
    for partition in sorted(logs if wanted is None else wanted & logs.keys()):
        topic = topics.setdefault(partition.topic, Dir.Topic(name=partition.topic, partitions=[]))
        size = logs[partition].segments.size
        topic.partitions.append(
            Dir.Topic.Partition(
                partition_index=partition.partition, partition_size=size, offset_lag=0, is_future_key=False
            )
        )
    return list(topics.values())


def _volumes(paths: Iterable[str]) -> dict[str, Volume]:
    """Room on the disks. A directory that lives in memory only has no volume."""
    found = {}
    for path in paths:
        try:
            usage = shutil.disk_usage(path)
            found[path] = Volume(usage.total, usage.free)
        except OSError:
            found[path] = Volume()
    return found


def _result(path: str, topics: list[Dir.Topic], volume: Volume) -> Dir:
    return Dir(
        error_code=ErrorCode.NONE,
        log_dir=os.path.abspath(path),
        topics=topics,
        total_bytes=volume.total_bytes,
        usable_bytes=volume.usable_bytes,
    )


def _failed(path: str) -> Dir:
    return Dir(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(path), topics=[])
