"""What kind of group is it? Described by whichever request knows it, in one shape.

A coordinator says of a group of another kind that it does not know it. So it is asked by the consumer protocol's
request first (KIP-848), then by the classic one, then by that of share groups, as far as it offers them.
"""

from collections.abc import Awaitable, Callable, Iterable

from ottla.assignors.exchange import decode_assignment, decode_subscription
from ottla.client.admin.group_values import GroupDescription, GroupType, MemberDescription
from ottla.client.admin.operations import operations_of
from ottla.client.admin.routes import Answers, Routes, failure
from ottla.client.cluster import GROUP
from ottla.client.deadline import Deadline
from ottla.client.errors import UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.core.types import Buffer
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
)
from ottla.protocol.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.share import ShareGroupDescribeRequest, ShareGroupDescribeResponse

_CONSUMERS = "consumer"
_DEAD = "Dead"  # how a broker before 4.0 says that it does not know a group
_CLASSIC_MEMBER = 0
_NOT_OF_THIS_KIND = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_Described = Answers[str, GroupDescription]
_Kind = Callable[[Routes, int, list[str], bool], Awaitable[_Described]]


async def describe(
    routes: Routes, group_ids: Iterable[str], with_operations: bool, deadline: Deadline
) -> _Described:
    async def ask_one(node_id: int, some: list[str]) -> _Described:
        answers: _Described = {each: _not_found(each) for each in some}
        for kind in _KINDS:
            unknown = [key for key, each in answers.items() if _is_of_another_kind(each)]
            try:
                if unknown:
                    answers |= await kind(routes, node_id, unknown, with_operations)
            except UnsupportedVersionError:
                continue  # then it has no such groups
        return {key: _not_found(key) if _is_of_another_kind(each) else each for key, each in answers.items()}

    async def ask(some: list[str]) -> _Described:
        return await routes.by_coordinator(GROUP, some, ask_one)

    return await routes.settle(group_ids, ask, deadline, "the groups were not described")


def _is_of_another_kind(answer: GroupDescription | KafkaError) -> bool:
    return isinstance(answer, KafkaError) and answer.code in _NOT_OF_THIS_KIND


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")


# --- the consumer protocol ----------------------------------------------------------------------------------------


async def _consumer(routes: Routes, node_id: int, some: list[str], with_operations: bool) -> _Described:
    request = ConsumerGroupDescribeRequest(group_ids=some, include_authorized_operations=with_operations)
    answer: ConsumerGroupDescribeResponse = await routes.ask_coordinator(node_id, request)
    return {row.group_id: _consumer_group(node_id, row) for row in answer.groups}


def _consumer_group(node_id: int, row: ConsumerGroupDescribeResponse.Group) -> GroupDescription | KafkaError:
    if row.error_code:
        return failure(row.error_code, f"group {row.group_id}", row.error_message)
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            frozenset(each.subscribed_topic_names),
            each.subscribed_topic_regex or None,
            each.rack_id,
            each.member_epoch,
            _partitions(each.target_assignment),
            None if each.member_type < 0 else each.member_type == _CLASSIC_MEMBER,
        )
        for each in row.members
    )
    return GroupDescription(
        row.group_id,
        GroupType.CONSUMER,
        _CONSUMERS,
        row.group_state,
        row.assignor_name,
        members,
        node_id,
        row.group_epoch,
        row.assignment_epoch,
        operations_of(row.authorized_operations),
    )


def _partitions(
    assignment: DescribedAssignment | ShareGroupDescribeResponse.Group.Member.Assignment,
) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


# --- the classic protocol -----------------------------------------------------------------------------------------


async def _classic(routes: Routes, node_id: int, some: list[str], with_operations: bool) -> _Described:
    request = DescribeGroupsRequest(groups=some, include_authorized_operations=with_operations)
    answer: DescribeGroupsResponse = await routes.ask_coordinator(node_id, request)
    return {row.group_id: _classic_group(node_id, row) for row in answer.groups}


def _classic_group(node_id: int, row: DescribeGroupsResponse.Group) -> GroupDescription | KafkaError:
    if row.error_code:
        return failure(row.error_code, f"group {row.group_id}", row.error_message)
    if row.group_state == _DEAD:
        return _not_found(row.group_id)
    is_readable = row.protocol_type == _CONSUMERS
    members = tuple(
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _assigned(each.member_assignment) if is_readable else frozenset(),
            _subscribed(each.member_metadata) if is_readable else frozenset(),
            is_classic=True,
            metadata=bytes(each.member_metadata),
            assignment_bytes=bytes(each.member_assignment),
        )
        for each in row.members
    )
    return GroupDescription(
        row.group_id,
        GroupType.CLASSIC,
        row.protocol_type,
        row.group_state,
        row.protocol_data,
        members,
        node_id,
        authorized_operations=operations_of(row.authorized_operations),
    )


def _assigned(data: Buffer) -> frozenset[TopicPartition]:
    """Members may say what they like: what cannot be read is left to the reader of `assignment_bytes`."""
    try:
        found = decode_assignment(data)
    except ProtocolError:
        return frozenset()
    return frozenset(TopicPartition(topic, number) for topic, numbers in found.items() for number in numbers)


def _subscribed(data: Buffer) -> frozenset[str]:
    try:
        return frozenset(decode_subscription(data).topics)
    except ProtocolError:
        return frozenset()


# --- share groups -------------------------------------------------------------------------------------------------


async def _share(routes: Routes, node_id: int, some: list[str], with_operations: bool) -> _Described:
    request = ShareGroupDescribeRequest(group_ids=some, include_authorized_operations=with_operations)
    answer: ShareGroupDescribeResponse = await routes.ask_coordinator(node_id, request)
    return {row.group_id: _share_group(node_id, row) for row in answer.groups}


def _share_group(node_id: int, row: ShareGroupDescribeResponse.Group) -> GroupDescription | KafkaError:
    if row.error_code:
        return failure(row.error_code, f"group {row.group_id}", row.error_message)
    members = tuple(
        MemberDescription(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            frozenset(each.subscribed_topic_names),
            rack_id=each.rack_id,
            member_epoch=each.member_epoch,
        )
        for each in row.members
    )
    return GroupDescription(
        row.group_id,
        GroupType.SHARE,
        "share",
        row.group_state,
        row.assignor_name,
        members,
        node_id,
        row.group_epoch,
        row.assignment_epoch,
        operations_of(row.authorized_operations),
    )


_KINDS: tuple[_Kind, ...] = (_consumer, _classic, _share)
