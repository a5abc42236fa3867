"""Groups as coordinators describe them, old ones among them, and assignments that nobody can read."""

import asyncio
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.group_members import assigned, describe, listed
from ottla.cli.remote import Failed, cluster
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsResponse,
)
from ottla.protocol.messages.subscription import TopicPartitions
from tests.unit.cli.fake_cluster import SILENT, fake_cluster
from tests.unit.cli.states import assignment_of_version

OWNED = [TopicPartitions(topic="orders", partitions=[0, 2])]


def scenario(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@pytest.mark.parametrize("version", [0, 1, 3, 4, 32767, -1])
def test_an_assignment_is_read_in_every_version(version):
    assert assigned(assignment_of_version(version, OWNED)) == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 2),
    )


@given(blob=st.binary(max_size=100))
def test_what_members_keep_to_themselves_is_nothing(blob):
    assert isinstance(assigned(blob), tuple)


def test_no_assignment_is_nothing():
    assert assigned(b"") == assigned(b"\0") == ()


def old_broker(state, protocol_type="consumer"):
    """A broker that does not know groups of the consumer protocol."""

    def answer(node_id, request):
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=1)
        assert isinstance(request, DescribeGroupsRequest)
        member = DescribeGroupsResponse.Group.Member(
            member_id="m",
            client_id="c",
            client_host="h",
            member_metadata=b"",
            member_assignment=assignment_of_version(0, OWNED),
        )
        group = DescribeGroupsResponse.Group(
            error_code=0,
            group_id="g",
            group_state=state,
            protocol_type=protocol_type,
            protocol_data="range",
            members=[member],
        )
        return DescribeGroupsResponse(groups=[group])

    return fake_cluster(answer, nodes=(1,), versions={10: 2, 15: 4, 69: None})


async def described_by(broker):
    async with broker as fake, cluster([Address("127.0.0.1", fake.ports[1])], 5000) as asked:
        await asked.topics([])
        return (await describe(asked, ["g"]))["g"]


@scenario
async def test_a_broker_of_the_classic_protocol_only_is_asked_only_that():
    found = await described_by(old_broker("Stable"))
    assert (found.type, found.state, found.protocol) == ("classic", "Stable", "range")
    assert found.members[0].partitions == (TopicPartition("orders", 0), TopicPartition("orders", 2))


@scenario
async def test_a_dead_group_of_an_old_broker_is_one_that_nobody_knows():
    found = await described_by(old_broker("Dead"))
    assert isinstance(found, Failed)
    assert found.exit_code == 4


@scenario
async def test_assignments_of_groups_that_are_no_consumers_are_left_alone():
    found = await described_by(old_broker("Stable", protocol_type="connect"))
    assert found.members[0].partitions == ()


@scenario
async def test_a_list_joins_all_brokers_and_tells_consumers_apart():
    def answer(node_id, _):
        if node_id == 3:
            return SILENT
        row = ListGroupsResponse.Group
        rows = {
            1: [row(group_id="b", protocol_type="consumer", group_state="Stable", group_type="Consumer")],
            2: [
                row(group_id="a", protocol_type="", group_state="Empty", group_type="Classic"),
                row(group_id="c", protocol_type="connect", group_state="Stable", group_type="classic"),
                row(group_id="d", protocol_type="share", group_state="Stable", group_type="Share"),
            ],
        }
        return ListGroupsResponse(error_code=0, groups=rows[node_id])

    async with (
        fake_cluster(answer, nodes=(1, 2, 3)) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 300) as asked,
    ):
        found, failures = await listed(asked)
    assert [(each.group, each.coordinator, each.is_of_consumers) for each in found] == [
        ("a", 2, True),
        ("b", 1, True),
        ("c", 2, False),
        ("d", 2, False),
    ]
    assert list(failures) == [3]
