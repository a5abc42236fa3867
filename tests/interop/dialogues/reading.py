"""What consumers ask for: records, sessions of asking for them, offsets, epochs, and the deletion of records."""

from collections.abc import Mapping
from typing import Any

from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from ottla.records.builder import build
from ottla.records.compression import Codec
from tests.interop.dialogues.talk import NO_TOPIC, Talk
from tests.interop.dialogues.writing import LONG_AGO, records, to

_SESSIONS_SINCE = 7


def of(
    talk: Talk,
    *wanted: tuple[str, int, int],
    session: tuple[int, int] = (0, -1),
    forget: Mapping[str, list[int]] | None = None,
    part: Mapping[str, int] | None = None,
    **more: Any,
) -> FetchRequest:
    """`wanted` are topics, partitions and offsets; `session` is an id and an epoch."""
    topic = FetchRequest.Topic
    parts = {"partition_max_bytes": 1_000_000, **(part or {})}
    topics = [
        topic(
            topic=name,
            topic_id=talk.ids.get(name, NO_TOPIC),
            partitions=[
                topic.Partition(partition=index, fetch_offset=offset, **parts)
                for each, index, offset in wanted
                if each == name
            ],
        )
        for name in dict.fromkeys(name for name, _, _ in wanted)
    ]
    forgotten = [
        FetchRequest.ForgottenTopic(topic=name, topic_id=talk.ids.get(name, NO_TOPIC), partitions=indexes)
        for name, indexes in (forget or {}).items()
    ]
    return FetchRequest(
        **{"max_wait_ms": 20, "min_bytes": 1, "max_bytes": 10_000_000, **more},
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=forgotten,
    )


async def _written(talk: Talk, topic: str, *batches: bytes, partition: int = 0) -> None:
    for data in batches:
        answer = await talk.peer.send(to(talk, topic, data, partition=partition))
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


async def _ask(talk: Talk, label: str, request: FetchRequest, since: int = 0) -> None:
    """Apart from each other: old versions, for which records are converted, and others."""
    await talk.ask(f"old {label}", request, since, until=3)
    await talk.ask(label, request, since=4)


async def fetch(talk: Talk) -> None:
    await talk.create("read")
    await talk.create("other", 2)
    await talk.create("packed")
    await _written(talk, "read", *[build(records(3))] * 3)
    await _written(talk, "other", build(records(3)))
    await _written(talk, "packed", *[build(records(30), codec=codec) for codec in (Codec.GZIP, Codec.LZ4)])
    for offset in (0, 4, 8, 9, 10, -1, 1 << 62):
        await _ask(talk, f"at {offset}", of(talk, ("read", 0, offset)))
    for size in (0, 1, 150, 200, -1):
        request = of(talk, ("read", 0, 0), part={"partition_max_bytes": size})
        await _ask(talk, f"{size} bytes of a partition", request)
    both = ("read", 0, 0), ("other", 0, 0)
    for size in (0, 1, 100, 150, 400):
        await _ask(talk, f"{size} bytes of all", of(talk, *both, max_bytes=size), since=3)
    await _ask(talk, "without a minimum", of(talk, ("read", 0, 9), min_bytes=0, max_wait_ms=5000))
    await _ask(talk, "without patience", of(talk, ("read", 0, 9), max_wait_ms=0))
    await _ask(talk, "unknown", of(talk, ("nobody-home", 0, 0)))
    await _ask(talk, "bad name", of(talk, ("a/b", 0, 0)))
    await _ask(talk, "one unknown", of(talk, ("nobody-home", 0, 0), ("read", 0, 6)))
    await _ask(talk, "no such partition", of(talk, ("read", 9, 0)))
    await _ask(talk, "negative partition", of(talk, ("read", -1, 0)))
    await _ask(talk, "one out of range", of(talk, ("read", 0, 77), ("other", 0, 0)))
    await _ask(talk, "nothing", of(talk, min_bytes=0))
    await talk.ask("committed", of(talk, ("read", 0, 6), isolation_level=1), since=4)
    for epoch in (0, 7):
        request = of(talk, ("read", 0, 6), part={"current_leader_epoch": epoch})
        await talk.ask(f"current epoch {epoch}", request, since=9)
        request = of(talk, ("read", 0, 6), part={"last_fetched_epoch": epoch})
        await talk.ask(f"last epoch {epoch}", request, since=12)
    await talk.ask("by a rack", of(talk, ("read", 0, 6), rack_id="r1"), since=11)
    await talk.ask("packed", of(talk, ("packed", 0, 0)), since=4)
    await talk.ask("within packed", of(talk, ("packed", 0, 40)), since=4)


