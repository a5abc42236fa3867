"""Groups of the consumer protocol, as far as the broker has a say before the group has."""

import uuid

import pytest

from ottla.broker.authorizer import NOT_ASKED, Operation
from ottla.broker.handlers import asking
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.unit.broker.client import frame_of
from tests.unit.broker.handlers.coordinating import coordinating, scenario

GROUP = "readers"
MEMBER_ID = str(uuid.UUID(int=77))


async def beat(client, version=1, **how):
    fields = {"group_id": GROUP, "member_id": MEMBER_ID, "member_epoch": 0, **how}
    return await client.ask("ConsumerGroupHeartbeat", version, **fields)


async def join(client, *topics, version=1, **how):
    return await beat(
        client,
        version,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
        **how,
    )


async def describe(client, *group_ids, version=1, include_authorized_operations=False):
    response = await client.ask(
        "ConsumerGroupDescribe",
        version,
        group_ids=list(group_ids),
        include_authorized_operations=include_authorized_operations,
    )
    return response.groups


@pytest.mark.parametrize("version", range(2))
@scenario
async def test_a_member_gets_its_partitions_and_is_described_with_them(version):
    async with coordinating("tea") as client:
        joined = await join(client, "tea", version=version)
        assert joined.error_code == ErrorCode.NONE
        topic_id = client.node.metadata.topics["tea"].topic_id
        (assigned,) = joined.assignment.topic_partitions
        assert (assigned.topic_id, sorted(assigned.partitions)) == (topic_id, [0, 1])
        (group,) = await describe(client, GROUP, GROUP, version=version)
        assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
        assert group.group_epoch == joined.member_epoch
        assert group.authorized_operations == NOT_ASKED
        (member,) = group.members
        assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
        assert [each.topic_name for each in member.assignment.topic_partitions] == ["tea"]


@scenario
async def test_who_may_not_read_with_the_group_does_not_join_it():
    async with coordinating("tea") as client:
        client.node.authorizer.deny(Operation.READ, GROUP)
        refused = await join(client, "tea")
        assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert GROUP in refused.error_message
        assert (await describe(client, GROUP))[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


@scenario
async def test_a_subscription_to_a_topic_that_may_not_be_seen_is_refused():
    async with coordinating("tea", "gin") as client:
        client.node.authorizer.deny(Operation.DESCRIBE, "gin")
        assert (await join(client, "tea", "gin")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (await join(client, "tea")).error_code == ErrorCode.NONE


@scenario
async def test_what_makes_no_sense_is_refused_in_words():
    async with coordinating() as client:
        refused = await join(client, group_id="")
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert refused.error_message
        refused = await beat(client, member_epoch=5)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@scenario
async def test_groups_are_described_one_by_one():
    async with coordinating("tea", "gin") as client:
        await join(client, "tea")
        await join(client, "gin", group_id="drinkers")
        client.node.authorizer.deny(Operation.DESCRIBE, "theirs")
        client.node.authorizer.deny(Operation.DESCRIBE, "gin")
        names = ["theirs", "", GROUP, "nobody", "drinkers"]
        groups = await describe(client, *names, include_authorized_operations=True)
        assert [(each.group_id, ErrorCode(each.error_code)) for each in groups] == [
            ("theirs", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ("", ErrorCode.INVALID_GROUP_ID),
            (GROUP, ErrorCode.NONE),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
            ("drinkers", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
        assert groups[-1].members == []
        assert [each.authorized_operations != NOT_ASKED for each in groups] == [
            False,
            False,
            True,
            False,
            False,
        ]


@scenario
async def test_where_nobody_coordinates_everybody_is_sent_elsewhere():
    async with coordinating("tea") as client:
        client.node.groups.close()
        assert (await join(client, "tea")).error_code == ErrorCode.NOT_COORDINATOR
        assert (await describe(client, GROUP))[0].error_code == ErrorCode.NOT_COORDINATOR


@scenario
async def test_a_member_that_claims_to_own_more_partitions_than_there_can_be_is_not_answered(monkeypatch):
    monkeypatch.setattr(asking, "PARTITIONS_MAX", 3)
    async with coordinating("tea") as client:
        joined = await join(client, "tea")
        topic_id = client.node.metadata.topics["tea"].topic_id
        for amount in (3, 4):
            owned = [TopicPartitions(topic_id=topic_id, partitions=[0] * amount)]
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id="x", member_epoch=joined.member_epoch, topic_partitions=owned
            )
            assert bool(await client._caller.ask(frame_of(68, 1, request))) == (amount == 3)
        assert len(client._caller.closed) == 1
