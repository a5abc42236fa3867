"""Settings of topics, brokers, loggers, groups and client metrics.

What belongs to one broker goes to that broker; the rest goes to any for reading, and to the controller for changing.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ottla.client.admin.config_values import (
    AlterConfigOp,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    config_text,
)
from ottla.client.admin.operations import known
from ottla.client.admin.routes import Answers, Client, Routes, V, all_of, check, outcome
from ottla.client.errors import UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError
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

ConfigChanges = Mapping[str, object] | Iterable[AlterConfigOp]
"""New values, where None means the default again; or operations."""
_TYPES_SINCE = 1  # ListConfigResources


async def describe_configs(
    admin: Client,
    config_resources: Iterable[ConfigResource],
    *,
    config_names: Iterable[str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
    timeout_ms: float | None = None,
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """The settings of each resource by name, or those of them that are named."""
    routes = admin._routes
    names = None if config_names is None else list(config_names)

    def request(some: list[ConfigResource]) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.Resource(
                    resource_type=int(each.resource_type), resource_name=each.name, configuration_keys=names
                )
                for each in some
            ],
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    async def ask_one(
        node_id: int | None, some: list[ConfigResource]
    ) -> Answers[ConfigResource, dict[str, ConfigEntry]]:
        asked = request(some)
        answer: DescribeConfigsResponse
        if node_id is None:
            answer = await routes.cluster.ask_any(asked)
        else:
            answer = await routes.cluster.ask(node_id, asked)
        rows = [(_resource(row), row) for row in answer.results]
        return {key: outcome(row.error_code, str(key), row.error_message, _entries(row)) for key, row in rows}

    answers = await _settle(routes, config_resources, ask_one, timeout_ms, "the settings were not read")
    return all_of(answers, "the description of settings")


async def incremental_alter_configs(
    admin: Client,
    changes: Mapping[ConfigResource, ConfigChanges],
    *,
    validate_only: bool = False,
    timeout_ms: float | None = None,
) -> None:
    """Change single settings: `{ConfigResource.topic("orders"): {"retention.ms": 3_600_000, "flush.ms": None}}`.

    None is the default again. `AlterConfigOp`s can also append to lists, and subtract from them.
    """
    routes = admin._routes
    kind = IncrementalAlterConfigsRequest.Resource
    wanted = {resource: _operations(each) for resource, each in changes.items()}

    def setting(change: AlterConfigOp) -> IncrementalAlterConfigsRequest.Resource.Setting:
        return kind.Setting(
            name=change.name, config_operation=int(change.operation), value=config_text(change.value)
        )

    async def ask_one(node_id: int | None, some: list[ConfigResource]) -> Answers[ConfigResource, None]:
        request = IncrementalAlterConfigsRequest(
            resources=[
                kind(
                    resource_type=int(each.resource_type),
                    resource_name=each.name,
                    configs=[setting(change) for change in wanted[each]],
                )
                for each in some
            ],
            validate_only=validate_only,
        )
        answer: IncrementalAlterConfigsResponse = await _changed(routes, node_id, request)
        return _altered(answer.responses)

    all_of(
        await _settle(routes, wanted, ask_one, timeout_ms, "the settings were not changed"),
        "the change of settings",
    )


async def alter_configs(
    admin: Client,
    configs: Mapping[ConfigResource, Mapping[str, object]],
    *,
    validate_only: bool = False,
    timeout_ms: float | None = None,
) -> None:
    """Replace all settings of resources at once: what is left out goes back to its default.

    For brokers older than 2.3. `incremental_alter_configs` leaves alone what it is not told of.
    """
    routes = admin._routes
    kind = AlterConfigsRequest.Resource

    async def ask_one(node_id: int | None, some: list[ConfigResource]) -> Answers[ConfigResource, None]:
        request = AlterConfigsRequest(
            resources=[
                kind(
                    resource_type=int(each.resource_type),
                    resource_name=each.name,
                    configs=[
                        kind.Setting(name=name, value=config_text(value))
                        for name, value in configs[each].items()
                    ],
                )
                for each in some
            ],
            validate_only=validate_only,
        )
        answer: AlterConfigsResponse = await _changed(routes, node_id, request)
        return _altered(answer.responses)

    all_of(
        await _settle(routes, configs, ask_one, timeout_ms, "the settings were not replaced"),
        "the replacement of settings",
    )


async def list_config_resources(
    admin: Client,
    resource_types: Iterable[ConfigResourceType] | None = None,
    *,
    timeout_ms: float | None = None,
) -> list[ConfigResource]:
    """The resources that have settings, of some types or of all that the broker lists."""
    routes = admin._routes
    types = [] if resource_types is None else [int(each) for each in resource_types]

    async def ask() -> list[ConfigResource]:
        # Older brokers list client metrics, and nothing else.
        is_old = await routes.version(ListConfigResourcesRequest) < _TYPES_SINCE
        if is_old and any(each != ConfigResourceType.CLIENT_METRICS for each in types):
            raise UnsupportedVersionError("the broker can list no other config resources than client metrics")
        request = ListConfigResourcesRequest(resource_types=[] if is_old else types)
        answer: ListConfigResourcesResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the config resources")
        return sorted(
            ConfigResource(known(ConfigResourceType, row.resource_type), row.resource_name)
            for row in answer.config_resources
        )

    return await routes.patient(ask, routes.deadline(timeout_ms), "the config resources were not listed")


# --- whom to ask, and what they say -------------------------------------------------------------------------------


async def _settle(
    routes: Routes,
    resources: Iterable[ConfigResource],
    ask_one: Callable[[int | None, list[ConfigResource]], Awaitable[Answers[ConfigResource, V]]],
    timeout_ms: float | None,
    failed: str,
) -> Answers[ConfigResource, V]:
    """`ask_one` is called with None for what is not a single broker's."""

    async def ask(some: list[ConfigResource]) -> Answers[ConfigResource, V]:
        shares: dict[int, list[ConfigResource]] = defaultdict(list)
        shared: list[ConfigResource] = []
        for each in some:
            node_id = _node_of(each)
            (shared if node_id is None else shares[node_id]).append(each)
        answers: Answers[ConfigResource, V] = {}
        if shares:
            await routes.cluster.refresh([])
            answers |= await routes.from_brokers(shares, ask_one)
        if shared:
            answers |= await ask_one(None, shared)
        return answers

    return await routes.settle(resources, ask, routes.deadline(timeout_ms), failed)


