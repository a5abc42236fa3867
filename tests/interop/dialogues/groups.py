"""Groups: who coordinates them, their members, and their committed offsets."""

import itertools
from collections.abc import Sequence
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from tests.interop.dialogues.talk import NO_TOPIC, Talk

_NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


async def ready(talk: Talk, group_id: str) -> None:
    """Return when the group's coordinator answers."""
    find = FindCoordinatorRequest(coordinator_keys=[group_id])
    await talk.until(lambda found: found.coordinators[0].error_code == 0, find)
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group_id, topics=None)])
    await talk.until(lambda found: found.groups[0].error_code not in _NOT_YET, wanted)


def _join(group_id: str, member_id: str = "", **how: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"mine")]
    asked = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
    return JoinGroupRequest(
        **{"group_id": group_id, "member_id": member_id, **asked, "protocols": protocols, **how}
    )


async def only_member(talk: Talk, group_id: str, **how: Any) -> str:
    """The only member of a stable group."""
    await ready(talk, group_id)
    refused = await talk.peer.send(_join(group_id, **how), 5)
    joined = await talk.peer.send(_join(group_id, refused.member_id, **how), 5)
    assert joined.error_code == 0, joined
    assignments = [SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"all")]
    synced = await talk.peer.send(
        SyncGroupRequest(
            group_id=group_id, generation_id=1, member_id=joined.member_id, assignments=assignments
        ),
        3,
    )
    assert synced.error_code == 0, synced
    return str(joined.member_id)


async def find(talk: Talk) -> None:
    """FindCoordinator of groups and transactional ids."""
    for kind in (0, 1):
        await talk.until(
            lambda found: all(each.error_code == 0 for each in found.coordinators),
            FindCoordinatorRequest(key_type=kind, coordinator_keys=["k", ""]),
        )
        await talk.ask(f"{kind}", FindCoordinatorRequest(key="k", key_type=kind), since=1, until=3)
        await talk.ask(f"{kind}", FindCoordinatorRequest(key_type=kind, coordinator_keys=["k", ""]), since=4)
        await talk.ask(
            f"{kind} twice", FindCoordinatorRequest(key_type=kind, coordinator_keys=["k", "k"]), since=4
        )
        await talk.ask(f"{kind} empty", FindCoordinatorRequest(key="", key_type=kind), since=1, until=3)


async def members(talk: Talk) -> None:
    """One member of each version joins, syncs, beats and leaves."""
    ids = dict.fromkeys(range(10), "")
    for version in range(10):
        await ready(talk, f"v{version}")
    for version in range(10):
        joined = await talk.ask(f"{version}", _join(f"v{version}"), since=version, until=version)
        if joined is None:
            continue  # nobody speaks this version
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request = _join(f"v{version}", joined.member_id)
            joined = await talk.ask(f"{version} again", request, since=version, until=version)
        ids[version] = joined.member_id

    def sync(version: int) -> SyncGroupRequest:
        assignments = [SyncGroupRequest.Assignment(member_id=ids[version], assignment=b"all")]
        return SyncGroupRequest(
            group_id=f"v{version}",
            generation_id=1,
            member_id=ids[version],
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    def beat(version: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=f"v{version}", generation_id=1, member_id=ids[version])

    def leave(version: int) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=f"v{version}", member_id=ids[version])
        member = LeaveGroupRequest.Member(member_id=ids[version])
        return LeaveGroupRequest(group_id=f"v{version}", members=[member])

    await talk.ask("early", beat)
    await talk.ask("usual", sync)
    await talk.ask("again", sync)
    await talk.ask("usual", beat)
    await talk.ask("usual", leave)
    await talk.ask("again", leave)
    await talk.ask("late", beat)
    await talk.ask("late", sync)


