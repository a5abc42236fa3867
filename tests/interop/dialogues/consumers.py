"""Groups of the consumer protocol: what members say and hear, how they are described, and their offsets."""

import uuid
from typing import Any

from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest
from tests.interop.dialogues.groups import commit, fetch, only_member, ready
from tests.interop.dialogues.talk import Talk


def _beat(group_id: str, member_id: str, epoch: int, **how: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **how)


async def consumers(talk: Talk) -> None:
    """ConsumerGroupHeartbeat and ConsumerGroupDescribe."""
    await talk.create("group_eaten", 2)
    for group_id in ("modern", "modern-0", "modern-1", "nobody", "old-fashioned"):
        await ready(talk, group_id)
    await only_member(talk, "old-fashioned")
    me = str(uuid.UUID(int=5))
    joining = {
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": ["group_eaten"],
        "topic_partitions": [],
    }
    for version in (0, 1):
        await talk.ask(
            f"join {version}", _beat(f"modern-{version}", me, 0, **joining), since=version, until=version
        )
    first = await talk.ask("first", _beat("modern", me, 0, **joining), last=True)
    epoch = first.member_epoch if first else 1
    owned = [TopicPartitions(topic_id=talk.ids["group_eaten"], partitions=[0, 1])]
    await talk.ask("beat", _beat("modern", me, epoch, topic_partitions=owned), last=True)
    await talk.ask("quiet", _beat("modern", me, epoch))
    for label, request in {
        "no group": _beat("", me, 0, **joining),
        "no member": _beat("modern", "", 1),
        "no timeout": _beat("modern", me, 0, subscribed_topic_names=["group_eaten"], topic_partitions=[]),
        "no topics": _beat("modern", me, 0, rebalance_timeout_ms=5000, topic_partitions=[]),
        "no partitions": _beat(
            "modern", me, 0, rebalance_timeout_ms=5000, subscribed_topic_names=["group_eaten"]
        ),
        "owns already": _beat("modern", me, 0, **{**joining, "topic_partitions": owned}),
        "epoch 9": _beat("modern", me, 9),
        "epoch -5": _beat("modern", me, -5),
        "a ghost": _beat("modern", "ghost", 1),
        "nobody": _beat("nobody", me, 1),
        "assignor": _beat("modern", me, 0, **joining, server_assignor="mine"),
        "empty instance": _beat("modern", me, 0, **joining, instance_id=""),
        "empty rack": _beat("modern", me, 0, **joining, rack_id=""),
        "leaves as static": _beat("modern", me, -2),
        "a ghost leaves": _beat("modern", "ghost", -1),
        "classic": _beat("old-fashioned", me, 1),
    }.items():
        await talk.ask(label, request)
    pattern = {"rebalance_timeout_ms": 5000, "topic_partitions": []}
    await talk.ask("bad pattern", _beat("modern", me, 0, **pattern, subscribed_topic_regex="("), since=1)
    for group_id in ("modern", "nobody", "", "old-fashioned"):
        for is_asked in (False, True):
            request = ConsumerGroupDescribeRequest(
                group_ids=[group_id], include_authorized_operations=is_asked
            )
            await talk.ask(f"{group_id} {is_asked}", request)
    await talk.ask("modern", DescribeGroupsRequest(groups=["modern"]))
    commits = {"member_id": me, "generation_id_or_member_epoch": epoch}
    await talk.ask("modern", commit(talk, "modern", ("group_eaten", 0, 3), **commits))
    await talk.ask(
        "modern stale",
        commit(talk, "modern", ("group_eaten", 0, 3), **{**commits, "generation_id_or_member_epoch": 0}),
    )
    await talk.ask(
        "modern ahead",
        commit(talk, "modern", ("group_eaten", 0, 3), **{**commits, "generation_id_or_member_epoch": 7}),
    )
    await talk.ask("modern outside", commit(talk, "modern", ("group_eaten", 0, 3)))
    for label, given in (("now", epoch), ("before", epoch - 1), ("ahead", epoch + 5)):
        await talk.ask(
            f"modern {label}",
            lambda v, e=given: fetch(talk, "modern", None, v, member_id=me, member_epoch=e),
            since=9,
        )
    await talk.ask("modern", DeleteGroupsRequest(groups_names=["modern"]))
    await talk.ask("leave", _beat("modern", me, -1), last=True)
    await talk.ask(
        "left", ConsumerGroupDescribeRequest(group_ids=["modern"], include_authorized_operations=False)
    )


ALL = (consumers,)
