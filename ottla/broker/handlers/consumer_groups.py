"""Groups of the consumer protocol (KIP-848): the heartbeat that is all its members say, and describe."""

from typing import TYPE_CHECKING

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.asking import (
    asker_of,
    check_group,
    check_group_id,
    check_partition_count,
    group_operations,
    one_by_one,
)
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_Described = ConsumerGroupDescribeResponse.Group


async def consumer_group_heartbeat(
    broker: "Broker", call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Who subscribes to topics by name must be allowed to see each of them."""
    check_partition_count(sum(len(topic.partitions) for topic in request.topic_partitions or ()))
    check_group(broker, call, Operation.READ, request.group_id)
    for name in request.subscribed_topic_names or ():
        if not broker.authorizer.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name):
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"DESCRIBE of topic {name!r} is not allowed"
            )
    asker = asker_of(call)
    return await broker.groups.run(
        request.group_id, lambda shard, now: shard.decide_consumer_heartbeat(request, asker, now)
    )


async def consumer_group_describe(
    broker: "Broker", call: Call, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Each group by itself, in the order of the request. Who names one twice sees it once."""

    async def answer(group_id: str) -> _Described:
        try:
            check_group(broker, call, Operation.DESCRIBE, group_id)
            check_group_id(group_id)
            found = await broker.groups.read(group_id, lambda shard: shard.describe_consumer(group_id))
            _check_topics(broker, call, found)
        except KafkaError as error:
            return _undescribed(group_id, error)
        if found.error_code == ErrorCode.NONE:
            is_asked = request.include_authorized_operations
            found.authorized_operations = group_operations(broker, call, group_id, is_asked=is_asked)
        return found

    return ConsumerGroupDescribeResponse(groups=await one_by_one(dict.fromkeys(request.group_ids), answer))


def _check_topics(broker: "Broker", call: Call, group: _Described) -> None:
    """A description names topics. Who may not see one of them is not shown the group."""
    assignments = [each for member in group.members for each in (member.assignment, member.target_assignment)]
    names = {topic.topic_name for each in assignments for topic in each.topic_partitions}
    if not all(
        broker.authorizer.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names
    ):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the group has topics that the caller may not describe"
        )


def _undescribed(group_id: str, error: KafkaError) -> _Described:
    return _Described(
        error_code=error.code,
        error_message=error.detail,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
