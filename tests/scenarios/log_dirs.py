"""Asking a broker to move replicas between its directories, and where they are: over frames, as Kafka's tools do."""

import asyncio
import time
from pathlib import Path

from ottla.core.ids import PartitionDirectory
from ottla.network.peer import connect
from ottla.protocol.messages.cluster import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

SECONDS_MAX = 60
_Dir = AlterReplicaLogDirsRequest.Dir


def send(port, request, version=None):
    async def over_a_connection():
        async with await connect("127.0.0.1", port) as peer:
            return await peer.send(request, version)

    return asyncio.run(over_a_connection())


def move_request(topic, partition, path):
    return AlterReplicaLogDirsRequest(
        dirs=[_Dir(path=str(path), topics=[_Dir.Topic(name=topic, partitions=[partition])])]
    )


def move(port, topic, partition, path, version=None):
    """The code of the answer."""
    (result,) = send(port, move_request(topic, partition, path), version).results
    (answer,) = result.partitions
    assert (result.topic_name, answer.partition_index) == (topic, partition)
    return answer.error_code


def replicas(port, version=None):
    """(topic, partition) -> [(path, is future, lag)], the future one last."""
    found = {}
    for directory in send(port, DescribeLogDirsRequest(topics=None), version).results:
        for topic in directory.topics:
            for each in topic.partitions:
                place = (directory.log_dir, each.is_future_key, each.offset_lag)
                found.setdefault((topic.name, each.partition_index), []).append(place)
    return {where: sorted(places, key=lambda place: place[1]) for where, places in found.items()}


def wait_until_in(port, topic, partition, path):
    """Return when it lies there and nowhere else."""
    deadline = time.monotonic() + SECONDS_MAX
    while (where := replicas(port)[topic, partition]) != [(str(path), False, 0)]:
        assert time.monotonic() < deadline, where


def content(path, topic, partition):
    """The bytes of all its segments, one behind the other."""
    directory = Path(path, f"{topic}-{partition}")
    return b"".join(file.read_bytes() for file in sorted(directory.glob("*.log")))


def names(path, state):
    """The directories in a log directory that are in this state."""
    found = (PartitionDirectory.parse(each.name) for each in Path(path).iterdir() if each.is_dir())
    return sorted(str(each) for each in found if each is not None and each.state == state)
