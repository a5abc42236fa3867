"""What goes into a KIP-848 group and comes out of it: heartbeats are checked and taken in, members are shown."""

from collections.abc import Sequence

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_member import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    NOTHING,
    Member,
    Partitions,
    listed,
    partitions_of,
)
from ottla.groups.consumer_state import ConsumerState
from ottla.groups.consumer_target import check_assignor
from ottla.groups.group import Asker, Topics
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedTopic,
    TopicPartitions,
)

_OWN_IDS_SINCE = 1  # the version from which on members make their ids (KIP-1082)
_CLASSIC, _CONSUMER = 0, 1  # member types (KIP-1099)


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignor_names: Sequence[str]
) -> None:
    """Raises INVALID_REQUEST for what makes no sense, UNSUPPORTED_ASSIGNOR for what the broker does not have."""
    epoch = request.member_epoch
    if epoch < LEAVES_FOR_A_WHILE:
        raise _invalid(f"MemberEpoch {epoch} is invalid.")
    if not request.group_id:
        raise _invalid("GroupId can't be empty.")
    if not request.member_id and (epoch != 0 or api_version >= _OWN_IDS_SINCE):
        raise _invalid("MemberId can't be empty.")
    if request.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if epoch == 0:
        _check_join(request)
    elif request.rebalance_timeout_ms != -1 and request.rebalance_timeout_ms <= 0:
        raise _invalid(f"RebalanceTimeoutMs {request.rebalance_timeout_ms} is invalid.")
    check_assignor(request.server_assignor, assignor_names)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms <= 0:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)


def leaves(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE)


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """What the member says it holds; None when it does not say."""
    return None if request.topic_partitions is None else partitions_of(request.topic_partitions)


def taken_in(member: Member, request: ConsumerGroupHeartbeatRequest, asker: Asker) -> Member:
    """The member after what it says of itself. What it leaves out stays as it was; an empty pattern takes it back."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else member.rebalance_timeout_ms,
        assignor=request.server_assignor if request.server_assignor is not None else member.assignor,
        topic_names=frozenset(names) if names is not None else member.topic_names,
        topic_regex=(regex or None) if regex is not None else member.topic_regex,
        client_id=asker.client_id,
        client_host=asker.client_host,
        classic=None,
    )


def heartbeat_reply(
    request: ConsumerGroupHeartbeatRequest, before: Member, after: Member, interval_ms: int
) -> ConsumerGroupHeartbeatResponse:
    """The member's epoch; its assignment when that changed, or when it told all of itself: it may have lost it."""
    tells_all = request.member_epoch == 0 or (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    assignment = None
    if tells_all or before.assigned != after.assigned:
        assignment = ConsumerGroupHeartbeatResponse.Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in listed(after.assigned)
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=after.id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def farewell(member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=0
    )


def described(
    group_id: str, state_name: str, state: ConsumerState, assignor: str, topics: Topics
) -> ConsumerGroupDescribeResponse.Group:
    """The group as administrators see it. Topics that are gone are left out."""
    return ConsumerGroupDescribeResponse.Group(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=state_name,
        group_epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=assignor,
        members=[
            ConsumerGroupDescribeResponse.Group.Member(
                member_id=member.id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topic_names),
                subscribed_topic_regex=member.topic_regex or "",
                assignment=_named(member.assigned, topics),
                target_assignment=_named(state.targets.get(member.id, NOTHING), topics),
                member_type=_CONSUMER if member.classic is None else _CLASSIC,
            )
            for member in state.members.values()
        ],
    )


def _named(partitions: Partitions, topics: Topics) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopic(topic_id=topic_id, topic_name=image.name, partitions=indexes)
            for topic_id, indexes in listed(partitions)
            if (image := topics.topic_of_id.get(topic_id)) is not None
        ]
    )
