"""Committed offsets: commit them, fetch them, delete them.

One topic that is unknown, or not the caller's to read, is answered for by itself while the rest goes on. Every topic
and partition of a request appears in its reply, in the order in which it was asked for.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.asking import (
    asker_of,
    check_group,
    check_group_id,
    check_partition_count,
    one_by_one,
)
from ottla.broker.handlers.sieve import Sieve, name_topics
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID, TopicPartition
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

IDS_SINCE = 10
"""From this version of OffsetCommit and OffsetFetch on topics go by their ids."""
MANY_GROUPS_SINCE = 8

_Asked = OffsetFetchRequest.Group
_Fetched = OffsetFetchResponse.Group
_FetchedTopic = OffsetFetchResponse.Group.Topic


# --- commit -------------------------------------------------------------------------------------------------------


async def offset_commit(broker: "Broker", call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Version 0, which once wrote to ZooKeeper, commits here like the others."""
    check_group(broker, call, Operation.READ, request.group_id)
    sieve = Sieve(broker, call, request.topics, by_id=call.version >= IDS_SINCE)
    if sieve.accepted:
        accepted = dataclasses.replace(request, topics=sieve.accepted)
        asker = asker_of(call)
        try:
            committed = await broker.groups.run(
                request.group_id, lambda shard, now: shard.decide_commit(accepted, asker, now)
            )
            sieve.fill(committed)
        except KafkaError as error:
            sieve.fail(error)
    _tell(broker, request.group_id, sieve)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            for topic, partitions in sieve.answers(OffsetCommitResponse.Topic.Partition)
        ]
    )


def _tell(broker: "Broker", group_id: str, sieve: Sieve) -> None:
    """Let those know who watch the broker."""
    for observer in broker.observers:
        for topic, partition in sieve.succeeded():
            place = TopicPartition(topic.name, partition.partition_index)
            observer.committed(group_id, place, partition.committed_offset)


# --- delete -------------------------------------------------------------------------------------------------------


async def offset_delete(broker: "Broker", call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """The group is asked in any case: that it does not exist is worth more than that a topic does not."""
    check_group(broker, call, Operation.DELETE, request.group_id)
    check_group_id(request.group_id)
    sieve = Sieve(broker, call, request.topics)
    accepted = dataclasses.replace(request, topics=sieve.accepted)
    deleted = await broker.groups.run(
        request.group_id, lambda shard, now: shard.decide_delete_offsets(accepted, now)
    )
    if deleted.error_code:
        return deleted
    sieve.fill(deleted)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponse.Topic(name=topic.name, partitions=partitions)
            for topic, partitions in sieve.answers(OffsetDeleteResponse.Topic.Partition)
        ],
    )


# --- fetch --------------------------------------------------------------------------------------------------------


async def offset_fetch(broker: "Broker", call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Since v8 many groups, each with an error of its own. Before that one, and its error is that of the reply."""
    if call.version >= MANY_GROUPS_SINCE:
        _check_amount(request.groups)

        async def answer(group: _Asked) -> _Fetched:
            try:
                return await _fetched(broker, call, group, request.require_stable)
            except KafkaError as error:
                return _Fetched(group_id=group.group_id, topics=[], error_code=error.code)

        return OffsetFetchResponse(groups=await one_by_one(request.groups, answer))
    topics = None if request.topics is None else [_asked(topic) for topic in request.topics]
    group = _Asked(group_id=request.group_id, topics=topics)
    _check_amount([group])
    found = await _fetched(broker, call, group, request.require_stable)
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code))
    return OffsetFetchResponse(topics=[_alone(topic) for topic in found.topics])


def _check_amount(groups: Sequence[_Asked]) -> None:
    """A few bytes must not ask for more than the broker can hold: neither by many numbers nor by naming one group again
    and again."""
    check_partition_count(
        sum(len(topic.partition_indexes) for group in groups for topic in group.topics or ())
    )
    entire = [group.group_id for group in groups if group.topics is None]
    if len(set(entire)) < len(entire):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "everything of one group is asked for more than once")


def _asked(topic: OffsetFetchRequest.Topic) -> _Asked.Topic:
    return _Asked.Topic(name=topic.name, partition_indexes=topic.partition_indexes)


def _alone(topic: _FetchedTopic) -> OffsetFetchResponse.Topic:
    """The topic as it was written when there was one group only."""
    return OffsetFetchResponse.Topic(
        name=topic.name,
        partitions=[
            OffsetFetchResponse.Topic.Partition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )


async def _fetched(broker: "Broker", call: Call, group: _Asked, require_stable: bool) -> _Fetched:
    check_group(broker, call, Operation.DESCRIBE, group.group_id)
    if group.topics is None:
        return await _fetched_all(broker, call, group, require_stable)
    by_id = call.version >= IDS_SINCE
    if by_id:
        name_topics(broker, group.topics)
    faults = [_topic_fault(broker, call, topic.name, by_id=by_id) for topic in group.topics]
    accepted = dataclasses.replace(
        group, topics=[topic for topic, fault in zip(group.topics, faults, strict=True) if not fault]
    )
    found = await broker.groups.read(
        group.group_id, lambda shard: shard.fetch_offsets(accepted, require_stable)
    )
    if not found.error_code:
        answers = iter(found.topics)
        found.topics = [
            _refused(topic, fault) if fault else next(answers)
            for topic, fault in zip(group.topics, faults, strict=True)
        ]
    return found


async def _fetched_all(broker: "Broker", call: Call, group: _Asked, require_stable: bool) -> _Fetched:
    """Topics that the caller may not see are left out, and so are those whose ids nobody knows any more."""
    found = await broker.groups.read(group.group_id, lambda shard: shard.fetch_offsets(group, require_stable))
    found.topics = [each for each in found.topics if _may_describe(broker, call, each.name)]
    if call.version >= IDS_SINCE:
        for topic in found.topics:
            image = broker.metadata.topics.get(topic.name)
            topic.topic_id = image.topic_id if image is not None else NULL_ID
        found.topics = [topic for topic in found.topics if topic.topic_id != NULL_ID]
    return found


def _topic_fault(broker: "Broker", call: Call, name: str, *, by_id: bool) -> ErrorCode:
    """NONE if its offsets can be looked up. One by a name that nobody knows has none, which is no fault."""
    if by_id and not name:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.NONE if _may_describe(broker, call, name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _may_describe(broker: "Broker", call: Call, name: str) -> bool:
    return broker.authorizer.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name)


def _refused(topic: _Asked.Topic, code: ErrorCode) -> _FetchedTopic:
    return _FetchedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            _FetchedTopic.Partition(partition_index=each, committed_offset=-1, metadata="", error_code=code)
            for each in topic.partition_indexes
        ],
    )
