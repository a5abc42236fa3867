"""What the cluster looks like and what it speaks: ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions.

Names of topics that the caller may not see are not given away, neither by an id nor by the difference between
"denied" and "unknown".
"""

import asyncio
import dataclasses
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.apis import FEATURES, SERVED
from ottla.broker.authorizer import (
    CLUSTER_NAME,
    NOT_ASKED,
    Operation,
    ResourceType,
    authorized_operations,
)
from ottla.broker.call import Call
from ottla.broker.views import Topic, Views, views_of
from ottla.controller.commands import NewTopic
from ottla.controller.context import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID, is_topic_name
from ottla.protocol.messages.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    Cursor,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from ottla.replication.state import TopicImage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

API_VERSIONS = 18
BROKERS, CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""

_IDS_SINCE = 12  # v10 and v11 have the field, but no broker ever served it
_LEVEL_ZERO_SINCE = 4  # older clients fail on a feature whose lowest level is 0
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_TOPICS_AT_A_TIME = 1000
GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72
_API_KEYS = [
    ApiVersionsResponse.ApiVersion(api_key=row.key, min_version=row.min_version, max_version=row.max_version)
    for row in SERVED.values()
    if row.is_listed
]
# Clients that see these ask for subscriptions at once, and some say so on stderr: only for who has subscribed.
_QUIET_API_KEYS = [
    row for row in _API_KEYS if row.api_key not in (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
]
_Described = DescribeTopicPartitionsResponse.Topic


# --- ApiVersions --------------------------------------------------------------------------------------------------


def api_versions(broker: "Broker", call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table of what is served, and the features that are in force."""
    names = (request.client_software_name, request.client_software_version)
    if call.version >= 3 and not all(_SOFTWARE.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    shown = [each for each in FEATURES if each.min_level > 0 or call.version >= _LEVEL_ZERO_SINCE]
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=_API_KEYS if broker.configs.client_metrics else _QUIET_API_KEYS,
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name=each.name, min_version=each.min_level, max_version=each.max_level
            )
            for each in shown
        ],
        finalized_features_epoch=0 if FEATURES else -1,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(
                name=each.name, max_version_level=each.finalized_level, min_version_level=each.finalized_level
            )
            for each in FEATURES
        ],
    )


def unsupported_api_versions() -> ApiVersionsResponse:
    """The reply to a version of ApiVersions that we do not speak. It must be sent in the form of v0, which every
    client can read; from the one row in it the client learns which version to try next (KIP-511)."""
    row = next(each for each in _API_KEYS if each.api_key == API_VERSIONS)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])


# --- Metadata -----------------------------------------------------------------------------------------------------


async def metadata(broker: "Broker", call: Call, request: MetadataRequest) -> MetadataResponse:
    """Brokers and topics. A topic that does not exist is created, if that is allowed, before the reply is sent."""
    asked = request.topics
    if asked is None or (not asked and call.version == 0):
        views = views_of(broker.metadata, call.connection.listener, call.version)
        images = broker.metadata.topics.values()
        topics = [views.topic(image) for image in images if _may_describe(broker, call, image.name)]
    else:
        names, ids = _asked_topics(asked, call.version)
        failures = await _create_missing(broker, call, names, request)
        views = views_of(broker.metadata, call.connection.listener, call.version)
        topics = [_by_id(broker, call, views, topic_id) for topic_id in ids]
        for start in range(0, len(names), _TOPICS_AT_A_TIME):
            chunk = names[start : start + _TOPICS_AT_A_TIME]
            topics += [_by_name(broker, call, views, name, failures) for name in chunk]
            if len(chunk) == _TOPICS_AT_A_TIME:
                await asyncio.sleep(0)  # somebody may have made up thousands of names
    if request.include_topic_authorized_operations:
        topics = [_with_operations(broker, call, topic) for topic in topics]
    return MetadataResponse(
        brokers=_brokers(views),
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        topics=topics,
        cluster_authorized_operations=_cluster_operations(
            broker, call, request.include_cluster_authorized_operations
        ),
    )


def _asked_topics(asked: Sequence[MetadataRequest.Topic], version: int) -> tuple[list[str], list[uuid.UUID]]:
    """Names and ids, each once."""
    names: dict[str, None] = {}
    ids: dict[uuid.UUID, None] = {}
    for topic in asked:
        if topic.topic_id != NULL_ID:
            if version < _IDS_SINCE:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic ids are served since v{_IDS_SINCE}")
            ids[topic.topic_id] = None
        elif topic.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic has neither a name nor an id")
        else:
            names[topic.name] = None
    return list(names), list(ids)


async def _create_missing(
    broker: "Broker", call: Call, names: Iterable[str], request: MetadataRequest
) -> Mapping[str, ErrorCode]:
    """Create those topics that can be created, and say why others could not. Coordinators create their own."""
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return {}
    known = broker.metadata.topics
    candidates = [
        name
        for name in names
        if name not in known
        and name not in INTERNAL_TOPICS
        and name != METADATA_TOPIC
        and is_topic_name(name)
        and _may_describe(broker, call, name)
    ]
    creatable = [name for name in candidates if _may_create(broker, call, name)]
    failures = dict.fromkeys(candidates, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if creatable:
        results = await broker.to_controller.create_topics([NewTopic(name) for name in creatable])
        for name in creatable:
            failures[name] = _creation_failure(results[name])
    return failures


def _creation_failure(result: TopicImage | KafkaError) -> ErrorCode:
    """What a client is told if the topic is not there after all."""
    if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        return result.code
    return ErrorCode.LEADER_NOT_AVAILABLE  # somebody deletes it at this very moment: ask again


def _by_name(
    broker: "Broker", call: Call, views: Views, name: str, failures: Mapping[str, ErrorCode]
) -> Topic:
    if not _may_describe(broker, call, name):
        return Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, partitions=[])
    image = broker.metadata.topics.get(name)
    if image is not None:
        return views.topic(image)
    error = failures.get(name) or _why_unknown(name)
    return Topic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS, partitions=[])


def _by_id(broker: "Broker", call: Call, views: Views, topic_id: uuid.UUID) -> Topic:
    image = broker.metadata.topic_of_id.get(topic_id)
    if image is None:
        return Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[])
    if not _may_describe(broker, call, image.name):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return Topic(error_code=denied, name=None, topic_id=topic_id, partitions=[])
    return views.topic(image)


def _why_unknown(name: str) -> ErrorCode:
    is_legal = is_topic_name(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION


def _may_describe(broker: "Broker", call: Call, name: str) -> bool:
    return broker.authorizer.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name)


def _may_create(broker: "Broker", call: Call, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(call, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        call, Operation.CREATE, ResourceType.TOPIC, name
    )


def _with_operations(broker: "Broker", call: Call, topic: Topic) -> Topic:
    """A copy, for the topics of a view are shared."""
    if topic.name is None or topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return topic
    bits = authorized_operations(broker.authorizer, call, ResourceType.TOPIC, topic.name)
    return dataclasses.replace(topic, topic_authorized_operations=bits)


def _cluster_operations(broker: "Broker", call: Call, is_asked: bool) -> int:
    if not is_asked:
        return NOT_ASKED
    if not broker.authorizer.allows(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(broker.authorizer, call, ResourceType.CLUSTER, CLUSTER_NAME)


def _brokers(views: Views) -> list[MetadataResponse.Broker]:
    return [
        MetadataResponse.Broker(
            node_id=node_id, host=endpoint.host, port=endpoint.port, rack=views.brokers[node_id].rack
        )
        for node_id, endpoint in views.endpoints.items()
    ]


# --- DescribeCluster ----------------------------------------------------------------------------------------------


def describe_cluster(
    broker: "Broker", call: Call, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """The brokers. There is no endpoint at which controllers could be asked."""
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        detail = f"this endpoint is of type {BROKERS}, a broker; {request.endpoint_type} was asked for"
        return DescribeClusterResponse(error_code=code, error_message=detail, cluster_id="", brokers=[])
    views = views_of(broker.metadata, call.connection.listener, _IDS_SINCE)
    controller_id = broker.metadata.controller_id
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=broker.cluster_id,
        controller_id=controller_id if controller_id in views.endpoints else -1,
        brokers=[
            DescribeClusterResponse.Broker(
                broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in _brokers(views)
        ],
        cluster_authorized_operations=_cluster_operations(
            broker, call, request.include_cluster_authorized_operations
        ),
    )


# --- DescribeTopicPartitions --------------------------------------------------------------------------------------


def describe_topic_partitions(
    broker: "Broker", call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """One page of topics in the order of their names. The cursor of its reply starts the next one."""
    views = views_of(broker.metadata, call.connection.listener, _IDS_SINCE)
    room = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in _names_from(broker, request):
        image = broker.metadata.topics.get(name)
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        if not _may_describe(broker, call, name):
            if request.topics:
                response.topics.append(_unknown(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif image is None:
            response.topics.append(_unknown(name, _why_unknown(name)))
        else:
            start = _start(request.cursor, name)
            end = min(len(image.partitions), start + room)
            response.topics.append(_page(broker, call, views, image, start, end))
            if end < len(image.partitions):
                response.next_cursor = Cursor(topic_name=name, partition_index=end)
                break
            room -= max(0, end - start)
    return response


def _names_from(broker: "Broker", request: DescribeTopicPartitionsRequest) -> list[str]:
    """The names to describe, from the cursor's on."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics} or set(broker.metadata.topics)
    if cursor is None:
        return sorted(names)
    if cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the cursor is at partition {cursor.partition_index}")
    if request.topics and cursor.topic_name not in names:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the cursor is at {cursor.topic_name!r}, not in the list"
        )
    return sorted(name for name in names if name >= cursor.topic_name)


def _start(cursor: Cursor | None, name: str) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _page(broker: "Broker", call: Call, views: Views, image: TopicImage, start: int, end: int) -> _Described:
    return _Described(
        error_code=ErrorCode.NONE,
        name=image.name,
        topic_id=image.topic_id,
        is_internal=image.is_internal,
        partitions=[
            _Described.Partition(
                error_code=ErrorCode.NONE,
                partition_index=state.partition,
                leader_id=views.leader(state),
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=list(state.elr),
                last_known_elr=[],
                offline_replicas=views.offline(state),
            )
            for state in image.partitions[start:end]
        ],
        topic_authorized_operations=authorized_operations(
            broker.authorizer, call, ResourceType.TOPIC, image.name
        ),
    )


def _unknown(name: str, code: ErrorCode) -> _Described:
    is_internal = name in INTERNAL_TOPICS
    return _Described(error_code=code, name=name, topic_id=NULL_ID, is_internal=is_internal, partitions=[])
