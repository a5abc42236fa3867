"""Groups: list and delete them, and send their members away."""

from collections.abc import Iterable

from ottla.client.admin.group_descriptions import describe
from ottla.client.admin.group_values import GroupDescription, GroupListing, GroupType
from ottla.client.admin.routes import Answers, Client, Routes, all_of, check, outcome, the_one
from ottla.client.cluster import GROUP
from ottla.client.deadline import Deadline
from ottla.client.errors import UnsupportedVersionError
from ottla.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

_STATES_SINCE, _TYPES_SINCE = 4, 5  # ListGroups
_MANY_SINCE = 3  # LeaveGroup


async def list_groups(
    admin: Client,
    *,
    states: Iterable[str] = (),
    types: Iterable[GroupType | str] = (),
    protocol_types: Iterable[str] | None = None,
    timeout_ms: float | None = None,
) -> dict[str, GroupListing]:
    """The groups of all brokers by id: all, or those in one of these states, of one of these types.

    A protocol type is what a classic group is used for, such as `consumer`; the empty one is a group that only keeps
    offsets.
    """
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    request = ListGroupsRequest(
        states_filter=list(states), types_filter=[str(each).lower() for each in types]
    )
    wanted = None if protocol_types is None else set(protocol_types)

    async def ask_one(node_id: int, _: list[int]) -> Answers[int, list[ListGroupsResponse.Group]]:
        version = await routes.cluster.version_of(node_id, ListGroupsRequest)
        if (request.states_filter and version < _STATES_SINCE) or (
            request.types_filter and version < _TYPES_SINCE
        ):
            sentence = f"broker {node_id} cannot choose groups by state or type: it has ListGroups v{version}"
            raise UnsupportedVersionError(sentence)
        answer: ListGroupsResponse = await routes.cluster.ask(node_id, request)
        check(answer.error_code, f"the groups of broker {node_id}")
        return {node_id: answer.groups}

    async def ask(some: list[int]) -> Answers[int, list[ListGroupsResponse.Group]]:
        return await routes.from_brokers({each: [each] for each in some}, ask_one)

    failed = "the groups were not listed"
    brokers = await routes.patient(routes.brokers, deadline, failed)
    answers = await routes.settle(brokers, ask, deadline, failed)
    rows = [row for each in all_of(answers, "the listing of groups").values() for row in each]
    found = {row.group_id: _listing(row) for row in sorted(rows, key=lambda row: row.group_id)}
    return {key: each for key, each in found.items() if wanted is None or each.protocol_type in wanted}


def _listing(row: ListGroupsResponse.Group) -> GroupListing:
    return GroupListing(row.group_id, GroupType.parse(row.group_type), row.protocol_type, row.group_state)


async def describe_groups(
    admin: Client,
    group_ids: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout_ms: float | None = None,
) -> dict[str, GroupDescription]:
    """Groups of any kind with their members, and what each has."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    answers = await describe(routes, group_ids, include_authorized_operations, deadline)
    return all_of(answers, "the description of groups")


async def describe_group(
    admin: Client,
    group_id: str,
    *,
    include_authorized_operations: bool = False,
    timeout_ms: float | None = None,
) -> GroupDescription:
    """One group."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    return the_one(await describe(routes, [group_id], include_authorized_operations, deadline))


async def delete_groups(admin: Client, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
    """Delete groups that have no members, with the offsets that they committed."""
    all_of(await _delete(admin._routes, group_ids, timeout_ms), "the deletion of groups")


async def delete_group(admin: Client, group_id: str, *, timeout_ms: float | None = None) -> None:
    """Delete one group."""
    the_one(await _delete(admin._routes, [group_id], timeout_ms))


async def _delete(routes: Routes, group_ids: Iterable[str], timeout_ms: float | None) -> Answers[str, None]:
    async def ask_one(node_id: int, some: list[str]) -> Answers[str, None]:
        answer: DeleteGroupsResponse = await routes.ask_coordinator(
            node_id, DeleteGroupsRequest(groups_names=some)
        )
        rows = answer.results
        return {row.group_id: outcome(row.error_code, f"group {row.group_id}", None, None) for row in rows}

    async def ask(some: list[str]) -> Answers[str, None]:
        return await routes.by_coordinator(GROUP, some, ask_one)

    return await routes.settle(group_ids, ask, routes.deadline(timeout_ms), "the groups were not deleted")


async def remove_group_members(
    admin: Client,
    group_id: str,
    group_instance_ids: Iterable[str] | None = None,
    *,
    reason: str = "",
    timeout_ms: float | None = None,
) -> None:
    """Send static members away, by the ids that they chose; or with None all members, whatever they are.

    A member that still runs finds out, and joins again if it may.
    """
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    kind = LeaveGroupRequest.Member
    if group_instance_ids is None:
        leaving = await _all_members(routes, group_id, deadline)
    else:
        leaving = {each: kind(member_id="", group_instance_id=each) for each in group_instance_ids}
    for member in leaving.values():
        member.reason = f"removed by an admin client{f': {reason}' if reason else ''}"

    async def ask(node_id: int, some: list[str]) -> Answers[str, None]:
        version = await routes.cluster.version_of(node_id, LeaveGroupRequest)
        if version < _MANY_SINCE:
            sentence = f"broker {node_id} lets members leave by themselves only: it has LeaveGroup v{version}"
            raise UnsupportedVersionError(sentence)
        request = LeaveGroupRequest(group_id=group_id, members=[leaving[each] for each in some])
        answer: LeaveGroupResponse = await routes.ask_coordinator(node_id, request, version=version)
        check(answer.error_code, f"group {group_id}")
        return {
            (key := row.group_instance_id or row.member_id): outcome(
                row.error_code, f"member {key} of group {group_id}", None, None
            )
            for row in answer.members
        }

    async def attempt(some: list[str]) -> Answers[str, None]:
        return await routes.group(group_id, lambda node_id: ask(node_id, some), deadline, failed)

    failed = f"the members of group {group_id} were not removed"
    answers = await routes.settle(leaving, attempt, deadline, failed)
    all_of(answers, f"the removal of members of group {group_id}")


async def _all_members(
    routes: Routes, group_id: str, deadline: Deadline
) -> dict[str, LeaveGroupRequest.Member]:
    found = the_one(await describe(routes, [group_id], False, deadline))
    kind = LeaveGroupRequest.Member
    return {
        each.group_instance_id or each.member_id: kind(
            member_id=each.member_id, group_instance_id=each.group_instance_id
        )
        for each in found.members
    }
