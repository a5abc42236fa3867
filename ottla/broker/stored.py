"""What the metadata store holds, read and decoded: for a broker that opens its logs, and for a new controller."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.configs import KINDS, resource_at
from ottla.controller.context import (
    NO_STATE,
    Context,
    Policy,
    StoredConfig,
    StoredDeletion,
    StoredEpoch,
    StoredTopic,
)
from ottla.controller.partitions import is_internal, newborn
from ottla.core.errors import ProtocolError
from ottla.core.ids import is_topic_name
from ottla.metadata import paths
from ottla.metadata.fields import INT32_MAX, parse_number
from ottla.metadata.paths import (
    BrokerEpochNode,
    BrokerNode,
    ConfigNode,
    DeletedReplicasNode,
    PartitionStateNode,
    TopicNode,
)
from ottla.metadata.store import MetadataStore, Node, NoNode
from ottla.replication.state import BrokerImage, Endpoint, PartitionState, TopicImage


class StoredCluster(NamedTuple):
    """What a broker must know before it opens its logs. A log whose topic is not here, with its id, is a stray."""

    cluster_id: str
    topics: Mapping[str, uuid.UUID]
    configs: Mapping[ConfigResource, Mapping[str, str]]
    doomed: frozenset[str] = frozenset()
    """Topics that are being deleted; they are in `topics`, too, unless hardly anything is left of them."""
    lost: Mapping[tuple[int, uuid.UUID], frozenset[int]] = {}
    """Partitions that a broker has no replicas of any more and is to delete, by broker and topic id."""


async def load_cluster(store: MetadataStore, cluster_id: str) -> StoredCluster:
    nodes = await _topic_nodes(store)
    return StoredCluster(
        cluster_id,
        {name: topic.topic_id for name, (topic, _) in nodes.items()},
        await load_configs(store),
        frozenset(await store.children(paths.DELETED_TOPICS)),
        _lost(await load_deletions(store), [topic for topic, _ in nodes.values()]),
    )


async def load_context(store: MetadataStore, node_id: int, epoch: int, epoch_version: int) -> Context:
    """The cluster for a controller that has just been elected, with this epoch at this version of its node."""
    nodes = await _topic_nodes(store)
    states = await store.get_all(
        PartitionStateNode.path(name, index)
        for name, (topic, _) in nodes.items()
        for index in range(len(topic.replicas))
    )
    topics = {name: StoredTopic(_image(name, topic, states), v) for name, (topic, v) in nodes.items()}
    marked = await store.children(paths.DELETED_TOPICS)
    doomed = {name: topics.pop(name, None) for name in marked}
    return Context(
        node_id,
        epoch,
        epoch_version,
        brokers={broker.node_id: broker for broker in await load_brokers(store)},
        topics=topics,
        doomed=doomed,
        configs=await _configs(store),
        skeletons=await _skeletons(store, topics.values()),
        epochs=await load_epochs(store),
        deletions=await load_deletions(store),
    )


async def load_configs(store: MetadataStore) -> dict[ConfigResource, Mapping[str, str]]:
    """All settings that were made."""
    return {resource: config.values for resource, config in (await _configs(store)).items()}


async def load_topic_configs(
    store: MetadataStore, topics: Iterable[str]
) -> dict[ConfigResource, Mapping[str, str]]:
    """The settings of these topics, as far as any were made."""
    at = {ConfigNode.path(KINDS[ResourceType.TOPIC], name): name for name in topics}
    found = await store.get_all(at)
    return {
        ConfigResource(ResourceType.TOPIC, at[path]): ConfigNode.decode(path, node.data)
        for path, node in found.items()
    }


def policy_of(context: Context, default: Callable[[], Policy]) -> Callable[[str], Policy]:
    """How leaders of a topic are elected, as its settings are in the store; `default` is where it has none."""

    def policy(topic: str) -> Policy:
        found = default()
        config = context.configs.get(ConfigResource(ResourceType.TOPIC, topic))
        if config is None:
            return found
        least = config.values.get("min.insync.replicas")
        unclean = config.values.get("unclean.leader.election.enable")
        return Policy(
            int(least) if least is not None and least.isdecimal() else found.min_insync_replicas,
            unclean.strip().lower() == "true" if unclean is not None else found.allows_unclean,
        )

    return policy


def _lost(
    deletions: Mapping[tuple[int, uuid.UUID], StoredDeletion], topics: Iterable[TopicNode]
) -> dict[tuple[int, uuid.UUID], frozenset[int]]:
    """What is to be deleted. A replica that is assigned is not, whatever the list says."""
    assigned = {topic.topic_id: topic.replicas for topic in topics}
    lost = {}
    for (broker, topic_id), known in deletions.items():
        replicas = dict(enumerate(assigned.get(topic_id, ())))
        gone = frozenset(index for index in known.partitions if broker not in replicas.get(index, ()))
        lost[broker, topic_id] = gone
    return lost


async def load_epochs(store: MetadataStore) -> dict[int, StoredEpoch]:
    """The last life of each broker that a controller knew of."""
    names = await store.children(paths.BROKER_EPOCHS)
    found = await store.get_all(f"{paths.BROKER_EPOCHS}/{name}" for name in names)
    return {
        parse_number(path, path.rpartition("/")[2], INT32_MAX): StoredEpoch(
            BrokerEpochNode.decode(path, node.data), node.version
        )
        for path, node in found.items()
    }


async def load_deletions(store: MetadataStore) -> dict[tuple[int, uuid.UUID], StoredDeletion]:
    """What brokers still have to delete, by broker and topic id."""
    names = await store.children(paths.DELETED_REPLICAS)
    found = await store.get_all(f"{paths.DELETED_REPLICAS}/{name}" for name in names)
    deletions = {}
    for path, node in found.items():
        topic, partitions = DeletedReplicasNode.decode(path, node.data)
        deletions[DeletedReplicasNode.parse(path)] = StoredDeletion(topic, partitions, node.version)
    return deletions


async def load_brokers(store: MetadataStore) -> list[BrokerImage]:
    """The brokers that live."""
    found = await store.get_all(f"{paths.BROKERS}/{name}" for name in await store.children(paths.BROKERS))
    images = []
    for path, node in found.items():
        broker = BrokerNode.decode(path, node.data)
        node_id = parse_number(path, path.rpartition("/")[2], INT32_MAX)
        endpoints = tuple(Endpoint(*endpoint) for endpoint in broker.endpoints)
        images.append(BrokerImage(node_id, node.created, endpoints, broker.rack, broker.previous_epoch))
    return sorted(images)


async def leftovers(store: MetadataStore, topic: str) -> list[str]:
    """Every node that there is of a topic, children first, but not the mark that it is to be deleted."""
    found = await _below(store, TopicNode.path(topic))
    config = ConfigNode.path("topics", topic)
    return found + list(await store.get_all([config]))


async def _below(store: MetadataStore, path: str) -> list[str]:
    """A node and all below it, children first; nothing if it is not there."""
    try:
        names = await store.children(path)
    except NoNode:
        return []
    return [node for name in names for node in await _below(store, f"{path}/{name}")] + [path]


async def _topic_nodes(store: MetadataStore) -> dict[str, tuple[TopicNode, int]]:
    names = await store.children(paths.TOPICS)
    for name in names:
        if not is_topic_name(name):  # it would become the name of a directory
            raise ProtocolError(f"{paths.TOPICS} has a child {name!r}, which cannot be a topic")
    found = await store.get_all(map(TopicNode.path, names))
    at = {TopicNode.path(name): name for name in names}
    return {at[path]: (TopicNode.decode(path, node.data), node.version) for path, node in found.items()}


async def _configs(store: MetadataStore) -> dict[ConfigResource, StoredConfig]:
    configs = {}
    for resource_type, kind in KINDS.items():
        parent = ConfigNode.parent(kind)
        found = await store.get_all(f"{parent}/{name}" for name in await store.children(parent))
        for path, node in found.items():
            resource = resource_at(resource_type, path.rpartition("/")[2])
            configs[resource] = StoredConfig(ConfigNode.decode(path, node.data), node.version)
    return configs


def _image(name: str, node: TopicNode, states: Mapping[str, Node]) -> TopicImage:
    image = newborn(TopicImage(name, node.topic_id, (), is_internal(name)), node.replicas)
    return image._replace(partitions=tuple(_state(state, node, states) for state in image.partitions))


def _state(state: PartitionState, topic: TopicNode, states: Mapping[str, Node]) -> PartitionState:
    """A newborn partition with what is stored of it."""
    path = PartitionStateNode.path(state.topic, state.partition)
    if topic.adding or topic.removing:
        adding, removing = topic.adding.get(state.partition, ()), topic.removing.get(state.partition, ())
        state = state._replace(adding=adding, removing=removing)
    if path not in states:
        return state
    stored = PartitionStateNode.decode(path, states[path].data)
    return state._replace(
        leader=stored.leader,
        leader_epoch=stored.leader_epoch,
        isr=stored.isr,
        partition_epoch=states[path].version,
        elr=stored.elr,
        last_known_leader=stored.last_known_leader,
        is_recovering=stored.is_recovering,
    )


async def _skeletons(store: MetadataStore, topics: Iterable[StoredTopic]) -> frozenset[str]:
    """Which of the nodes are there that stand above states that are not."""
    bare = [s for topic in topics for s in topic.image.partitions if s.partition_epoch == NO_STATE]
    above = {path for state in bare for path in PartitionStateNode.parents(state.topic, state.partition)}
    return frozenset(await store.get_all(above)) if above else frozenset()
