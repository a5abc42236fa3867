"""Classic groups: find who coordinates them, join, sync, beat, leave; list, describe, delete.

The group itself is the coordinator's: here is decided who may ask, what can be refused without looking at the group,
and what clients of older versions are told instead. Replies keep the order of the request.
"""

import dataclasses
from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.asking import (
    ELSEWHERE_OR_LATER,
    asker_of,
    check_group,
    check_group_id,
    check_transactional_id,
    group_operations,
    one_by_one,
)
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Whose coordinator is looked for."""

_MANY_KEYS_SINCE = 4
_SHARE_SINCE = 6
_MEMBERS_SINCE = 3
"""LeaveGroup: before this version one member leaves, and its error is the only one."""
_NULL_PROTOCOL_SINCE = 7
_PROTOCOL_TOLD_SINCE = 5
_MESSAGES_SINCE = 6

_Found = FindCoordinatorResponse.Coordinator
_Described = DescribeGroupsResponse.Group


# --- find ---------------------------------------------------------------------------------------------------------


async def find_coordinator(
    broker: "Broker", call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Up to v3 one key and one answer, since v4 one answer for each key."""
    if call.version >= _MANY_KEYS_SINCE:

        async def answer(key: str) -> _Found:
            return await _found(broker, call, request.key_type, key)

        return FindCoordinatorResponse(coordinators=await one_by_one(request.coordinator_keys, answer))
    found = await _found(broker, call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _found(broker: "Broker", call: Call, key_type: int, key: str) -> _Found:
    try:
        _check_key(broker, call, key_type, key)
        coordinator = broker.groups if key_type == GROUP else broker.transactions
        node_id = await coordinator.find(key)
        node = broker.metadata.brokers.get(node_id)
        endpoint = node.endpoint(call.connection.listener) if node is not None else None
        if endpoint is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"broker {node_id} coordinates {key!r}, but not within reach of {call.connection.listener}",
            )
    except KafkaError as error:
        return _Found(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.detail
        )
    return _Found(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port, error_code=ErrorCode.NONE)


def _check_key(broker: "Broker", call: Call, key_type: int, key: str) -> None:
    """May the caller know who coordinates this, and can there be anybody?"""
    if key_type == GROUP:
        check_group(broker, call, Operation.DESCRIBE, key)
    elif key_type == TRANSACTION:
        check_transactional_id(broker, call, Operation.DESCRIBE, key)
    elif key_type != SHARE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    elif call.version < _SHARE_SINCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"share partitions came with v{_SHARE_SINCE}")
    elif not broker.authorizer.allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers ask for share coordinators")
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "this broker serves no share groups")


# --- members ------------------------------------------------------------------------------------------------------


async def join_group(broker: "Broker", call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Answered when the rebalance is over, which may take minutes."""
    check_group(broker, call, Operation.READ, request.group_id)
    asker = asker_of(call)
    try:
        check_group_id(request.group_id)
        _check_size(broker, request)
        response = await broker.groups.run_with_ticket(
            request.group_id, lambda shard, ticket, now: shard.decide_join(request, asker, ticket, now)
        )
    except KafkaError as error:
        if error.code in ELSEWHERE_OR_LATER:
            raise
        response = _not_joined(request, error.code)
    # The response may be shared with the group's memory: what this version calls "no protocol" goes into a copy.
    nothing = None if call.version >= _NULL_PROTOCOL_SINCE else ""
    return response if response.protocol_name else dataclasses.replace(response, protocol_name=nothing)


def _check_size(broker: "Broker", request: JoinGroupRequest) -> None:
    """What a member says to the assignors becomes part of a record. If it can never fit, it is not kept in memory."""
    size_max = broker.groups.shard_of(request.group_id).partition.config.max_message_bytes
    size = sum(len(each.name) + len(each.metadata) for each in request.protocols)
    if size > size_max:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{size} bytes of metadata do not fit into a record of {size_max}"
        )


def _not_joined(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    """Kafka says which member was refused."""
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id=request.member_id, members=[]
    )


async def sync_group(broker: "Broker", call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Answered when the leader has handed in the assignments."""
    if call.version >= _PROTOCOL_TOLD_SINCE and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the type and the name of the protocol must be given"
        )
    check_group(broker, call, Operation.READ, request.group_id)
    check_group_id(request.group_id)
    asker = asker_of(call)
    return await broker.groups.run_with_ticket(
        request.group_id, lambda shard, ticket, now: shard.decide_sync(request, asker, ticket, now)
    )


