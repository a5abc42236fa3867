"""The cluster as its brokers tell it: who is there, and where every partition lies.

The metadata of one broker is the base. What else there is to know is asked for apart: how many replicas must be in
sync, who may lead although it is not, and what is being moved. If nobody says one of these, it is left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.remote import NOT_FOUND, Cluster, Failed, check, pieces
from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.ids import TopicPartition, topic_name_fault
from ottla.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from ottla.protocol.messages.topics import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

NO_LEADER = -1
TOPIC, BROKER = 2, 4
"""Types of resources that have settings."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
_PAGES_MAX = 10_000  # of partitions; a broker that never comes to an end is not believed


class Node(NamedTuple):
    """A broker that lives."""

    id: int
    host: str
    port: int
    rack: str | None


class Partition(NamedTuple):
    """Where a partition lies. The first of its replicas is the preferred leader."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    @property
    def is_led_as_preferred(self) -> bool:
        return bool(self.replicas) and self.leader == self.replicas[0]


class Move(NamedTuple):
    """A partition on its way to other replicas, and from which."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def before(self) -> tuple[int, ...]:
        return tuple(id for id in self.replicas if id not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(id for id in self.replicas if id not in self.removing)


Moves = dict[TopicPartition, Move]


class Eligible(NamedTuple):
    """Who may lead without being in sync, and who is the last that was (KIP-966)."""

    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


class Snapshot(NamedTuple):
    """What one broker said at one time."""

    cluster_id: str | None
    controller: int | None
    nodes: Mapping[int, Node]
    partitions: Mapping[TopicPartition, Partition]

    def of_topic(self, topic: str) -> list[Partition]:
        """Raises `Failed` if there is no such topic."""
        found = [each for each in self.partitions.values() if each.topic == topic]
        if not found:
            fault = topic_name_fault(topic)
            raise Failed(f"there is no topic {topic!r}{f': the name {fault}' if fault else ''}", NOT_FOUND)
        return found

    def one(self, place: TopicPartition) -> Partition:
        """Raises `Failed` if there is no such partition."""
        found = self.of_topic(place.topic)
        if place not in self.partitions:
            raise Failed(
                f"{place.topic} has no partition {place.partition}: they are numbered 0 to {len(found) - 1}",
                NOT_FOUND,
            )
        return self.partitions[place]

    def check_alive(self, ids: Iterable[int]) -> None:
        """Raises `Failed` unless all of these brokers live."""
        missing = sorted(set(ids) - self.nodes.keys())
        if missing:
            raise Failed(
                f"{numbered('broker', missing)} {'is' if len(missing) == 1 else 'are'} not alive; alive are: "
                f"{', '.join(map(str, sorted(self.nodes)))}",
                NOT_FOUND,
            )


def numbered(noun: str, ids: Sequence[int]) -> str:
    """`broker 3`, `brokers 3, 4`."""
    return f"{noun}{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"


async def snapshot(asked: Cluster) -> Snapshot:
    """Brokers and all partitions, by the broker that took our connection."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer: MetadataResponse = await asked.first.send(request)
    check(answer.error_code, "the metadata")
    nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in answer.brokers}
    found = [
        Partition(
            topic.name,
            row.partition_index,
            row.leader_id if row.leader_id in nodes else NO_LEADER,
            tuple(row.replica_nodes),
            tuple(row.isr_nodes),
        )
        for topic in answer.topics
        if topic.name is not None
        for row in topic.partitions
    ]
    controller = answer.controller_id if answer.controller_id in nodes else None
    return Snapshot(answer.cluster_id, controller, nodes, {each.place: each for each in sorted(found)})


# --- what only some say -----------------------------------------------------------------------------------------------


async def moves(asked: Cluster) -> Moves:
    """What the controller moves now."""
    answer: ListPartitionReassignmentsResponse = await asked.ask_controller(
        ListPartitionReassignmentsRequest(timeout_ms=asked.timeout_ms)
    )
    return {
        TopicPartition(topic.name, row.partition_index): Move(
            tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
        )
        for topic in answer.topics
        for row in topic.partitions
    }


async def moves_if_told(asked: Cluster) -> Moves:
    try:
        return await moves(asked)
    except (KafkaError, ProtocolError):  # it may not be allowed, or older than KIP-455
        return {}


async def min_insync(asked: Cluster, topics: Iterable[str]) -> dict[str, int]:
    """`min.insync.replicas` of the topics; without those that do not tell."""
    found: dict[str, int] = {}
    for some in pieces(list(dict.fromkeys(topics))):
        resource = DescribeConfigsRequest.Resource
        wanted = [
            resource(resource_type=TOPIC, resource_name=name, configuration_keys=[MIN_INSYNC_REPLICAS])
            for name in some
        ]
        answer: DescribeConfigsResponse = await asked.first.send(DescribeConfigsRequest(resources=wanted))
        for row in answer.results:
            for setting in row.configs if not row.error_code else ():
                if setting.name == MIN_INSYNC_REPLICAS and setting.value and setting.value.isdecimal():
                    found[row.resource_name] = int(setting.value)
    return found


async def eligible(asked: Cluster, topics: Iterable[str]) -> dict[TopicPartition, Eligible]:
    """The eligible leaders of all partitions of these topics. Brokers before Kafka 3.7 do not tell."""
    found: dict[TopicPartition, Eligible] = {}
    for some in pieces(sorted(set(topics))):
        wanted = [DescribeTopicPartitionsRequest.Topic(name=name) for name in some]
        request = DescribeTopicPartitionsRequest(topics=wanted)
        for _ in range(_PAGES_MAX):
            try:
                answer: DescribeTopicPartitionsResponse = await asked.first.send(request)
            except ProtocolError:
                return {}
            for topic in answer.topics:
                for row in topic.partitions:
                    found[TopicPartition(topic.name or "", row.partition_index)] = Eligible(
                        tuple(row.eligible_leader_replicas or ()), tuple(row.last_known_elr or ())
                    )
            if answer.next_cursor is None:
                break
            request = DescribeTopicPartitionsRequest(topics=wanted, cursor=answer.next_cursor)
    return found


def by_topic(
    places: Iterable[TopicPartition], topic: Callable[[str, list[TopicPartition]], Any]
) -> list[Any]:
    """Partitions as requests name them: `topic` makes one out of a name and its partitions."""
    grouped: dict[str, list[TopicPartition]] = {}
    for place in places:
        grouped.setdefault(place.topic, []).append(place)
    return [topic(name, some) for name, some in grouped.items()]


def fault_of(code: int, message: str | None) -> str | None:
    """Why a broker did not do it, in words; None if it did."""
    if not code:
        return None
    error = KafkaError.of(code)
    return f"{error.code.name}: {message or error.detail or error.code.meaning}"
