"""Settings of topics, brokers and others: where they are stored, and how they change."""

from collections.abc import Mapping

from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.context import Context
from ottla.controller.decision import ConfigChange, ConfigDropped, ConfigStored, Decision
from ottla.core.errors import ErrorCode, KafkaError
from ottla.metadata.paths import DEFAULT_ENTITY, ConfigNode, unescape
from ottla.metadata.store import Create, Delete, Op, Set

KINDS = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.GROUP: "groups",
}
"""What settings are stored for, and the name of it in the store."""


def path_of(resource: ConfigResource) -> str:
    """Where the settings are stored. Raises if such a thing has none."""
    kind = KINDS.get(resource.type)
    if kind is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Settings of {resource.type.name} cannot be altered or stored."
        )
    if resource.type is ResourceType.BROKER:
        return ConfigNode.path(kind, resource.name or None)
    if not resource.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A {resource.type.name} without a name has no settings.")
    return ConfigNode.path(kind, resource.name)


def resource_at(resource_type: ResourceType, node_name: str) -> ConfigResource:
    """Whose settings a node holds."""
    return ConfigResource(resource_type, "" if node_name == DEFAULT_ENTITY else unescape(node_name))


def check_resource(context: Context, resource: ConfigResource) -> None:
    """Is there such a thing?"""
    path_of(resource)
    name = resource.name
    if resource.type is ResourceType.TOPIC and name not in context.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if resource.type is ResourceType.BROKER and name and not (name.isascii() and name.isdecimal()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The name of a broker is its id, not '{name}'.")


def altered(
    context: Context, resource: ConfigResource, values: Mapping[str, str | None], *, replace: bool
) -> dict[str, str]:
    """The settings as they would be. None takes a setting away; `replace` takes away all that are not named."""
    stored = context.configs.get(resource)
    before = {} if stored is None or replace else stored.values
    return {key: value for key, value in {**before, **values}.items() if value is not None}


def alter(context: Context, resource: ConfigResource, values: Mapping[str, str]) -> Decision:
    """Store these settings, and no others, for a resource, unless that is what it has. They have been checked."""
    stored = context.configs.get(resource)
    if stored is not None and dict(stored.values) == dict(values):
        return Decision()
    return store(context, resource, values)


def store(context: Context, resource: ConfigResource, values: Mapping[str, str]) -> Decision:
    stored = context.configs.get(resource)
    path, data = path_of(resource), ConfigNode.encode(values)
    write: Op = Create(path, data) if stored is None else Set(path, data, stored.version)
    version = 0 if stored is None else stored.version + 1
    return Decision([write], [ConfigStored(resource, values, version)], [ConfigChange(resource, values)])


def drop_orphans(context: Context) -> Decision:
    """Remove the settings of topics that do not exist: a controller died before it came to the topic itself."""
    decision = Decision()
    for resource, stored in context.configs.items():
        name = resource.name
        if resource.type is ResourceType.TOPIC and name not in context.topics and name not in context.doomed:
            decision.writes.append(Delete(path_of(resource), stored.version))
            decision.changes.append(ConfigDropped(resource))
            decision.effects.append(ConfigChange(resource, None))
    return decision
