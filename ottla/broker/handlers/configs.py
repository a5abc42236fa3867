"""Settings: describe them, change them, list what has some.

What a request means is worked out here: which resource, which keys, what appending to a list makes of it. Whether
the result may be is for `Configs.check` to say, and the controller stores it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ottla.broker import loggers
from ottla.broker.authorizer import CLUSTER_NAME, Operation
from ottla.broker.authorizer import ResourceType as Guarded
from ottla.broker.call import Call
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.config import Config, Entry, Source, WireType
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.core.ids import topic_name_fault
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

_BROKER_LOGGER_SOURCE = 6
_Described = DescribeConfigsResponse.Resource
_Setting = DescribeConfigsResponse.Resource.Setting
_Values: TypeAlias = dict[str, str | None]
R = TypeVar("R", AlterConfigsRequest.Resource, IncrementalAlterConfigsRequest.Resource)

_GUARDED: dict[ResourceType, tuple[Guarded, ErrorCode]] = {
    ResourceType.TOPIC: (Guarded.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (Guarded.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""What permission is asked for; everything else is the cluster's."""


class Change(IntEnum):
    """What IncrementalAlterConfigs does to a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# --- describe -----------------------------------------------------------------------------------------------------


def describe_configs(
    broker: "Broker", call: Call, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Every resource is answered, one that fails with its error."""
    results = []
    for asked in request.resources:
        described = _Described(
            error_code=ErrorCode.NONE,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
        try:
            resource = _resource(
                broker, call, asked.resource_type, asked.resource_name, Operation.DESCRIBE_CONFIGS
            )
            described.configs = _settings(broker, call, resource, asked.configuration_keys, request)
        except KafkaError as error:
            described.error_code, described.error_message = error.code, error.detail
        results.append(described)
    return DescribeConfigsResponse(results=results)


def _settings(
    broker: "Broker",
    call: Call,
    resource: ConfigResource,
    keys: Sequence[str] | None,
    request: DescribeConfigsRequest,
) -> list[_Setting]:
    wanted = set(keys) if keys else None  # an empty list asks for all of them, as null does
    if resource.type is ResourceType.BROKER_LOGGER:
        _check_own(broker, resource)
        levels = loggers.levels().items()
        return [_logger_setting(name, level) for name, level in levels if wanted is None or name in wanted]
    config = broker.configs.get(resource)
    entries: Iterable[Entry] = (
        config.describe(name) for name in config.keys if wanted is None or name in wanted
    )
    if resource == (ResourceType.BROKER, ""):
        entries = (shared for entry in entries if (shared := _for_all_brokers(entry)) is not None)
    settings = [_setting(entry, request) for entry in entries]
    if call.version == 0:
        # It asks of a topic whether it has set the key itself, whatever the broker has set.
        is_topic = resource.type is ResourceType.TOPIC
        for each in settings:
            each.is_default = (
                each.config_source != Source.TOPIC if is_topic else each.config_source == Source.DEFAULT
            )
    return settings


def _for_all_brokers(entry: Entry) -> Entry | None:
    """The entry as if nothing were set but for all brokers at once; None if that is not set."""
    synonyms = tuple(each for each in entry.synonyms if each.source is Source.ALL_BROKERS)
    if not synonyms or synonyms[0].name != entry.name:
        return None
    return entry._replace(value=synonyms[0].value, source=Source.ALL_BROKERS, synonyms=synonyms)


def _setting(entry: Entry, request: DescribeConfigsRequest) -> _Setting:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return _Setting(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            _Setting.Synonym(name=each.name, value=each.value, source=each.source) for each in synonyms
        ],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


def _logger_setting(name: str, level: str) -> _Setting:
    return _Setting(
        name=name,
        value=level,
        read_only=False,
        config_source=_BROKER_LOGGER_SOURCE,
        is_sensitive=False,
        config_type=WireType.STRING,
    )


# --- alter --------------------------------------------------------------------------------------------------------


async def alter_configs(broker: "Broker", call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replaces all settings of a resource: what is not named goes back to its default."""

    def values_of(resource: ConfigResource, asked: AlterConfigsRequest.Resource) -> _Values:
        if resource.type is ResourceType.BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "levels of loggers can only be altered incrementally")
        _check_values({each.name: each.value for each in asked.configs})
        return {each.name: each.value for each in asked.configs}

    responses = await _alter(
        broker, call, request.resources, values_of, replace=True, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    broker: "Broker", call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Changes single settings of a resource, and leaves the others alone."""

    def values_of(resource: ConfigResource, asked: IncrementalAlterConfigsRequest.Resource) -> _Values:
        _check_values(
            {each.name: each.value for each in asked.configs if each.config_operation != Change.DELETE}
        )
        return {each.name: _changed(broker, resource, each) for each in asked.configs}

    responses = await _alter(
        broker, call, request.resources, values_of, replace=False, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    broker: "Broker",
    call: Call,
    resources: Sequence[R],
    values_of: Callable[[ConfigResource, R], _Values],
    *,
    replace: bool,
    validate_only: bool,
) -> list[AlteredResource]:
    """Each resource by itself: one that fails does not keep the others from changing."""
    counts = Counter((asked.resource_type, asked.resource_name) for asked in resources)
    results = []
    for asked in resources:
        altered = AlteredResource(
            error_code=ErrorCode.NONE, resource_type=asked.resource_type, resource_name=asked.resource_name
        )
        try:
            if counts[asked.resource_type, asked.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a resource may appear only once")
            resource = _resource(
                broker, call, asked.resource_type, asked.resource_name, Operation.ALTER_CONFIGS
            )
            _check_names(each.name for each in asked.configs)
            values = values_of(resource, asked)
            if resource.type is ResourceType.BROKER_LOGGER:
                _alter_loggers(broker, resource, values, validate_only=validate_only)
            else:
                await broker.to_controller.alter_configs(
                    resource, values, replace=replace, validate_only=validate_only
                )
        except KafkaError as error:
            altered.error_code, altered.error_message = error.code, error.detail
        results.append(altered)
    return results


def _changed(
    broker: "Broker", resource: ConfigResource, asked: IncrementalAlterConfigsRequest.Resource.Setting
) -> str | None:
    """The value that a change leads to; None takes the setting back."""
    if asked.config_operation == Change.DELETE:
        return None
    if asked.config_operation == Change.SET:
        return asked.value
    if asked.config_operation not in tuple(Change):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{asked.name}: no operation {asked.config_operation}")
    words = _current_words(broker, resource, asked.name, Change(asked.config_operation))
    named = [word.strip() for word in (asked.value or "").split(",") if word.strip()]
    if asked.config_operation == Change.APPEND:
        words += [word for word in dict.fromkeys(named) if word not in words]
    else:
        words = [word for word in words if word not in named]
    return ",".join(words)


def _current_words(broker: "Broker", resource: ConfigResource, name: str, change: Change) -> list[str]:
    if resource.type is ResourceType.BROKER_LOGGER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name}: a level can be set or deleted, nothing else")
    is_elsewhere = resource.type is ResourceType.BROKER and not broker.configs.is_own(resource)
    config: Config = broker.configs.broker if is_elsewhere else broker.configs.get(resource)
    try:
        entry = config.describe(name)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if entry.type is not WireType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} is not a list: one cannot {change.name.lower()} anything"
        )
    own = broker.controller.configs_of(resource.type, resource.name).get(entry.name)
    text = entry.value if own is None else own
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _alter_loggers(
    broker: "Broker", resource: ConfigResource, values: _Values, *, validate_only: bool
) -> None:
    _check_own(broker, resource)
    for name, level in values.items():
        loggers.check_level(name, level)
    for name, level in values.items() if not validate_only else ():
        loggers.set_level(name, level)
        logger.warning("the level of logger %s is now %s", name, level or "that of its parent")