async def heartbeat(broker: "Broker", call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """While the group is being loaded nobody can know better than the member itself: it lives."""
    check_group(broker, call, Operation.READ, request.group_id)
    check_group_id(request.group_id)
    asker = asker_of(call)
    try:
        return await broker.groups.run(
            request.group_id, lambda shard, now: shard.decide_heartbeat(request, asker, now)
        )
    except KafkaError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return HeartbeatResponse(error_code=ErrorCode.NONE)


async def leave_group(broker: "Broker", call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """The coordinator is always given a list of members, and an old client the one error in it."""
    check_group(broker, call, Operation.READ, request.group_id)
    check_group_id(request.group_id)
    if call.version < _MEMBERS_SINCE:
        request.members = [LeaveGroupRequest.Member(member_id=request.member_id)]
    asker = asker_of(call)
    try:
        response = await broker.groups.run(
            request.group_id, lambda shard, now: shard.decide_leave(request, asker, now)
        )
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise
        response = _unknown_members(request)
    if call.version >= _MEMBERS_SINCE:
        return response
    code = response.error_code or next((each.error_code for each in response.members), ErrorCode.NONE)
    return LeaveGroupResponse(error_code=code)


def _unknown_members(request: LeaveGroupRequest) -> LeaveGroupResponse:
    """There is no such group: each of its members is told, as they would be by a group that does not know them."""
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            LeaveGroupResponse.Member(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for each in request.members
        ],
    )


# --- groups -------------------------------------------------------------------------------------------------------


async def describe_groups(
    broker: "Broker", call: Call, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """A group that does not exist is dead; since v6 it is an error as well. Who names one twice sees it once."""
    asker = asker_of(call)

    async def answer(group_id: str) -> _Described:
        try:
            check_group(broker, call, Operation.DESCRIBE, group_id)
            found = await broker.groups.read(group_id, lambda shard: shard.describe(group_id, asker))
        except KafkaError as error:
            return _undescribed(group_id, error, call.version)
        if found.error_code == ErrorCode.NONE:
            is_asked = request.include_authorized_operations
            found.authorized_operations = group_operations(broker, call, group_id, is_asked=is_asked)
        return found

    return DescribeGroupsResponse(groups=await one_by_one(dict.fromkeys(request.groups), answer))


def _undescribed(group_id: str, error: KafkaError, version: int) -> _Described:
    return _Described(
        error_code=error.code,
        error_message=error.detail if version >= _MESSAGES_SINCE else None,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


async def list_groups(broker: "Broker", call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups of this broker that the caller may see. Half of them would look like all: so none while loading."""
    if broker.groups.is_loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups are being loaded")
    lists = await broker.groups.read_all(
        lambda shard: shard.list(request.states_filter, request.types_filter)
    )
    groups = [group for each in lists for group in each]
    for each in groups:
        each.group_type = each.group_type.lower()  # as Kafka writes it
    allows = broker.authorizer.allows
    if not allows(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        groups = [
            each for each in groups if allows(call, Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
        ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)


async def delete_groups(broker: "Broker", call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Each group by itself: one that cannot go does not keep the others."""

    async def answer(group_id: str) -> DeleteGroupsResponse.Result:
        try:
            check_group(broker, call, Operation.DELETE, group_id)
            await broker.groups.run(group_id, lambda shard, now: shard.decide_delete_group(group_id, now))
        except KafkaError as error:
            return DeleteGroupsResponse.Result(group_id=group_id, error_code=error.code)
        return DeleteGroupsResponse.Result(group_id=group_id, error_code=ErrorCode.NONE)

    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=await one_by_one(names, answer))
