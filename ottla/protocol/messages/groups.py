"""Classic groups: find the coordinator, join, sync, beat, leave; list, describe, delete (keys 10-16, 42)."""

from ottla.protocol.schema import Bool, Bytes, Int8, Int16, Int32, String, api, field, struct


@api(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Ask which broker coordinates a group (key type 0), a transactional id (1) or a share partition (2).

    v1 added key_type, v3 flexible encoding, v4 many keys at once (KIP-699), v5 TRANSACTION_ABORTABLE, v6
    share partitions.
    """

    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)
    coordinator_keys: list[String] = field("4+", default=[])


@api(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinator's address; since v4 one for each key."""

    @struct
    class Coordinator:
        key: String
        node_id: Int32
        host: String
        port: Int32
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", default=None, ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", default=[])


@api(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Enter a classic group, or stay in it through a rebalance.

    The reply is held back until every member has joined or the rebalance times out.

    v1 split rebalance_timeout_ms from the session timeout, v4 made a first join without an id come back
    with one, v5 added static members, v6 flexible encoding, v8 the reason (KIP-800).
    """

    @struct
    class Protocol:
        name: String
        metadata: Bytes

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String
    protocols: list[Protocol]
    reason: String | None = field("8+", default=None, ignorable=True)


@api(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation; only the leader is told the members.

    v2 added the throttle time, v7 protocol_type, v9 skip_assignment.
    """

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None = field("5+", default=None, ignorable=True)
        metadata: Bytes

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    error_code: Int16
    generation_id: Int32 = field(default=-1)
    protocol_type: String | None = field("7+", default=None, ignorable=True)
    protocol_name: String | None = field(nullable="7+")
    leader: String
    skip_assignment: Bool = field("9+", default=False)
    member_id: String
    members: list[Member]


@api(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Say that a member of a classic group is alive.

    v3 added static members, v4 flexible encoding.
    """

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)


@api(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """REBALANCE_IN_PROGRESS here is how a member learns that it must join again."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16


@api(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Leave a classic group at once instead of timing out.

    v3 lets an admin remove several members, v4 is flexible, v5 adds the reason (KIP-800).
    """

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None = field(default=None)
        reason: String | None = field("5+", default=None, ignorable=True)

    group_id: String
    member_id: String = field("0-2", default="")
    members: list[Member] = field("3+", default=[])


@api(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """One error code, and since v3 one for each member."""

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None
        error_code: Int16

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16
    members: list[Member] = field("3+", default=[])


@api(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Hand in the leader's assignments (leader), or wait for one's own (everybody).

    v3 added static members, v4 flexible encoding, v5 protocol type and name to be checked against the
    group's (KIP-559).
    """

    @struct
    class Assignment:
        member_id: String
        assignment: Bytes

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignments: list[Assignment]


@api(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The assignment of the asking member."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignment: Bytes


@api(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Ask for the state and members of classic groups.

    v3 added authorized operations, v5 flexible encoding; v6 reports an unknown group as
    GROUP_ID_NOT_FOUND (KIP-1043).
    """

    groups: list[String]
    include_authorized_operations: Bool = field("3+", default=False)


@api(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """Groups with their members; metadata and assignments are filled while the group is stable."""

    @struct
    class Group:
        @struct
        class Member:
            member_id: String
            group_instance_id: String | None = field("4+", default=None, ignorable=True)
            client_id: String
            client_host: String
            member_metadata: Bytes
            member_assignment: Bytes

        error_code: Int16
        error_message: String | None = field("6+", default=None)
        group_id: String
        group_state: String
        protocol_type: String
        protocol_data: String
        members: list[Member]
        authorized_operations: Int32 = field("3+", default=-(1 << 31))

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    groups: list[Group]


@api(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """List the groups that this broker coordinates.

    v3 is the first flexible version, v4 filters by state (KIP-518), v5 by type (KIP-848).
    """

    states_filter: list[String] = field("4+", default=[])
    types_filter: list[String] = field("5+", default=[])


@api(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """Group ids with their protocol type, and since v4 and v5 their state and type."""

    @struct
    class Group:
        group_id: String
        protocol_type: String
        group_state: String = field("4+", default="", ignorable=True)
        group_type: String = field("5+", default="", ignorable=True)

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16
    groups: list[Group]


@api(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Delete groups that have no members, with their offsets.

    v2 is the first flexible version.
    """

    groups_names: list[String]


@api(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """One error code per group."""

    @struct
    class Result:
        group_id: String
        error_code: Int16

    throttle_time_ms: Int32 = field(default=0)
    results: list[Result]
