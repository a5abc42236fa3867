"""Classic groups as clients of every version see them: who coordinates, membership, and the administrator's view."""

import asyncio

import pytest

from ottla.broker.authorizer import NOT_ASKED, Operation
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.groups import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from ottla.protocol.messages.offsets import OffsetCommitRequest
from ottla.replication.state import NO_LEADER
from tests.unit.broker.handlers.coordinating import Client, coordinating, scenario
from tests.unit.broker.handlers.fakes import node

GROUP = "readers"
OF_GROUP, OF_TRANSACTION, OF_SHARE = 0, 1, 2
MEMBER_ID_SINCE = 4


class Member:
    """A member of a classic group with one protocol."""

    def __init__(self, client, group_id=GROUP):
        self.client = client
        self.me = {"group_id": group_id, "member_id": ""}
        self.generation = -1

    async def join(self, version=5, **how):
        protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"mine")]
        asked = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
        asked |= {"protocols": protocols, **how}
        if version == 0:
            del asked["rebalance_timeout_ms"]
        joined = await self.client.ask("JoinGroup", version, **self.me, **asked)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            assert version >= MEMBER_ID_SINCE
            self.me["member_id"] = joined.member_id
            joined = await self.client.ask("JoinGroup", version, **self.me, **asked)
        if joined.error_code == ErrorCode.NONE:
            self.me["member_id"], self.generation = joined.member_id, joined.generation_id
        return joined

    async def sync(self, version=3, **assignments):
        given = [
            SyncGroupRequest.Assignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        ]
        protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        return await self.client.ask(
            "SyncGroup", version, **self.me, generation_id=self.generation, assignments=given, **protocol
        )

    async def settle(self):
        """The only member, in a stable group."""
        assert (await self.join()).error_code == ErrorCode.NONE
        assert (await self.sync(**{self.me["member_id"]: b"all"})).error_code == ErrorCode.NONE
        return self

    async def beat(self, version=3):
        return (
            await self.client.ask("Heartbeat", version, **self.me, generation_id=self.generation)
        ).error_code


async def commit(client, group_id):
    """A group that only keeps offsets."""
    topic = OffsetCommitRequest.Topic
    partition = topic.Partition(partition_index=0, committed_offset=3, committed_metadata=None)
    await client.ask("OffsetCommit", 8, group_id=group_id, topics=[topic(name="tea", partitions=[partition])])


# --- find ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
@scenario
async def test_one_key_is_answered_in_the_reply_itself(version):
    async with coordinating() as client:
        found = await client.ask("FindCoordinator", version, key=GROUP)
        assert found.error_code == ErrorCode.NONE
        assert (found.node_id, found.host, found.port) == (1, "127.0.0.1", client.node.port)
        assert found.coordinators == []


