"""Settings of topics, brokers and others: where they are stored, how they change, and what that does to leaders.

Brokers watch one node, which changes with all settings in the same step: `notice`.
"""

from collections.abc import Iterable, Mapping

from ottla.controller import elections, partitions
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.context import Context
from ottla.controller.decision import ConfigChange, ConfigDropped, ConfigStored, Decision
from ottla.core.errors import ErrorCode, KafkaError
from ottla.metadata.paths import CONFIG_CHANGES, DEFAULT_ENTITY, ConfigNode, unescape
from ottla.metadata.store import Create, Delete, Op, Set
from ottla.replication.state import NO_LEADER, PartitionState

KINDS = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.GROUP: "groups",
}
"""What settings are stored for, and the name of it in the store."""
MIN_INSYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


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
    """Store these settings. The states of partitions that depend on them change in the same decision.

    Who is eligible forgets it before the settings are written: with a smaller `min.insync.replicas` a leader commits
    without them. Elections come after: they are allowed only then.
    """
    stored = context.configs.get(resource)
    path, data = path_of(resource), ConfigNode.encode(values)
    write: Op = Create(path, data) if stored is None else Set(path, data, stored.version)
    version = 0 if stored is None else stored.version + 1
    topics = _recounted(context, resource, values)
    cleared = _without_elr(context, topics)
    elected = [
        state._replace(elr=()) if state.topic in topics else state
        for state in _elected(context, resource, values)
    ]
    decision = partitions.change(context, [*cleared, *elected])[0]
    decision.writes[len(cleared) : len(cleared)] = [write, notice(resource)]
    decision.changes.append(ConfigStored(resource, values, version))
    decision.effects.append(ConfigChange(resource, values))
    return decision


def notice(resource: ConfigResource) -> Op:
    """Goes with every change of settings: brokers that watch read again."""
    return Set(CONFIG_CHANGES, f"{KINDS[resource.type]}/{resource.name or DEFAULT_ENTITY}".encode())


def drop_orphans(context: Context) -> Decision:
    """Remove the settings of topics that do not exist: a controller died before it came to the topic itself."""
    decision = Decision()
    for resource, stored in context.configs.items():
        name = resource.name
        if resource.type is ResourceType.TOPIC and name not in context.topics and name not in context.doomed:
            decision.writes += [Delete(path_of(resource), stored.version), notice(resource)]
            decision.changes.append(ConfigDropped(resource))
            decision.effects.append(ConfigChange(resource, None))
    return decision


def clears_elr(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Does this change how many must be in sync? Then who was eligible by the old number may not be by the new."""
    return before.get(MIN_INSYNC) != after.get(MIN_INSYNC)


def _recounted(context: Context, resource: ConfigResource, values: Mapping[str, str]) -> list[str]:
    """Topics of which another number of replicas must be in sync with these settings."""
    if not clears_elr(_values(context, resource), values):
        return []
    return list(_concerned(context, resource, MIN_INSYNC))


def _without_elr(context: Context, topics: Iterable[str]) -> list[PartitionState]:
    """States that lose their ELR. Where nobody leads nothing is committed, by whatever number: who is eligible there
    remains so."""
    states = [state for name in topics for state in context.topics[name].image.partitions]
    return [state._replace(elr=()) for state in states if state.elr and state.leader != NO_LEADER]


def _elected(context: Context, resource: ConfigResource, values: Mapping[str, str]) -> list[PartitionState]:
    """States that get a leader because these settings allow one that is not in sync."""
    if resource.type is ResourceType.BROKER and resource.name not in ("", str(context.controller_id)):
        return []  # the controller elects, by its own settings
    everybody = _values(context, ConfigResource(ResourceType.BROKER, ""))
    before = _values(context, resource).get(UNCLEAN, everybody.get(UNCLEAN))
    after = values.get(UNCLEAN, everybody.get(UNCLEAN) if resource.name else None)
    if not _is_true(after) or _is_true(before):
        return []
    found = []
    for name in _concerned(context, resource, UNCLEAN):
        policy = context.policy(name)._replace(allows_unclean=True)
        for state in context.topics[name].image.partitions:
            after_election = elections.elect(state, context.brokers.keys(), policy, context.shutting_down)
            if state.leader == NO_LEADER and after_election.leader != NO_LEADER:
                found.append(after_election)
    return found


def _concerned(context: Context, resource: ConfigResource, key: str) -> list[str]:
    """Topics for which a setting counts that is made here: those of brokers count where the topic has none."""
    if resource.type is ResourceType.TOPIC:
        return [resource.name] if resource.name in context.topics else []
    if resource.type is not ResourceType.BROKER:
        return []
    return [
        name
        for name in context.topics
        if key not in _values(context, ConfigResource(ResourceType.TOPIC, name))
    ]


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _values(context: Context, resource: ConfigResource) -> Mapping[str, str]:
    stored = context.configs.get(resource)
    return {} if stored is None else stored.values