async def sessions(talk: Talk) -> None:
    """Partitions are named once, moved, forgotten, and the session is closed."""
    for version in range(_SESSIONS_SINCE, 19):
        topic = f"kept-{version}"
        if not talk.speaks(FetchRequest, version):
            continue
        await talk.create(topic, 4)

        async def ask(label: str, *wanted: tuple[str, int, int], at: int = version, **more: Any) -> Any:
            return await talk.ask(f"v{at} {label}", of(talk, *wanted, **more), at, at)

        first = await ask("new", (topic, 0, 0), (topic, 1, 0), session=(0, 0))
        id = first.session_id
        await ask("nothing new", session=(id, 1))
        await _written(talk, topic, build(records()), partition=1)
        await ask("new records", session=(id, 2))
        await ask("moved", (topic, 1, 2), session=(id, 3))
        await ask("wrong epoch", session=(id, 9))
        await ask("epoch again", session=(id, 3))
        await ask("goes on", session=(id, 4))
        await ask("less", session=(id, 5), forget={topic: [1]})
        await ask("less of what is not there", session=(id, 6), forget={topic: [3]})
        await ask("less of nobody", session=(id, 7), forget={"nobody-home": [0]})
        await ask("too far", (topic, 2, 50), session=(id, 8))
        await ask("still too far", session=(id, 9))
        await ask("unknown", ("nobody-home", 0, 0), session=(id, 10))
        await ask("still unknown", session=(id, 11))
        await ask("no such partition", (topic, 9, 0), session=(id, 12))
        await ask("named and forgotten", (topic, 0, 0), session=(id, 13), forget={topic: [0]})
        await ask("close", (topic, 1, 2), session=(id, -1))
        await ask("closed", session=(id, 14))
        await ask("never was", session=(12345, 1))
        await ask("never was, close", (topic, 1, 2), session=(12345, -1))
        await ask("new with an id", (topic, 1, 2), session=(12345, 0))
        await ask("no id", (topic, 1, 2), session=(0, 5))


async def shared(talk: Talk) -> None:
    """More partitions than there is room for in an answer: in a session they take turns."""
    await talk.create("shared", 6)
    all_of_it = [("shared", index, 0) for index in range(6)]
    for index in range(6):
        await _written(talk, "shared", build(records(3)), partition=index)
    for size in (50, 150, 250, 400):
        await talk.ask(f"{size} bytes of many", of(talk, *all_of_it, max_bytes=size), since=4)
    for version in (7, 12, 13, 17):
        if talk.speaks(FetchRequest, version):
            request = of(talk, *all_of_it, session=(0, 0), max_bytes=150)
            id = (await talk.ask(f"turn 0 in v{version}", request, version, version)).session_id
            for turn in range(1, 8):
                request = of(talk, session=(id, turn), max_bytes=150)
                await talk.ask(f"turn {turn} in v{version}", request, version, version)


def _list(topic: str, *times: int, partition: int = 0, **more: Any) -> ListOffsetsRequest:
    part = ListOffsetsRequest.Topic.Partition
    parts = [part(partition_index=partition, timestamp=time, max_num_offsets=1) for time in times]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=parts)], **more
    )


