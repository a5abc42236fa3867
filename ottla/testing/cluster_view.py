"""What a cluster looks like: what its metadata store holds, what one of its brokers says, and what is wrong with it.

The store is the truth. A broker may be behind, or cut off, and say what was.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.core.errors import KafkaError, OttlaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import BROKERS, TOPICS, ControllerNode, PartitionStateNode, TopicNode
from ottla.metadata.store import MetadataStore, NoNode
from ottla.network.peer import PeerLimits, connect
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse

NOBODY = -1
_ASK_MS = 5_000


class PartitionView(NamedTuple):
    """A partition. The leader is -1 where there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ClusterView(NamedTuple):
    """A cluster as somebody sees it. The controller is -1 where there is none."""

    brokers: frozenset[int]
    controller: int
    partitions: Mapping[TopicPartition, PartitionView]

    def trouble(self, wanted: Collection[int]) -> str | None:
        """What keeps a cluster of these brokers from being healthy; None if nothing does."""
        if missing := sorted(set(wanted) - self.brokers):
            return f"broker {missing[0]} is not registered"
        if self.controller not in self.brokers:
            return "there is no controller"
        for (topic, number), partition in sorted(self.partitions.items()):
            if partition.leader not in self.brokers:
                return f"nobody leads {topic}-{number}"
            if behind := sorted(set(partition.replicas) - set(partition.isr)):
                return f"broker {behind[0]} is not in sync in {topic}-{number}"
        return None


async def held_by(store: MetadataStore) -> ClusterView:
    """What the store holds. Several reads: while it changes, they may be of several moments."""
    try:
        brokers = frozenset(int(name) for name in await store.children(BROKERS))
        topics = await store.get_all([TopicNode.path(name) for name in await store.children(TOPICS)])
    except NoNode:  # before the first broker has made them
        return ClusterView(frozenset(), NOBODY, {})
    found = await store.get_all([ControllerNode.path])
    controller = ControllerNode.decode(found[ControllerNode.path].data) if found else NOBODY
    replicas = {
        TopicPartition(path.rpartition("/")[2], number): ids
        for path, node in topics.items()
        for number, ids in enumerate(TopicNode.decode(path, node.data).replicas)
    }
    states = await store.get_all([PartitionStateNode.path(*place) for place in replicas])
    partitions = {}
    for place, ids in replicas.items():
        path = PartitionStateNode.path(*place)
        state = PartitionStateNode.decode(path, states[path].data) if path in states else None
        partitions[place] = (
            PartitionView(state.leader, state.leader_epoch, ids, state.isr)
            if state is not None
            else PartitionView(NOBODY, NOBODY, ids, ())
        )
    return ClusterView(brokers, controller, partitions)


async def told_by(host: str, port: int) -> ClusterView:
    """What a broker says. Raises OttlaError if it says nothing."""
    async with await connect(host, port, limits=PeerLimits(timeout_ms=_ASK_MS)) as peer:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer: MetadataResponse = await peer.send(request)
    partitions = {
        TopicPartition(topic.name, row.partition_index): PartitionView(
            row.leader_id, row.leader_epoch, tuple(row.replica_nodes), tuple(row.isr_nodes)
        )
        for topic in answer.topics
        if topic.name is not None
        for row in topic.partitions
    }
    return ClusterView(frozenset(row.node_id for row in answer.brokers), answer.controller_id, partitions)


async def trouble(store: MetadataStore, brokers: Mapping[int, tuple[str, int]]) -> str | None:
    """What is wrong with a cluster of these brokers, by the store and then by each of them; None if nothing is."""
    try:
        held = await held_by(store)
        if found := held.trouble(brokers.keys()):
            return found
        for id, (host, port) in brokers.items():
            told = await told_by(host, port)
            if found := told.trouble(brokers.keys()):
                return f"{found}, says broker {id}"
            if told.partitions != held.partitions or told.controller != held.controller:
                return f"broker {id} has not heard the latest"
    except (OttlaError, OSError) as error:
        return str(error)
    return None


async def create_topic(
    host: str, port: int, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Have the controller, which is there, create a topic. Raises KafkaError, or OttlaError if it does not answer."""
    topic = CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreateTopicsRequest.Topic.Setting(name=key, value=value) for key, value in configs.items()],
    )
    async with await connect(host, port, limits=PeerLimits(timeout_ms=2 * _ASK_MS)) as peer:
        answer: CreateTopicsResponse = await peer.send(
            CreateTopicsRequest(topics=[topic], timeout_ms=_ASK_MS)
        )
    for row in answer.topics:
        if row.error_code:
            raise KafkaError.of(row.error_code, row.error_message or f"the topic {name}")


def may_work_later(error: Exception) -> bool:
    """Whether the same question may be answered otherwise once the cluster has sorted itself out."""
    if isinstance(error, KafkaError):
        return error.code.retriable
    return isinstance(error, OSError | OttlaError) and not isinstance(error, ProtocolError)