async def refused(talk: Talk) -> None:
    """What members are told that may not."""
    member_id = await only_member(talk, "refusing")
    await ready(talk, "nobody")
    await ready(talk, "")
    other = [JoinGroupRequest.Protocol(name="other", metadata=b"")]
    for label, how in {
        "a ghost": {"member_id": "ghost"},
        "no group": {"group_id": "nobody", "member_id": "ghost"},
        "empty group": {"group_id": ""},
        "empty group, by name": {"group_id": "", "member_id": "ghost"},
        "impatient": {"session_timeout_ms": 1},
        "too patient": {"session_timeout_ms": 2**31 - 1, "member_id": "ghost"},
        "no protocols": {"protocols": []},
        "no type": {"protocol_type": ""},
        "another type": {"protocol_type": "connect"},
        "another protocol": {"protocols": other},
    }.items():
        await talk.ask(label, _join(**{"group_id": "refusing", **how}))
    for label, group_id, generation, member in (
        ("generation", "refusing", 7, member_id),
        ("a ghost", "refusing", 1, "ghost"),
        ("no group", "nobody", 1, "ghost"),
        ("empty group", "", 1, "ghost"),
        ("no member", "refusing", 1, ""),
    ):
        await talk.ask(label, HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member))
        request = SyncGroupRequest(
            group_id=group_id, generation_id=generation, member_id=member, assignments=[]
        )
        await talk.ask(label, request)
        request.protocol_type, request.protocol_name = "consumer", "range"
        await talk.ask(f"{label} named", request, since=5)
        request.protocol_name = "other"
        await talk.ask(f"{label} misnamed", request, since=5)
        await talk.ask(label, LeaveGroupRequest(group_id=group_id, member_id=member or "x"), until=2)
        leaving = [
            LeaveGroupRequest.Member(member_id="ghost"),
            LeaveGroupRequest.Member(member_id="", group_instance_id="i"),
        ]
        await talk.ask(label, LeaveGroupRequest(group_id=group_id, members=leaving), since=3)
    await talk.ask("nobody", LeaveGroupRequest(group_id="refusing", members=[]), since=3)


async def seen(talk: Talk) -> None:
    """DescribeGroups, ListGroups, DeleteGroups."""
    await talk.create("group_seen")
    await only_member(talk, "stable")
    for group_id in ("offsets", "nobody", "", *(f"old-{version}" for version in range(3))):
        await ready(talk, group_id)
        if group_id.startswith("o"):
            await talk.peer.send(commit(talk, group_id, ("group_seen", 0, 5)))
    for group_id in ("stable", "offsets", "nobody", ""):
        await talk.ask(f"{group_id}", DescribeGroupsRequest(groups=[group_id]))
        more = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=True)
        await talk.ask(f"{group_id} operations", more, since=3)
    await talk.ask("two", DescribeGroupsRequest(groups=["stable", "nobody", "stable"]))
    mine = {"stable", "offsets", *(f"old-{version}" for version in range(3))}
    for states, types in itertools.product(
        ([], ["stable"], ["Empty"], ["Jolly"]), ([], ["classic"], ["Consumer"], ["x"])
    ):
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = await talk.peer.send(request)
        shown = [
            (each.protocol_type, each.group_state, each.group_type, each.group_id) for each in answer.groups
        ]
        talk.answers[f"ListGroups {states} {types}", 5] = {
            "code": answer.error_code,
            **{row[3]: row[:3] for row in shown if row[3] in mine},
        }
    await talk.ask("stable", DeleteGroupsRequest(groups_names=["stable"]))
    await talk.ask("nobody", DeleteGroupsRequest(groups_names=["nobody", ""]))
    await talk.ask(
        "old", lambda version: DeleteGroupsRequest(groups_names=[f"old-{version}", f"old-{version}"])
    )


# --- offsets ------------------------------------------------------------------------------------------------------


def commit(
    talk: Talk, group_id: str, *places: tuple[str, int, int], metadata: str | None = "note", **how: Any
) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.Topic
    topics = [
        topic(
            name=name,
            topic_id=talk.ids.get(name, NO_TOPIC),
            partitions=[
                topic.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                for each, index, offset in places
                if each == name
            ],
        )
        for name in dict.fromkeys(name for name, _, _ in places)
    ]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **how)


def fetch(talk: Talk, group_id: str, wanted: dict[str, list[int]] | None, version: int, **how: Any) -> Any:
    if version < 8:
        topics = (
            None
            if wanted is None
            else [OffsetFetchRequest.Topic(name=name, partition_indexes=at) for name, at in wanted.items()]
        )
        return OffsetFetchRequest(group_id=group_id, topics=topics)
    named: Sequence[Any] | None = (
        None
        if wanted is None
        else [
            OffsetFetchRequest.Group.Topic(
                name=name, topic_id=talk.ids.get(name, NO_TOPIC), partition_indexes=at
            )
            for name, at in wanted.items()
        ]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group_id, topics=named, **how)])


