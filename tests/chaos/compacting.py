"""Requests about compaction, and what it leaves in the directories of partitions."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.network.peer import Peer, connect
from ottla.protocol.messages.compaction import CompactTopicsRequest, CompactTopicsResponse
from ottla.protocol.messages.topics import CreateTopicsRequest

SECONDS_MAX = 30.0
Status = CompactTopicsResponse.Topic.Partition


async def create_topic(port: int, name: str, partitions: int, settings: Mapping[str, object]) -> None:
    Topic = CreateTopicsRequest.Topic
    topic = Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[Topic.Setting(name=key, value=str(value)) for key, value in settings.items()],
    )
    async with await connect("127.0.0.1", port) as peer:
        answer = await peer.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert answer.topics[0].error_code == 0, answer


async def ask(peer: Peer, topic: str, partitions: int, *, start: bool) -> list[Status]:
    """How it stands with the partitions; with `start` they are to be compacted now."""
    topics = [CompactTopicsRequest.Topic(name=topic, partitions=list(range(partitions)))]
    answer = await peer.send(CompactTopicsRequest(topics=topics, start=start), 0)
    found: list[Status] = answer.topics[0].partitions
    return found


async def compact(port: int, topic: str, partitions: int) -> list[Status]:
    """Compact all partitions, and return when that is done: `end_offset` was the end of the log when it was asked."""
    deadline = time.monotonic() + SECONDS_MAX
    async with await connect("127.0.0.1", port) as peer:
        asked = await ask(peer, topic, partitions, start=True)
        ends = {each.partition_index: each.end_offset for each in asked}
        while True:
            states = await ask(peer, topic, partitions, start=False)
            assert all(each.error_code == 0 and each.last_error is None for each in states), states
            if all(each.first_dirty_offset >= ends[each.partition_index] for each in states):
                return states
            assert time.monotonic() < deadline, states
            await asyncio.sleep(0.01)


def files_in(data: Path, topic: str, *suffixes: str) -> list[Path]:
    """In the directories of a topic's partitions."""
    places = [place for place in data.iterdir() if place.name.rpartition("-")[0] == topic]
    return [place / name for place in places for name in sorted(os.listdir(place)) if name.endswith(suffixes)]


def verify(data: Path) -> str:
    """What `ottla log verify` finds."""
    command = [sys.executable, "-m", "ottla.cli.main", "log", "verify", "--quiet", str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr
