"""Brokers and their disks: DescribeLogDirs, and AlterReplicaLogDirs, which moves replicas between them."""

import asyncio
import logging
import os.path
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.cluster import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replicas import Replicas
    from ottla.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

Dir = DescribeLogDirsResponse.Dir
Moved = AlterReplicaLogDirsResponse.Topic
UNKNOWN_LAG = -1


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
    found = [(each.path, _topics(broker.replicas, each, wanted)) for each in online]
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
    replicas: "Replicas", directory: "LogDirectory", wanted: frozenset[TopicPartition] | None
) -> list[Dir.Topic]:
    """The logs of a directory, and the copies that are to become logs there: these show how far they are behind."""
    topics: dict[str, Dir.Topic] = {}
    here = directory.logs.keys() | directory.futures.keys()
    for partition in sorted(here if wanted is None else wanted & here):
        topic = topics.setdefault(partition.topic, Dir.Topic(name=partition.topic, partitions=[]))
        is_future = partition in directory.futures
        log = directory.futures[partition] if is_future else directory.logs[partition]
        lag = _lag(replicas, partition, log.end_offset) if is_future else 0
        topic.partitions.append(
            Dir.Topic.Partition(
                partition_index=partition.partition,
                partition_size=log.segments.size,
                offset_lag=lag,
                is_future_key=is_future,
            )
        )
    return list(topics.values())


def _lag(replicas: "Replicas", partition: TopicPartition, end_offset: int) -> int:
    replica = replicas.partitions.get(partition)
    return UNKNOWN_LAG if replica is None else replica.log.end_offset - end_offset


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


async def alter_replica_log_dirs(
    broker: "Broker", call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin to move replicas to other directories of this broker. DescribeLogDirs tells how far they are."""
    may_alter = broker.authorizer.allows(call, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    topics: dict[str, Moved] = {}
    for directory in request.dirs:
        for asked in directory.topics:
            topic = topics.setdefault(asked.name, Moved(topic_name=asked.name, partitions=[]))
            for index in asked.partitions:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if may_alter:
                    code = await _move(broker, TopicPartition(asked.name, index), directory.path)
                topic.partitions.append(Moved.Partition(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


async def _move(broker: "Broker", partition: TopicPartition, path: str) -> ErrorCode:
    try:
        await broker.log_dir_moves.move(partition, path)
    except KafkaError as error:
        logger.warning("%s is not moved to %s: %s", partition, path, error.detail)
        return error.code
    return ErrorCode.NONE