async def offsets(talk: Talk) -> None:
    """ListOffsets."""
    await talk.create("timed")
    await talk.create("empty")
    await _written(talk, "timed", *[build(records(3))] * 3)
    for topic in ("timed", "empty", "nobody-home", "a/b"):
        for time in (-1, -2, LONG_AGO - 1, LONG_AGO, LONG_AGO + 2, LONG_AGO + 3, 0, 1 << 62):
            await talk.ask(f"{topic} {time}", _list(topic, time), since=1)
        for time in (-1, -2, 1 << 62):
            await talk.ask(f"{topic} {time} of segments", _list(topic, time), until=0)
        await talk.ask(f"old {topic}", _list(topic, LONG_AGO + 2), until=0)
    for time, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12), (-9, 12), (-(1 << 63), 12)):
        for topic in ("timed", "empty"):
            await talk.ask(f"{topic} {time}", _list(topic, time), since)
        await talk.ask(f"too early for {time}", _list("timed", time), since=1, until=since - 1)
    await talk.ask("no such partition", _list("timed", -1, partition=7))
    await talk.ask("negative partition", _list("timed", -1, partition=-1))
    for time in (-1, -2, LONG_AGO):
        await talk.ask(f"committed {time}", _list("timed", time, isolation_level=1), since=2)
    for epoch in (0, 3):
        part = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        topics = [ListOffsetsRequest.Topic(name="timed", partitions=[part])]
        await talk.ask(f"epoch {epoch}", ListOffsetsRequest(replica_id=-1, topics=topics), since=4)
    await talk.ask("nothing", ListOffsetsRequest(replica_id=-1, topics=[]))
    for replica in (-2, 5):
        request = ListOffsetsRequest(replica_id=replica, topics=_list("timed", -1).topics)
        await talk.ask(f"replica {replica}", request)
    for count in (0, 2, 9):
        part = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1, max_num_offsets=count)
        topics = [ListOffsetsRequest.Topic(name="timed", partitions=[part])]
        await talk.ask(f"{count} offsets", ListOffsetsRequest(replica_id=-1, topics=topics), until=0)


async def epochs(talk: Talk) -> None:
    """OffsetForLeaderEpoch."""
    await talk.create("aged")
    await talk.create("young")
    await _written(talk, "aged", build(records(3)))
    ask = OffsetForLeaderEpochRequest
    cases = [("aged", 0, current, epoch) for current in (-1, 0, 3) for epoch in (0, 5, -1)]
    cases += [("young", 0, -1, 0), ("young", 0, -1, -1), ("aged", 4, -1, 0), ("nobody-home", 0, -1, 0)]
    for topic, partition, current, epoch in cases:
        part = ask.Topic.Partition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        request = ask(replica_id=-1, topics=[ask.Topic(topic=topic, partitions=[part])])
        await talk.ask(f"{topic} {partition} {current} {epoch}", request)


async def delete(talk: Talk) -> None:
    """DeleteRecords, and what is left."""
    await talk.create("shortened", 2)
    await talk.create("kept", configs={"cleanup.policy": "compact"})
    await _written(talk, "shortened", *[build(records(3))] * 3)
    await _written(talk, "kept", build(records(3)))
    ask = DeleteRecordsRequest
    cases = [("shortened", 0, before) for before in (4, 2, 99, -2, 0, -1)]
    cases += [("shortened", 1, -1), ("shortened", 7, 1), ("nobody-home", 0, 1), ("a/b", 0, 1), ("kept", 0, 2)]
    for topic, partition, before in cases:
        part = ask.Topic.Partition(partition_index=partition, offset=before)
        request = ask(topics=[ask.Topic(name=topic, partitions=[part])], timeout_ms=3000)
        await talk.ask(f"{topic} {partition} {before}", request)
        if topic == "shortened":
            await talk.ask(f"after {partition} {before}", of(talk, (topic, 0, 4)), since=4)
            await talk.ask(f"after {partition} {before}", _list(topic, -2), since=1)
    part = ask.Topic.Partition(partition_index=1, offset=0)
    await talk.ask("twice", ask(topics=[ask.Topic(name="shortened", partitions=[part] * 2)], timeout_ms=3000))
    await talk.ask("nothing", ask(topics=[], timeout_ms=3000))


ALL = (fetch, sessions, shared, offsets, epochs, delete)
