"""Groups as their coordinators describe them: what kind, in which state, and who owns which partition.

A group of the consumer protocol (KIP-848) and one of the classic protocol are asked for by different requests, and
nobody knows beforehand which of them a group is: as Kafka's own tools do, ask for the new kind first.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ottla.cli.remote import GROUP, Cluster, Failed, check, each_of, pieces
from ottla.core.errors import ErrorCode, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.protocol.codec import decode
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment

CONSUMER_GROUP_DESCRIBE = 69
CLASSIC, CONSUMER = "classic", "consumer"
DEAD = "Dead"
_CONSUMERS = ("consumer", "")  # protocol types; a group that only stores offsets has none
_VERSION = struct.Struct(">h")
_VERSION_MAX = 3
_NOT_OF_THIS_KIND = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}


class Member(NamedTuple):
    """One that consumes."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class Described(NamedTuple):
    """A group without its offsets. `protocol` is the assignor that they agreed on."""

    group: str
    type: str
    state: str
    coordinator: int
    protocol: str
    members: tuple[Member, ...]

    @property
    def owners(self) -> dict[TopicPartition, Member]:
        return {place: member for member in self.members for place in member.partitions}


async def describe(cluster: Cluster, groups: Iterable[str]) -> dict[str, Described | Failed]:
    """Each group by its id, or why it cannot be described. A group that nobody knows is `Failed` with code 4."""
    found: dict[str, Described | Failed] = {}
    for node_id, names in (await cluster.coordinators(groups, GROUP)).items():
        for some in pieces(names):
            modern = await _modern(cluster, node_id, some)
            rest = [name for name in some if name not in modern]
            found |= modern | (await _classic(cluster, node_id, rest) if rest else {})
    return found


async def _modern(cluster: Cluster, node_id: int, groups: Iterable[str]) -> dict[str, Described | Failed]:
    """Those that are groups of the consumer protocol, and those of which not even that can be said."""
    peer = await cluster.broker(node_id)
    if CONSUMER_GROUP_DESCRIBE not in (peer.versions or {}):
        return {}

    async def one(group: ConsumerGroupDescribeResponse.Group) -> Described:
        check(group.error_code, f"group {group.group_id!r}")
        members = tuple(
            Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                tuple(
                    TopicPartition(topic.topic_name, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for each in group.members
        )
        return Described(group.group_id, CONSUMER, group.group_state, node_id, group.assignor_name, members)

    asked = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)

    async def once() -> dict[str, ConsumerGroupDescribeResponse.Group]:
        answer: ConsumerGroupDescribeResponse = await cluster.ask(node_id, asked)
        _look_for_patience((row.group_id, row.error_code) for row in answer.groups)
        return {row.group_id: row for row in answer.groups if row.error_code not in _NOT_OF_THIS_KIND}

    rows = await cluster.patiently(once)
    return await each_of(rows, lambda name: one(rows[name]))


async def _classic(cluster: Cluster, node_id: int, groups: Iterable[str]) -> dict[str, Described | Failed]:
    async def one(group: DescribeGroupsResponse.Group) -> Described:
        about = f"group {group.group_id!r}"
        check(group.error_code, about)
        if group.group_state == DEAD:  # what brokers say before v6 of a group that they do not know
            check(ErrorCode.GROUP_ID_NOT_FOUND, about)
        members = tuple(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                assigned(each.member_assignment) if group.protocol_type == "consumer" else (),
            )
            for each in group.members
        )
        return Described(group.group_id, CLASSIC, group.group_state, node_id, group.protocol_data, members)

    async def once() -> dict[str, DescribeGroupsResponse.Group]:
        answer: DescribeGroupsResponse = await cluster.ask(
            node_id, DescribeGroupsRequest(groups=list(groups))
        )
        _look_for_patience((row.group_id, row.error_code) for row in answer.groups)
        return {row.group_id: row for row in answer.groups}

    rows = await cluster.patiently(once)
    return await each_of(rows, lambda name: one(rows[name]))


def _look_for_patience(rows: Iterable[tuple[str, int]]) -> None:
    """Raise if the coordinator is still loading: all are asked again."""
    for group, code in rows:
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            check(code, f"group {group!r}")


def assigned(blob: bytes) -> tuple[TopicPartition, ...]:
    """What a member was given; nothing if nobody can read that, for it is the members' own business."""
    if len(blob) < _VERSION.size:
        return ()
    version = _VERSION.unpack_from(blob)[0]
    try:
        read, _ = decode(
            ConsumerProtocolAssignment, bytes(blob), max(0, min(version, _VERSION_MAX)), _VERSION.size
        )
    except ProtocolError:
        return ()
    return tuple(
        TopicPartition(each.topic, index) for each in read.assigned_partitions for index in each.partitions
    )


class Listed(NamedTuple):
    """One line of a list. Brokers before Kafka 2.6 do not say the state, before 3.8 not the type."""

    group: str
    type: str | None
    state: str | None
    protocol_type: str
    coordinator: int

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type in _CONSUMERS and (self.type or CLASSIC).lower() in (CLASSIC, CONSUMER)


async def listed(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()
) -> tuple[list[Listed], dict[int, Failed]]:
    """The groups of all brokers by name, and the brokers that did not answer."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    needed = 5 if request.types_filter else 4 if request.states_filter else 0
    answers = await cluster.everywhere(request, needed)
    found = []
    for node_id, answer in answers.by_broker.items():
        assert isinstance(answer, ListGroupsResponse)
        found += [
            Listed(row.group_id, row.group_type or None, row.group_state or None, row.protocol_type, node_id)
            for row in answer.groups
        ]
    return sorted(found), answers.failures