# --- list ---------------------------------------------------------------------------------------------------------


def list_config_resources(
    broker: "Broker", call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """The resources of some types, of all types if none is named. Version 0 knows only client metrics."""
    if not broker.authorizer.allows(call, Operation.DESCRIBE_CONFIGS, Guarded.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the cluster's resources may not be listed")
    nodes = [str(node_id) for node_id in sorted(broker.metadata.brokers)]
    names: dict[int, Iterable[str]] = {
        ResourceType.TOPIC: sorted(broker.metadata.topics),
        ResourceType.BROKER: nodes,
        ResourceType.BROKER_LOGGER: nodes,
        ResourceType.CLIENT_METRICS: sorted(broker.configs.client_metrics),
        ResourceType.GROUP: sorted(broker.configs.groups),
    }
    types: Iterable[int] = (
        [ResourceType.CLIENT_METRICS] if call.version == 0 else request.resource_types or names
    )
    found = []
    for kind in dict.fromkeys(types):
        if kind not in names:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"there are no resources of type {kind}")
        found += [
            ListConfigResourcesResponse.Resource(resource_name=name, resource_type=kind)
            for name in names[kind]
        ]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=found)


# --- what a request may name --------------------------------------------------------------------------------------


def _resource(broker: "Broker", call: Call, kind: int, name: str, operation: Operation) -> ConfigResource:
    """The resource that is meant, if it can be and the caller may do this to it."""
    try:
        resource = ConfigResource(ResourceType(kind), name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {kind}") from None
    guarded, refusal = _GUARDED.get(resource.type, (Guarded.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not broker.authorizer.allows(
        call, operation, guarded, CLUSTER_NAME if guarded is Guarded.CLUSTER else name
    ):
        raise KafkaError(refusal, f"{operation.name} is not allowed")
    _check_resource(broker, resource)
    return resource


def _check_resource(broker: "Broker", resource: ConfigResource) -> None:
    kind, name = resource
    if kind is ResourceType.UNKNOWN:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "resources of an unknown type have no settings")
    if kind is ResourceType.TOPIC:
        if fault := topic_name_fault(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name {name!r} {fault}")
        if name not in broker.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    elif kind is ResourceType.BROKER:
        if name and not name.isdecimal():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is not the id of a broker")
    elif not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the resource is empty")


def _check_own(broker: "Broker", resource: ConfigResource) -> None:
    own = str(broker.configs.broker.node_id)
    if resource.name != own:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {own}, not {resource.name!r}")


def _check_names(names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"set more than once: {', '.join(twice)}")


def _check_values(values: _Values) -> None:
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no value for {', '.join(missing)}")