def _node_of(resource: ConfigResource) -> int | None:
    try:
        return resource.node_id
    except ValueError:
        sentence = f"{resource}: the name must be the id of a broker"
        raise KafkaError(ErrorCode.INVALID_REQUEST, sentence) from None


async def _changed(routes: Routes, node_id: int | None, request: object) -> Any:
    if node_id is None:
        return await routes.cluster.ask_controller(request)
    return await routes.cluster.ask(node_id, request)


def _altered(rows: list[AlteredResource]) -> Answers[ConfigResource, None]:
    return {
        (key := _resource(row)): outcome(row.error_code, str(key), row.error_message, None) for row in rows
    }


def _resource(row: AlteredResource | DescribeConfigsResponse.Resource) -> ConfigResource:
    return ConfigResource(known(ConfigResourceType, row.resource_type), row.resource_name)


def _operations(changes: ConfigChanges) -> list[AlterConfigOp]:
    if not isinstance(changes, Mapping):
        return list(changes)
    kinds = AlterConfigOpType
    return [
        AlterConfigOp(name, value, kinds.DELETE if value is None else kinds.SET)
        for name, value in changes.items()
    ]


def _entries(row: DescribeConfigsResponse.Resource) -> dict[str, ConfigEntry]:
    return {each.name: _entry(each) for each in row.configs}


def _entry(row: DescribeConfigsResponse.Resource.Setting) -> ConfigEntry:
    source = ConfigSource.DEFAULT_CONFIG if row.is_default else known(ConfigSource, row.config_source)
    return ConfigEntry(
        row.name,
        row.value,
        source,
        row.read_only,
        row.is_sensitive,
        known(ConfigType, row.config_type),
        tuple(
            ConfigSynonym(each.name, each.value, known(ConfigSource, each.source)) for each in row.synonyms
        ),
        row.documentation,
    )
