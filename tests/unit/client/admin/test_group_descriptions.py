"""Members of classic groups may say anything: what cannot be read stays bytes."""

import asyncio

import pytest

from ottla.client.admin.group_descriptions import _assigned, _subscribed
from ottla.client.admin.group_values import GroupType
from ottla.network.peer import connect
from ottla.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest
from tests.unit.client.admin.brokers import admin_of_a_broker


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\0\x7f\xff\xff\xff", b"\0\1garbage"])
def test_what_cannot_be_read_is_nothing(data):
    assert _assigned(data) == frozenset() and _subscribed(data) == frozenset()


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_a_group_of_others_than_consumers_is_described_with_its_bytes(protocol_type):
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            await admin.describe_cluster()
            # The first question brings the coordinator up.
            assert await admin.list_group_offsets("workers") == {}
            async with await connect("127.0.0.1", broker.port, client_id="worker") as peer:
                kind = JoinGroupRequest.Protocol
                join = JoinGroupRequest(
                    group_id="workers",
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=30_000,
                    member_id="",
                    protocol_type=protocol_type,
                    protocols=[kind(name="ours", metadata=b"\xffwhat I want")],
                )
                joined = await peer.send(join, 3)
                assert joined.error_code == 0
                share = SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"\xffyours")
                sync = SyncGroupRequest(
                    group_id="workers",
                    generation_id=joined.generation_id,
                    member_id=joined.member_id,
                    assignments=[share],
                )
                assert (await peer.send(sync, 3)).error_code == 0
                group = await admin.describe_group("workers")
                assert (group.type, group.protocol_type, group.assignor) == (
                    GroupType.CLASSIC,
                    protocol_type,
                    "ours",
                )
                (member,) = group.members
                assert member.metadata == b"\xffwhat I want" and member.assignment_bytes == b"\xffyours"
                assert member.assignment == frozenset() and member.subscribed_topics == frozenset()
                assert member.client_id == "worker" and member.is_classic
                await admin.remove_group_members("workers")
                assert (await admin.describe_group("workers")).members == ()

    asyncio.run(run())
