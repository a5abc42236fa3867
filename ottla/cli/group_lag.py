"""How far a group is behind in each partition: what it has committed against what there is to read.

In offsets: up to the high watermark for a reader of everything, up to the last stable offset for one of committed
records only. In seconds: the age of the record at the committed offset, which is the next that the group will read.
These are the numbers of the broker's metrics, asked for from outside; `ottla/broker/lag.py` says the same.

A record's time costs a fetch of the one batch that holds it. As long as a group stands still that is the same record,
so a `LagMeter` that is asked again does not fetch it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.group_members import Described, Member, describe
from ottla.cli.remote import Cluster, Failed, check, each_of, pieces
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.types import Buffer
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.records import frames
from ottla.records.errors import RecordError

OFFSET_FETCH = 9
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
BATCHES_AT_A_TIME = 8
"""Fetched batches that may be in memory at once: each as large as the topic allows."""
_NAMES_UNTIL = {"fetch": 12, "offset fetch": 9}  # later versions speak of topics by their ids
_MANY_GROUPS_SINCE = 8


class Ends(NamedTuple):
    """How far a partition reaches."""

    log_start: int
    last_stable: int
    high_watermark: int


class PartitionLag(NamedTuple):
    """One partition of a group. None where something is not known: no offset is committed, or nobody leads."""

    place: TopicPartition
    committed: int | None
    ends: Ends | None
    timestamp: int | None
    """When the next record was written, in milliseconds; None if there is none, or it could not be read."""
    now_ms: int
    owner: Member | None
    error: str | None = None

    @property
    def lag(self) -> int | None:
        return self._up_to(self.ends.high_watermark) if self.ends else None

    @property
    def stable_lag(self) -> int | None:
        return self._up_to(self.ends.last_stable) if self.ends else None

    def _up_to(self, end: int) -> int | None:
        return None if self.committed is None else max(0, end - self.committed)

    @property
    def seconds(self) -> float | None:
        """0 where there is nothing to read."""
        if not self.lag:
            return None if self.lag is None else 0.0
        return None if self.timestamp is None else max(0, self.now_ms - self.timestamp) / 1000

    @property
    def stable_seconds(self) -> float | None:
        return 0.0 if self.stable_lag == 0 else self.seconds

    def row(self) -> dict[str, Any]:
        """For every kind of output."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "committed_offset": self.committed,
            "log_end_offset": self.ends and self.ends.high_watermark,
            "last_stable_offset": self.ends and self.ends.last_stable,
            "lag": self.lag,
            "lag_read_committed": self.stable_lag,
            "lag_seconds": self.seconds,
            "lag_seconds_read_committed": self.stable_seconds,
            "member_id": self.owner and self.owner.member_id,
            "client_id": self.owner and self.owner.client_id,
            "host": self.owner and self.owner.host,
            "error": self.error,
        }


class GroupLag(NamedTuple):
    """A group and its partitions, in order."""

    described: Described
    partitions: tuple[PartitionLag, ...]

    def total(self) -> dict[str, Any]:
        """Offsets of the partitions whose lag is known, added up; seconds of the one that is furthest behind."""
        return {
            "partitions": len(self.partitions),
            "partitions_unknown": sum(each.lag is None for each in self.partitions),
            "lag": _sum(each.lag for each in self.partitions),
            "lag_read_committed": _sum(each.stable_lag for each in self.partitions),
            "lag_seconds": _largest(each.seconds for each in self.partitions),
            "lag_seconds_read_committed": _largest(each.stable_seconds for each in self.partitions),
        }


def _sum(offsets: Iterable[int | None]) -> int | None:
    known = [each for each in offsets if each is not None]
    return sum(known) if known else None


def _largest(seconds: Iterable[float | None]) -> float | None:
    return max((each for each in seconds if each is not None), default=None)