@pytest.mark.parametrize("version", range(4, 7))
@scenario
async def test_many_keys_are_answered_one_by_one(version):
    async with coordinating() as client:
        client.node.authorizer.deny(Operation.DESCRIBE, "b")
        keys = ["a", "b", "c"]
        found = await client.ask("FindCoordinator", version, key_type=OF_TRANSACTION, coordinator_keys=keys)
        assert [(each.key, each.node_id, each.error_code) for each in found.coordinators] == [
            ("a", 1, ErrorCode.NONE),
            ("b", -1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            ("c", 1, ErrorCode.NONE),
        ]
        assert [each.port for each in found.coordinators] == [client.node.port, -1, client.node.port]


@scenario
async def test_the_topic_of_a_coordinator_is_there_once_somebody_has_asked():
    async with coordinating() as client:
        topics = client.node.metadata.topics
        assert {name: len(image.partitions) for name, image in topics.items()} == {
            "__consumer_offsets": 3,
            "__transaction_state": 3,
        }
        assert all(image.is_internal for image in topics.values())


@scenario
async def test_a_coordinator_that_this_listener_cannot_reach_is_not_available():
    async with coordinating() as client:
        client.node.metadata.update(brokers=[node(1, "INTERNAL")])
        found = await client.ask("FindCoordinator", 3, key=GROUP)
        assert (found.error_code, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert "PLAINTEXT" in found.error_message


@scenario
async def test_where_nobody_leads_there_is_no_coordinator():
    async with coordinating() as client:
        image = client.node.metadata.topics["__consumer_offsets"]
        leaderless = tuple(state._replace(leader=NO_LEADER) for state in image.partitions)
        client.node.metadata.update(topics=[image._replace(partitions=leaderless)])
        (found,) = (await client.ask("FindCoordinator", 4, coordinator_keys=[GROUP])).coordinators
        assert (found.node_id, found.error_code) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@scenario
async def test_a_type_of_key_that_nobody_knows_is_an_invalid_request():
    async with coordinating() as client:
        found = await client.ask("FindCoordinator", 3, key="x", key_type=9)
        assert found.error_code == ErrorCode.INVALID_REQUEST
        assert found.error_message == "there are no coordinators of type 9"


@pytest.mark.parametrize("version", [5, 6])
@scenario
async def test_share_partitions_have_no_coordinator(version):
    async with coordinating() as client:
        keys = ["g:AAAAAAAAAAAAAAAAAAAAAA:0"]
        found = await client.ask("FindCoordinator", version, key_type=OF_SHARE, coordinator_keys=keys)
        assert found.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key_type", "operation", "code"),
    [
        (OF_GROUP, Operation.DESCRIBE, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (OF_TRANSACTION, Operation.DESCRIBE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (OF_SHARE, Operation.CLUSTER_ACTION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
@scenario
async def test_who_may_not_see_it_is_told_so(key_type, operation, code):
    async with coordinating() as client:
        client.node.authorizer.deny(operation)
        found = await client.ask("FindCoordinator", 6, key_type=key_type, coordinator_keys=["x"])
        assert found.coordinators[0].error_code == code


# --- members ------------------------------------------------------------------------------------------------------


@scenario
async def test_a_member_joins_syncs_beats_and_leaves_in_every_version():
    async with coordinating() as client:
        for version in range(10):
            member = Member(client, f"group-{version}")
            joined = await member.join(version)
            assert (joined.error_code, joined.protocol_name, joined.generation_id) == (0, "range", 1)
            assert [each.member_id for each in joined.members] == [joined.leader] == [joined.member_id]
            synced = await member.sync(min(version, 5), **{joined.member_id: b"all of it"})
            assert (synced.error_code, synced.assignment) == (0, b"all of it")
            assert await member.beat(min(version, 4)) == ErrorCode.NONE
            leaving = member.me
            if version >= 3:
                members = [LeaveGroupRequest.Member(member_id=member.me["member_id"])]
                leaving = {"group_id": member.me["group_id"], "members": members}
            left = await client.ask("LeaveGroup", min(version, 5), **leaving)
            assert left.error_code == ErrorCode.NONE
            assert [each.error_code for each in left.members] == ([0] if version >= 3 else [])
            assert await member.beat() == ErrorCode.UNKNOWN_MEMBER_ID


@scenario
async def test_a_rebalance_is_answered_when_everybody_is_there():
    async with coordinating() as client:
        first = await Member(client).settle()
        second = Member(Client(client.node, "other"))
        joining = asyncio.ensure_future(second.join())
        while await first.beat() != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0)
        assert not joining.done()
        again, joined = await asyncio.gather(first.join(), joining)
        assert (again.generation_id, joined.generation_id) == (2, 2)
        assert len(again.members) == 2 and joined.members == []
        waiting = asyncio.ensure_future(second.sync())
        await asyncio.sleep(0)
        assert not waiting.done()
        await first.sync(**{first.me["member_id"]: b"1", second.me["member_id"]: b"2"})
        assert (await waiting).assignment == b"2"


@scenario
async def test_who_waits_when_the_coordinator_goes_is_sent_elsewhere():
    async with coordinating() as client:
        first = await Member(client).settle()
        joining = asyncio.ensure_future(Member(Client(client.node, "other")).join())
        while await first.beat() != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0)
        client.node.groups.close()
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [5, 8])
@scenario
async def test_who_may_not_join_learns_it_by_the_name_it_gave(version):
    async with coordinating() as client:
        nothing = None if version >= 7 else ""
        stranger = Member(client)
        stranger.me["member_id"] = "ghost"
        refused = await stranger.join(version)
        assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
        assert (refused.generation_id, refused.leader, refused.protocol_name) == (-1, "", nothing)
        refused = await stranger.join(version, session_timeout_ms=1)
        assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "ghost")
        stranger.me["group_id"] = ""
        refused = await stranger.join(version)
        assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_GROUP_ID, "ghost")


@scenario
async def test_a_group_without_a_name_has_no_members():
    async with coordinating() as client:
        nobody = Member(client, "")
        assert (await nobody.sync()).error_code == ErrorCode.INVALID_GROUP_ID
        assert await nobody.beat() == ErrorCode.INVALID_GROUP_ID
        left = await client.ask("LeaveGroup", 3, group_id="", members=[])
        assert left.error_code == ErrorCode.INVALID_GROUP_ID


@scenario
async def test_who_may_not_read_with_a_group_has_no_part_in_it():
    async with coordinating() as client:
        member = await Member(client).settle()
        client.node.authorizer.deny(Operation.READ, GROUP)
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (await member.join()).error_code == denied
        assert (await member.sync()).error_code == denied
        assert await member.beat() == denied
        assert (await client.ask("LeaveGroup", 2, **member.me)).error_code == denied
        client.node.authorizer.denied.clear()
        assert await member.beat() == ErrorCode.NONE


@scenario
@pytest.mark.parametrize("version", [2, 9])
async def test_a_member_that_says_more_than_a_record_can_hold_is_not_taken_in(version):
    async with coordinating() as client:
        member = Member(client)
        protocols = [JoinGroupRequest.Protocol(name=name, metadata=bytes(600_000)) for name in ("a", "b")]
        assert (await member.join(version, protocols=protocols)).error_code == ErrorCode.INVALID_REQUEST
        assert (await client.ask("ListGroups", 4)).groups == []


@scenario
async def test_since_v5_a_sync_says_of_which_protocol():
    async with coordinating() as client:
        member = await Member(client).settle()
        asked = {**member.me, "generation_id": member.generation, "assignments": []}
        inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        for given in ({}, {"protocol_type": "consumer"}, {"protocol_name": "range"}):
            assert (await client.ask("SyncGroup", 5, **asked, **given)).error_code == inconsistent
        assert (await client.ask("SyncGroup", 4, **asked)).error_code == ErrorCode.NONE


@scenario
async def test_while_a_group_is_loaded_its_members_are_taken_to_live():
    async with coordinating() as client:
        member = await Member(client).settle()
        groups = client.node.groups
        groups.close()
        assert await member.beat() == ErrorCode.NOT_COORDINATOR
        groups._loads = dict.fromkeys(range(3))
        assert await member.beat() == ErrorCode.NONE
        assert (await member.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        groups._loads = {}


@scenario
async def test_who_leaves_a_group_that_is_not_there_was_never_in_it():
    async with coordinating() as client:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        left = await client.ask("LeaveGroup", 0, group_id="nobody", member_id="ghost")
        assert left.error_code == unknown
        members = [
            LeaveGroupRequest.Member(member_id="a"),
            LeaveGroupRequest.Member(member_id="", group_instance_id="b"),
        ]
        left = await client.ask("LeaveGroup", 3, group_id="nobody", members=members)
        assert left.error_code == ErrorCode.NONE
        assert [(each.member_id, each.group_instance_id, each.error_code) for each in left.members] == [
            ("a", None, unknown),
            ("", "b", unknown),
        ]


# --- groups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
@scenario
async def test_groups_are_described_one_by_one(version):
    async with coordinating("tea") as client:
        member = await Member(client).settle()
        client.node.authorizer.deny(Operation.DESCRIBE, "theirs")
        asked = {"groups": ["theirs", GROUP, "nobody", GROUP, GROUP]}
        if version >= 3:
            asked["include_authorized_operations"] = True
        theirs, ours, nobody = (await client.ask("DescribeGroups", version, **asked)).groups
        assert (theirs.group_id, theirs.error_code) == ("theirs", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        assert theirs.authorized_operations == NOT_ASKED
        assert (ours.group_state, ours.protocol_type, ours.protocol_data) == ("Stable", "consumer", "range")
        (found,) = ours.members
        assert (found.member_id, found.client_id, found.client_host) == (
            member.me["member_id"],
            "test",
            "/127.0.0.1",
        )
        assert (ours.authorized_operations != NOT_ASKED) == (version >= 3)
        assert nobody.group_state == "Dead"
        assert nobody.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)


@scenario
async def test_groups_are_listed_by_state_and_type_to_those_who_may_see_them():
    async with coordinating("tea") as client:
        await Member(client).settle()
        await commit(client, "offsets-only")

        async def listed(version, **filters):
            response = await client.ask("ListGroups", version, **filters)
            assert response.error_code == ErrorCode.NONE
            return {each.group_id: each for each in response.groups}

        for version in range(6):
            assert set(await listed(version)) == {GROUP, "offsets-only"}
        found = (await listed(5, states_filter=["stable"]))[GROUP]
        assert (found.protocol_type, found.group_state, found.group_type) == ("consumer", "Stable", "classic")
        assert set(await listed(5, states_filter=["Empty"], types_filter=["classic"])) == {"offsets-only"}
        assert await listed(5, types_filter=["consumer"]) == {}
        client.node.authorizer.deny(Operation.DESCRIBE, GROUP)
        assert set(await listed(5)) == {GROUP, "offsets-only"}, "who may describe the cluster sees all groups"
        client.node.authorizer.deny(Operation.DESCRIBE, "kafka-cluster")
        assert set(await listed(5)) == {"offsets-only"}


@scenario
async def test_half_a_list_is_none():
    async with coordinating() as client:
        client.node.groups._loads = {0: None}
        response = await client.ask("ListGroups", 4)
        client.node.groups._loads = {}
        assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


@pytest.mark.parametrize("version", range(3))
@scenario
async def test_groups_are_deleted_one_by_one(version):
    async with coordinating("tea") as client:
        await Member(client).settle()
        await commit(client, "theirs")
        await commit(client, "old")
        client.node.authorizer.deny(Operation.DELETE, "theirs")
        names = ["theirs", "old", GROUP, "nobody", "old"]
        response = await client.ask("DeleteGroups", version, groups_names=names)
        assert [(each.group_id, ErrorCode(each.error_code)) for each in response.results] == [
            ("theirs", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ("old", ErrorCode.NONE),
            (GROUP, ErrorCode.NON_EMPTY_GROUP),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        left = await client.ask("ListGroups", 4)
        assert {each.group_id for each in left.groups} == {GROUP, "theirs"}
