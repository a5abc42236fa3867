"""Moves of partitions that were ordered: begin them, cancel them, wait until they are over.

The controller moves; whoever waits here only looks, and may stop that at any time. How far it is, is told by the sizes
of the new replicas, as their brokers have them on disk, against those that lead.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.cluster_state import Move, Moves, Snapshot, by_topic, fault_of, moves, numbered, snapshot
from ottla.cli.remote import UNREACHABLE, Cluster, Failed, cluster, failed, pieces
from ottla.cli.tables import say
from ottla.cli.topic_progress import CompactionProgress
from ottla.cli.topic_runs import Progress
from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.network.peer import PeerClosed, RequestTimedOut
from ottla.protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between two looks: the first come soon, since many moves are short."""
NEWS_SECONDS = 1.0
"""For what the controller knows to reach all brokers; longer than it takes where all is well."""
Sizes = Mapping[tuple[TopicPartition, int], int]
"""Bytes of a partition on a broker."""
_Moved = AlterPartitionReassignmentsRequest.Topic


async def alter(
    asked: Cluster, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, str | None]:
    """Begin moves, or cancel them with None. Returns what the controller has against each."""

    def topic(name: str, some: list[TopicPartition]) -> _Moved:
        rows = [
            _Moved.Partition(partition_index=each.partition, replicas=_list(wanted[each])) for each in some
        ]
        return _Moved(name=name, partitions=rows)

    found: dict[TopicPartition, str | None] = {}
    for some in pieces(list(wanted)):
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=asked.timeout_ms, topics=by_topic(some, topic)
        )
        answer: AlterPartitionReassignmentsResponse = await asked.ask_controller(request)
        for each in answer.responses:
            for row in each.partitions:
                fault = fault_of(row.error_code, row.error_message)
                found[TopicPartition(each.name, row.partition_index)] = fault
    silent = "the controller said nothing of it"
    return {place: found.get(place, silent) for place in wanted}


def _list(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


# --- how far they are -------------------------------------------------------------------------------------------------


class Copied(NamedTuple):
    """Of the new replicas of a partition: how much there is, of how much."""

    done_bytes: int
    total_bytes: int


def copied(move: Move, leader: int, place: TopicPartition, sizes: Sizes) -> Copied:
    """A new replica may hold more than the leader, which deletes too: that is no more than all of it."""
    whole = sizes.get((place, leader), 0)
    return Copied(sum(min(whole, sizes.get((place, id), 0)) for id in move.adding), whole * len(move.adding))


async def sizes_of(asked: Cluster, places: Iterable[TopicPartition]) -> Sizes:
    """As far as brokers tell; those that do not count as empty."""
    wanted = by_topic(
        places,
        lambda name, some: DescribeLogDirsRequest.Topic(
            topic=name, partitions=[each.partition for each in some]
        ),
    )
    try:
        answers = await asked.everywhere(DescribeLogDirsRequest(topics=wanted))
    except (KafkaError, ProtocolError, Failed):
        return {}
    found: dict[tuple[TopicPartition, int], int] = {}
    for id, answer in answers.by_broker.items():
        told: DescribeLogDirsResponse = answer
        for directory in told.results:
            for topic in directory.topics:
                for row in topic.partitions:
                    place = TopicPartition(topic.name, row.partition_index)
                    found[place, id] = found.get((place, id), 0) + row.partition_size
    return found


def progress(going: Moves, seen: Snapshot, sizes: Sizes, total: int) -> Progress:
    """All of them together; each partition counts alike."""
    shares, done_bytes, total_bytes = float(total - len(going)), 0, 0
    for place, move in going.items():
        leader = seen.partitions[place].leader if place in seen.partitions else -1
        done, whole = copied(move, leader, place, sizes)
        shares += min(0.99, done / whole) if whole else 0.0
        done_bytes, total_bytes = done_bytes + done, total_bytes + whole
    phases = {"moving": len(going), "done": total - len(going)}
    return Progress("partitions", shares / total if total else 1.0, done_bytes, total_bytes, phases)


# --- waiting ----------------------------------------------------------------------------------------------------------


class Waiting:
    """Somebody who waits until these partitions do not move any more; None means all that move now."""

    def __init__(self, places: Iterable[TopicPartition] | None, timeout: float) -> None:
        self._places = None if places is None else set(places)
        self._timeout = timeout
        self._missed: set[int] = set()

    async def follow(
        self, addresses: Sequence[Address], then: Callable[[Cluster], Coroutine[Any, Any, int]]
    ) -> int:
        """Wait, and do `then` with the cluster. A broker that restarts is worth waiting for, up to the timeout."""
        loop, shown = asyncio.get_running_loop(), CompactionProgress()
        heard = loop.time()
        try:
            while True:
                try:
                    async with cluster(addresses, int(self._timeout * 1000)) as asked:
                        for look in itertools.count():
                            if await self._is_over(asked, shown):
                                break
                            heard = loop.time()
                            await asyncio.sleep(PAUSES[min(look, len(PAUSES) - 1)])
                        shown.close()
                        return await then(asked)
                except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError, Failed) as error:
                    if failed(error).exit_code != UNREACHABLE or loop.time() - heard > self._timeout:
                        raise
                await asyncio.sleep(PAUSES[-1])
        finally:
            shown.close()

    async def _is_over(self, asked: Cluster, shown: CompactionProgress) -> bool:
        all_moves = await moves(asked)
        if self._places is None:
            self._places = set(all_moves)
        going = {place: move for place, move in all_moves.items() if place in self._places}
        if going:
            seen, sizes = await snapshot(asked), await sizes_of(asked, going)
            shown.show([progress(going, seen, sizes, len(self._places))])
            self._say_who_is_missed(going, seen)
        return not going

    def _say_who_is_missed(self, going: Moves, seen: Snapshot) -> None:
        """A move that waits for somebody who is gone may wait forever: once is enough to say so."""
        missed = {id for move in going.values() for id in move.target} - seen.nodes.keys()
        if news := sorted(missed - self._missed):
            words = (
                "is not alive: moves wait for it" if len(news) == 1 else "are not alive: moves wait for them"
            )
            say(f"{numbered('broker', news)} {words}")
        self._missed = missed


async def settled(
    asked: Cluster, wanted: Mapping[TopicPartition, Sequence[int]], seconds: float = NEWS_SECONDS
) -> Snapshot:
    """The cluster, as soon as the broker that we ask knows of these replicas; or as it knows it after so long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        seen = await snapshot(asked)
        is_known = all(
            place in seen.partitions and seen.partitions[place].replicas == tuple(replicas)
            for place, replicas in wanted.items()
        )
        if is_known or loop.time() > deadline:
            return seen
        await asyncio.sleep(PAUSES[1])
