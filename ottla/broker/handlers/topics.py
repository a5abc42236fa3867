"""Topics: create, delete, grow. The controller decides; here requests become its commands and its word the reply.

What can be judged from the request alone is judged here: a topic named twice, named in two ways, or not the caller's
to touch. Every topic of a request appears in the reply, once.
"""

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.moves import (
    alter_partition_reassignments as alter_partition_reassignments,
)
from ottla.broker.handlers.moves import elect_leaders as elect_leaders
from ottla.broker.handlers.moves import list_partition_reassignments as list_partition_reassignments
from ottla.controller.commands import Growth, NewTopic
from ottla.controller.context import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.replication.state import TopicImage
from ottla.storage.config import TopicConfig

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_DELETION_DISABLED_SINCE = 3  # before that version clients do not know the code
_SETTINGS_SINCE = 5
_Created = CreateTopicsResponse.Topic
_Deleted = DeleteTopicsResponse.Topic


# --- create -------------------------------------------------------------------------------------------------------


async def create_topics(broker: "Broker", call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Answers when the topics can be used; the timeout of the request has no meaning then."""
    counts = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    results: dict[str, TopicImage | KafkaError] = {}
    commands = []
    for name, topic in topics.items():
        fault = _creation_fault(broker, call, topic, counts[name])
        if fault:
            results[name] = fault
        else:
            commands.append(_command(topic))
    if commands:
        results |= await broker.controller.create_topics(commands, validate_only=request.validate_only)
    return CreateTopicsResponse(
        topics=[_created(broker, call, topics[name], results[name]) for name in topics]
    )


def _creation_fault(
    broker: "Broker", call: Call, topic: CreateTopicsRequest.Topic, count: int
) -> KafkaError | None:
    if count > 1:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"the request names {topic.name!r} {count} times")
    if topic.name == METADATA_TOPIC:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} cannot be created")
    allows = broker.authorizer.allows
    if not allows(call, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) and not allows(
        call, Operation.CREATE, ResourceType.TOPIC, topic.name
    ):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{topic.name!r} may not be created")
    if len({each.partition_index for each in topic.assignments}) < len(topic.assignments):
        return KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a partition of {topic.name!r} is assigned more than once"
        )
    return None


def _command(topic: CreateTopicsRequest.Topic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {each.partition_index: each.broker_ids for each in topic.assignments},
        {each.name: each.value for each in topic.configs},
    )


def _created(
    broker: "Broker", call: Call, topic: CreateTopicsRequest.Topic, result: TopicImage | KafkaError
) -> _Created:
    if isinstance(result, KafkaError):
        return _Created(name=topic.name, error_code=result.code, error_message=_message(result))
    created = _Created(name=topic.name, topic_id=result.topic_id, error_code=ErrorCode.NONE)
    if not broker.authorizer.allows(call, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        created.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return created
    created.num_partitions = len(result.partitions)
    created.replication_factor = len(result.partitions[0].replicas)
    if call.version >= _SETTINGS_SINCE:
        created.configs = _settings(broker, {each.name: each.value for each in topic.configs})
    return created


def _settings(broker: "Broker", values: Mapping[str, str | None]) -> list[_Created.Setting]:
    """What holds for a topic that was created with these values (KIP-525). Works for one that was only checked."""
    config = TopicConfig(values, broker=broker.configs.broker)
    entries = (config.describe(name) for name in config.keys)
    return [
        _Created.Setting(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in entries
    ]


# --- delete -------------------------------------------------------------------------------------------------------


async def delete_topics(broker: "Broker", call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """By name, since v6 also by id. Answers when nobody can use the topics any more."""
    asked = Counter((topic.name, topic.topic_id) for topic in request.topics)
    asked.update((name, NULL_ID) for name in request.topic_names)
    if not broker.config.delete_topic_enable:
        fault = _deletion_disabled(call.version)
        return DeleteTopicsResponse(
            responses=[_refused(name, topic_id, fault.code, fault.detail) for name, topic_id in asked]
        )
    results = [_doomed(broker, call, name, topic_id, asked[name, topic_id]) for name, topic_id in asked]
    _refuse_aliases(results)
    names = [each.name for each in results if each.name is not None and not each.error_code]
    by_id = {each.name: each.topic_id for each in results if each.name and (None, each.topic_id) in asked}
    errors = await broker.controller.delete_topics(names, by_id) if names else {}
    for each in results:
        error = errors.get(each.name or "")
        if error and not each.error_code:
            each.error_code, each.error_message = error.code, _message(error)
    return DeleteTopicsResponse(responses=results)


def _deletion_disabled(version: int) -> KafkaError:
    is_known = version >= _DELETION_DISABLED_SINCE
    code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
    return KafkaError(code, "delete.topic.enable is false")


def _doomed(broker: "Broker", call: Call, name: str | None, topic_id: uuid.UUID, count: int) -> _Deleted:
    """One topic of the request with its name and id; with an error if it must stay."""
    if (name is None) == (topic_id == NULL_ID):
        return _refused(
            name, topic_id, ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id"
        )
    if count > 1:
        return _refused(name, topic_id, ErrorCode.INVALID_REQUEST, f"the request names it {count} times")
    metadata = broker.metadata
    topic = metadata.topics.get(name) if name is not None else metadata.topic_of_id.get(topic_id)
    if topic is None and name is None:
        return _refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id")
    known_name = topic.name if topic else name
    assert known_name is not None, "either the name was given, or the id led to a topic"
    if not _may_delete(broker, call, Operation.DELETE, known_name):
        # Who may not even see the topic is not told which name belongs to an id.
        told = known_name if _may_delete(broker, call, Operation.DESCRIBE, known_name) else name
        return _refused(told, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "it may not be deleted")
    if topic is None:
        return _refused(name, NULL_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return _Deleted(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _may_delete(broker: "Broker", call: Call, operation: Operation, name: str) -> bool:
    """Who may delete in the cluster may delete, and see, every topic."""
    allows = broker.authorizer.allows
    return allows(call, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        call, operation, ResourceType.TOPIC, name
    )


def _refuse_aliases(results: list[_Deleted]) -> None:
    """A topic that was named by its name and by its id as well stays: one of the two was a mistake."""
    counts = Counter(each.name for each in results if not each.error_code)
    for each in results:
        if not each.error_code and counts[each.name] > 1:
            each.error_code = ErrorCode.INVALID_REQUEST
            each.error_message = "the request names it by its name and by its id"


def _refused(name: str | None, topic_id: uuid.UUID, code: ErrorCode, detail: str) -> _Deleted:
    return _Deleted(name=name, topic_id=topic_id, error_code=code, error_message=detail)


# --- grow ---------------------------------------------------------------------------------------------------------


async def create_partitions(
    broker: "Broker", call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Partitions can grow in number, never shrink: the controller refuses that with 37."""
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, KafkaError | None] = dict.fromkeys(counts)
    commands = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            results[topic.name] = KafkaError(
                ErrorCode.INVALID_REQUEST, f"{topic.name!r} is named more than once"
            )
        elif not broker.authorizer.allows(call, Operation.ALTER, ResourceType.TOPIC, topic.name):
            results[topic.name] = KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{topic.name!r} may not grow"
            )
        elif topic.name in INTERNAL_TOPICS:
            detail = "its number of partitions says where groups and transactions are found"
            results[topic.name] = KafkaError(ErrorCode.INVALID_PARTITIONS, detail)
        else:
            commands.append(_growth(topic))
    if commands:
        results |= await broker.controller.create_partitions(commands, validate_only=request.validate_only)
    return CreatePartitionsResponse(results=[_grown(name, error) for name, error in results.items()])


def _growth(topic: CreatePartitionsRequest.Topic) -> Growth:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    return Growth(topic.name, topic.count, assignments)


def _grown(name: str, error: KafkaError | None) -> CreatePartitionsResponse.Topic:
    if error is None:
        return CreatePartitionsResponse.Topic(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsResponse.Topic(name=name, error_code=error.code, error_message=_message(error))


def _message(error: KafkaError) -> str:
    return error.detail or error.code.meaning