class LagMeter:
    """Measures groups of one cluster, as often as it is asked to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._times: dict[tuple[TopicPartition, int], int | None] = {}

    async def measure(self, groups: Sequence[str], now_ms: int) -> dict[str, GroupLag | Failed]:
        """Each group by its id. Offsets first, ends afterwards: a group that keeps up is never ahead of its log."""
        described = await describe(self._cluster, groups)
        known = [each for each in described.values() if isinstance(each, Described)]
        committed = await self._committed(known)
        places = {
            place for offsets in committed.values() if not isinstance(offsets, Failed) for place in offsets
        }
        places |= {place for each in known for place in each.owners}
        ends = await self._ends(places)
        times = await self._timestamps(committed.values(), ends)
        measured: dict[str, GroupLag | Failed] = {}
        for name, group in described.items():
            if isinstance(group, Failed):
                measured[name] = group
            elif isinstance(offsets := committed[name], Failed):
                measured[name] = offsets
            else:
                measured[name] = _put_together(group, offsets, ends, times, now_ms)
        return measured

    # --- what the group has committed -----------------------------------------------------------------------------

    async def _committed(self, groups: Iterable[Described]) -> dict[str, dict[TopicPartition, int] | Failed]:
        """By group. One request for each: an answer for many groups would have no bound."""
        coordinators = {each.group: each.coordinator for each in groups}

        async def one(group: str) -> dict[TopicPartition, int]:
            async def once() -> dict[TopicPartition, int]:
                node_id = coordinators[group]
                peer = await self._cluster.broker(node_id)
                many = peer.versions is None or peer.versions[OFFSET_FETCH].last >= _MANY_GROUPS_SINCE
                request = (
                    OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group, topics=None)])
                    if many
                    else OffsetFetchRequest(group_id=group, topics=None)
                )
                answer: OffsetFetchResponse = await self._cluster.ask(
                    node_id, request, _NAMES_UNTIL["offset fetch"]
                )
                found = answer.groups[0] if many and answer.groups else answer
                check(found.error_code, f"the offsets of group {group!r}")
                return {
                    TopicPartition(topic.name, row.partition_index): row.committed_offset
                    for topic in found.topics
                    for row in topic.partitions
                    if row.committed_offset >= 0
                }

            return await self._cluster.patiently(once)

        return await each_of(coordinators, one)

    # --- how far the logs reach -------------------------------------------------------------------------------------

    async def _ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Ends | Failed]:
        leaders = await self._cluster.leaders(places)
        gone = Failed("nobody leads it, or it does not exist any more")
        found: dict[TopicPartition, Ends | Failed] = dict.fromkeys(leaders.pop(-1, ()), gone)
        tasks = [(leader, tuple(some)) for leader, led in leaders.items() for some in pieces(led)]
        for (_, some), outcome in (await each_of(tasks, lambda task: self._ends_at(*task))).items():
            found |= dict.fromkeys(some, outcome) if isinstance(outcome, Failed) else outcome
        return found

    async def _ends_at(
        self, leader: int, places: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Ends | Failed]:
        """The high watermark last: it is never below a last stable offset of before."""
        starts = await self._offsets(leader, places, EARLIEST, READ_UNCOMMITTED)
        stable = await self._offsets(leader, places, LATEST, READ_COMMITTED)
        latest = await self._offsets(leader, places, LATEST, READ_UNCOMMITTED)
        found: dict[TopicPartition, Ends | Failed] = {}
        for place in places:
            ends = [
                each.get(place, Failed("the leader said nothing of it")) for each in (starts, stable, latest)
            ]
            wrong = next((each for each in ends if isinstance(each, Failed)), None)
            found[place] = wrong or Ends(*(each for each in ends if isinstance(each, int)))
        return found

    async def _offsets(
        self, leader: int, places: Sequence[TopicPartition], timestamp: int, isolation_level: int
    ) -> dict[TopicPartition, int | Failed]:
        wanted = ListOffsetsRequest.Topic
        topics = [
            wanted(
                name=topic,
                partitions=[wanted.Partition(partition_index=i, timestamp=timestamp) for i in indexes],
            )
            for topic, indexes in _by_topic(places).items()
        ]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        answer: ListOffsetsResponse = await self._cluster.ask(leader, request)
        return {
            TopicPartition(topic.name, row.partition_index): Failed(KafkaError.of(row.error_code).code.name)
            if row.error_code
            else row.offset
            for topic in answer.topics
            for row in topic.partitions
        }

    # --- when the next record was written ---------------------------------------------------------------------------

    async def _timestamps(
        self,
        committed: Iterable[Mapping[TopicPartition, int] | Failed],
        ends: Mapping[TopicPartition, Ends | Failed],
    ) -> Mapping[tuple[TopicPartition, int], int | None]:
        """Of the records at the committed offsets, where there are any: by partition and offset."""
        wanted = {}
        for offsets in committed:
            for place, offset in () if isinstance(offsets, Failed) else offsets.items():
                end = ends[place]
                if isinstance(end, Ends) and offset < end.high_watermark:
                    wanted[place, offset] = max(offset, end.log_start)
        known = {key: self._times[key] for key in wanted if self._times.get(key) is not None}
        unknown = [key for key in wanted if key not in known]
        leaders = await self._cluster.leaders(place for place, _ in unknown)
        leader_of = {place: leader for leader, led in leaders.items() for place in led}

        async def one(key: tuple[TopicPartition, int]) -> int | None:
            return await self._timestamp(leader_of[key[0]], key[0], wanted[key])

        fetched = await each_of(unknown, one, BATCHES_AT_A_TIME)
        self._times = known | {
            key: None if isinstance(time, Failed) else time for key, time in fetched.items()
        }
        return self._times

    async def _timestamp(self, leader: int, place: TopicPartition, offset: int) -> int | None:
        """One byte is asked for, and one batch is what comes: a fetch may not come back with less."""
        part = FetchRequest.Topic.Partition(
            partition=place.partition, fetch_offset=offset, partition_max_bytes=1
        )
        topic = FetchRequest.Topic(topic=place.topic, partitions=[part])
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, topics=[topic])
        answer: FetchResponse = await self._cluster.ask(leader, request, _NAMES_UNTIL["fetch"])
        rows = [row for each in answer.responses for row in each.partitions]
        if not rows or rows[0].error_code or not rows[0].records:
            return None
        return first_timestamp(rows[0].records, offset)


def first_timestamp(data: Buffer, offset: int) -> int | None:
    """The time of the first record at `offset` or behind it; None if these bytes do not tell."""
    try:
        for frame in frames.iter_frames(data, partial=True):
            for record in frames.records_of(data, frame):
                if record.offset >= offset:
                    return record.timestamp
    except (RecordError, ValueError):  # damaged, or in a codec that is not there
        return None
    return None


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found


def _put_together(
    group: Described,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, Ends | Failed],
    times: Mapping[tuple[TopicPartition, int], int | None],
    now_ms: int,
) -> GroupLag:
    owners = group.owners
    found = []
    for place in sorted(committed.keys() | owners.keys()):
        end, offset = ends[place], committed.get(place)
        error = end.message if isinstance(end, Failed) else None
        time = None if offset is None else times.get((place, offset))
        found.append(
            PartitionLag(
                place, offset, end if isinstance(end, Ends) else None, time, now_ms, owners.get(place), error
            )
        )
    return GroupLag(group, tuple(found))