async def committed(talk: Talk) -> None:
    """OffsetCommit, OffsetFetch, OffsetDelete."""
    await talk.create("group_kept", 2)
    member_id = await only_member(talk, "committing")
    for group_id in ("simple", "nobody", ""):
        await ready(talk, group_id)
    places = {
        "usual": ("group_kept", 0, 5),
        "partition 9": ("group_kept", 9, 5),
        "partition -1": ("group_kept", -1, 5),
    }
    for label, place in {**places, "no topic": ("nowhere", 0, 5), "negative": ("group_kept", 1, -7)}.items():
        await talk.ask(label, commit(talk, "simple", place))
    mixed = (places["usual"], ("nowhere", 0, 1), ("group_kept", 1, 6))
    await talk.ask("mixed", commit(talk, "simple", *mixed))
    twice = commit(talk, "simple", places["usual"])
    twice.topics += commit(talk, "simple", ("group_kept", 1, 6), ("nowhere", 0, 1)).topics
    await talk.ask("topic twice", twice)
    await talk.ask("long", commit(talk, "simple", ("group_kept", 0, 6), metadata="x" * 4097))
    await talk.ask("no note", commit(talk, "simple", ("group_kept", 0, 7), metadata=None))
    await talk.ask("nothing", commit(talk, "simple"))
    await talk.ask("empty group", commit(talk, "", places["usual"]))
    for label, group_id, member, generation in (
        ("member", "committing", member_id, 1),
        ("generation", "committing", member_id, 2),
        ("ghost", "committing", "ghost", 1),
        ("outside", "committing", "", -1),
        ("outside by name", "committing", "ghost", -1),
        ("no group", "nobody", "ghost", 1),
        ("simple", "simple", "ghost", 1),
    ):
        how = {"member_id": member, "generation_id_or_member_epoch": generation}
        await talk.ask(label, commit(talk, group_id, ("group_kept", 1, 9), **how), since=1)
        await talk.ask(f"{label} mixed", commit(talk, group_id, *mixed, **how), since=1)
    questions: dict[str, tuple[str, dict[str, list[int]] | None]] = {
        "some": ("simple", {"group_kept": [0, 1, 9]}),
        "no topic": ("simple", {"nowhere": [0], "group_kept": [0]}),
        "no partitions": ("simple", {"group_kept": []}),
        "no topics": ("simple", {}),
        "all": ("simple", None),
        "nobody": ("nobody", {"group_kept": [0]}),
        "all of nobody": ("nobody", None),
        "empty group": ("", {"group_kept": [0]}),
        "of members": ("committing", {"group_kept": [0, 1]}),
    }
    for label, (group_id, wanted) in questions.items():
        since = 2 if wanted is None else 0
        await talk.ask(label, lambda version, g=group_id, w=wanted: fetch(talk, g, w, version), since=since)
    await talk.ask(
        "as ghost", lambda v: fetch(talk, "committing", None, v, member_id="ghost", member_epoch=3), since=9
    )
    topic = OffsetDeleteRequest.Topic
    for label, group_id, name, index in (
        ("empty group", "", "group_kept", 0),
        ("nobody", "nobody", "group_kept", 0),
        ("no topic", "simple", "nowhere", 0),
        ("no partition", "simple", "group_kept", 8),
        ("there", "simple", "group_kept", 0),
        ("gone", "simple", "group_kept", 0),
        ("member", "committing", "group_kept", 0),
    ):
        topics = [topic(name=name, partitions=[topic.Partition(partition_index=index)])]
        await talk.ask(label, OffsetDeleteRequest(group_id=group_id, topics=topics))
    await talk.ask("nothing", OffsetDeleteRequest(group_id="simple", topics=[]))
    await talk.ask("after", lambda version: fetch(talk, "simple", {"group_kept": [0, 1]}, version))


ALL = (find, members, refused, seen, committed)
