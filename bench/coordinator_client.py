"""Members of groups, and those who commit offsets: clients of group coordinators that cost next to nothing.

`python -m bench.coordinator_client ARGUMENTS` runs one measurement in a process of its own and prints what it saw; both
are JSON. Every member has its own connection. It joins, is told its id, joins again, syncs, and sends heartbeats; when
it is told of a rebalance it joins again. The leader gives everybody an assignment of the same size.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Generator
from itertools import cycle
from typing import Any

from bench.conversations import Conversations, Script, asking, percentile
from bench.processes import API_VERSIONS, cpu_seconds
from bench.raw_client import connect, drive_many
from bench.wire import call, exchange, frame_of
from ottla.protocol.framing import decode_response
from ottla.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse

FIND, JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = (10, 4), (11, 9), (14, 5), (12, 4), (13, 5), (8, 8)
COORDINATOR_LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 22, 27, 79
NOT_YET = (COORDINATOR_LOADING, NOT_AVAILABLE, NOT_COORDINATOR)
SUBSCRIPTION, ASSIGNMENT = bytes(120), bytes(60)  # brokers do not read them
SESSION_MS, REBALANCE_MS = 45_000, 300_000
PROBE_SECONDS = 0.005
_now = time.perf_counter


class Group:
    """What its members know together: how many have synced in the newest generation."""

    def __init__(self, group_id: str, wanted: int, beat_seconds: float) -> None:
        self.group_id, self.wanted, self.beat_seconds = group_id, wanted, beat_seconds
        self.members: set[str] = set()
        self.generation = -1
        self._synced: Counter[int] = Counter()
        self.times: list[float] | None = None
        """Of heartbeats; None while they are not to be timed."""

    def synced(self, generation: int) -> None:
        self._synced[generation] += 1
        self.generation = max(self.generation, generation)

    @property
    def is_complete(self) -> bool:
        return self._synced[self.generation] >= self.wanted


def member(group: Group) -> Script:
    """A member for as long as the loop runs."""
    member_id = ""
    while True:
        joined = yield from joining(group, member_id)
        member_id = joined.member_id
        if joined.error_code == MEMBER_ID_REQUIRED:
            continue
        assert joined.error_code == 0, f"JoinGroup: {joined.error_code}"
        group.members.add(member_id)
        synced = yield from syncing(group, joined)
        if synced.error_code in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            continue
        assert synced.error_code == 0, f"SyncGroup: {synced.error_code}"
        group.synced(joined.generation_id)
        yield from beating(group, member_id, joined.generation_id)


def joining(group: Group, member_id: str) -> Generator[bytes, bytes, Any]:
    request = JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=SUBSCRIPTION)],
    )
    return (yield from asking(JOIN, request, JoinGroupResponse))


def syncing(group: Group, joined: JoinGroupResponse) -> Generator[bytes, bytes, Any]:
    """The leader is the only one who was told of members."""
    request = SyncGroupRequest(
        group_id=group.group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name=joined.protocol_name,
        assignments=[
            SyncGroupRequest.Assignment(member_id=each.member_id, assignment=ASSIGNMENT)
            for each in joined.members
        ],
    )
    return (yield from asking(SYNC, request, SyncGroupResponse))


def beating(group: Group, member_id: str, generation: int) -> Script:
    """Heartbeats until a rebalance."""
    request = HeartbeatRequest(group_id=group.group_id, generation_id=generation, member_id=member_id)
    frame = frame_of(HEARTBEAT, request)
    due = _now() + random.random() * group.beat_seconds
    while True:
        yield due
        sent = _now()
        reply = yield frame
        code = int.from_bytes(reply[9:11], "big")  # behind correlation id, tags and throttle time
        if code == REBALANCE_IN_PROGRESS:
            return
        assert code == 0, f"Heartbeat: {code}"
        if group.times is not None:
            group.times.append(_now() - sent)
        due = sent + group.beat_seconds


def probing(times: list[float]) -> Script:
    """The smallest question there is, every now and then."""
    while True:
        sent = _now()
        yield API_VERSIONS
        times.append(_now() - sent)
        yield sent + PROBE_SECONDS


def leave(port: int, group: Group) -> None:
    """Everybody at once: members that time out later would weigh on the next turn."""
    members = [LeaveGroupRequest.Member(member_id=each) for each in group.members]
    left = call(port, LEAVE, LeaveGroupRequest(group_id=group.group_id, members=members), LeaveGroupResponse)
    assert left.error_code == 0, f"LeaveGroup: {left.error_code}"


def find_coordinator(port: int, keys: list[str], key_type: int = 0) -> None:
    """Return when there is one for each, and it has loaded what it knows."""
    deadline = time.monotonic() + 60
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    while True:
        found = call(port, FIND, request, FindCoordinatorResponse).coordinators
        if not any(each.error_code for each in found):
            return
        assert time.monotonic() < deadline, found[0]
        time.sleep(0.02)


def ready(port: int, group_ids: list[str]) -> None:
    """Apache Kafka names a coordinator before it is one: ask it for something that does no harm."""
    find_coordinator(port, group_ids)
    deadline = time.monotonic() + 60
    for group_id in group_ids:
        request = LeaveGroupRequest(group_id=group_id, members=[LeaveGroupRequest.Member(member_id="nobody")])
        while call(port, LEAVE, request, LeaveGroupResponse).error_code in NOT_YET:
            assert time.monotonic() < deadline, group_id
            time.sleep(0.02)


def rebalance(arguments: dict) -> dict:
    """From the first join until everybody has synced; then one more comes, and all of them join again.

    A crowd connects and joins as fast as it can, as after a restart, and its first connection counts as the beginning.
    """
    port, pid = arguments["port"], arguments["pid"]
    group = Group(arguments["group"], arguments["members"], arguments["beat_seconds"])
    ready(port, [group.group_id])
    talk = Conversations(port)
    cpu, started = cpu_seconds(pid), _now()
    for _ in range(group.wanted):
        talk.add(member(group), is_crowd=arguments["is_crowd"])
    if not arguments["is_crowd"]:
        cpu, started = cpu_seconds(pid), _now()
    talk.run(lambda: group.is_complete, seconds_max=120)
    seen = {
        "form_seconds": _now() - started,
        "form_cpu": cpu_seconds(pid) - cpu,
        "generations": group.generation,
    }
    talk.run_for(1)
    group.wanted += 1
    talk.add(member(group))
    cpu, own, started = cpu_seconds(pid), time.process_time(), _now()
    talk.run(lambda: group.is_complete, seconds_max=120)
    seen["again_seconds"] = _now() - started
    seen["again_cpu"] = cpu_seconds(pid) - cpu
    seen["client_cpu"] = time.process_time() - own
    leave(port, group)
    talk.close()
    return seen


def heartbeats(arguments: dict) -> dict:
    """Small groups that are stable; and ApiVersions, of the idle broker before and between the heartbeats then."""
    port, pid = arguments["port"], arguments["pid"]
    idle: list[float] = []
    talk = Conversations(port)
    talk.add(probing(idle))
    talk.run_for(arguments["seconds"])
    talk.close()
    names = [f"{arguments['group']}-{number}" for number in range(arguments["groups"])]
    ready(port, names)
    groups = [Group(name, arguments["members"], arguments["beat_seconds"]) for name in names]
    talk = Conversations(port)
    for group in groups:
        for _ in range(group.wanted):
            talk.add(member(group))
    talk.run(lambda: all(group.is_complete for group in groups), seconds_max=120)
    times: list[float] = []
    busy: list[float] = []
    talk.add(probing(busy))
    for group in groups:
        group.times = times
    cpu, own, started = cpu_seconds(pid), time.process_time(), _now()
    talk.run_for(arguments["seconds"])
    spent, cpu, own = _now() - started, cpu_seconds(pid) - cpu, time.process_time() - own
    for group in groups:
        leave(port, group)
    talk.close()
    return {
        "per_second": len(times) / spent,
        "p50_ms": percentile(times, 0.5),
        "p99_ms": percentile(times, 0.99),
        "idle_p50_ms": percentile(idle, 0.5),
        "idle_p99_ms": percentile(idle, 0.99),
        "busy_p99_ms": percentile(busy, 0.99),
        "cpu_us": cpu / (len(times) + len(busy)) * 1e6,
        "client_cpu_us": own / (len(times) + len(busy)) * 1e6,
    }


def commit_frame(group_id: str, topic: str, partitions: range, offset: int) -> bytes:
    """A commit from outside the group, as of a consumer that was assigned its partitions by hand."""
    rows = [
        OffsetCommitRequest.Topic.Partition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        for index in partitions
    ]
    return frame_of(
        COMMIT,
        OffsetCommitRequest(
            group_id=group_id, topics=[OffsetCommitRequest.Topic(name=topic, partitions=rows)]
        ),
    )


def check_commit(reply: bytes | bytearray) -> None:
    response = decode_response(OffsetCommitResponse, bytes(reply), COMMIT[1])[1]
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    assert codes == {0}, f"OffsetCommit: {codes}"


def commits(arguments: dict) -> dict:
    """One partition each time, of a group for every connection; a hundred offsets in turn."""
    port, pid, topic = arguments["port"], arguments["pid"], arguments["topic"]
    names = [f"{arguments['group']}-{number}" for number in range(arguments["connections"])]
    ready(port, names)
    frames = [
        cycle([commit_frame(name, topic, range(1), offset) for offset in range(1000, 1100)]) for name in names
    ]
    connections = connect(port, len(names))
    sizes = set()
    for connection, source in zip(connections, frames, strict=True):
        for _ in range(20):
            reply = exchange(connection, next(source))
            check_commit(reply)
            sizes.add(4 + len(reply))
    assert len(sizes) == 1, f"replies differ in size, they cannot be counted: {sizes}"
    cpu, own, started = cpu_seconds(pid), time.process_time(), _now()
    seen = drive_many(connections, frames, sizes.pop(), arguments)
    seconds, cpu, own = _now() - started, cpu_seconds(pid) - cpu, time.process_time() - own
    return {
        "per_second": seen["requests"] / seconds,
        "cpu_us": cpu / seen["requests"] * 1e6,
        "client_cpu_us": own / seen["requests"] * 1e6,
    }


WORK = {"rebalance": rebalance, "heartbeats": heartbeats, "commits": commits}

if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    print(json.dumps(WORK[wanted["what"]](wanted)))
