"""What ZooKeeper says of the cluster: who leads, who is in sync, and how often that has changed.

Read by a client of its own, straight from the nodes that the brokers write: whatever a broker believes of itself, and
has forgotten with its last life, does not come into it.
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

Place = tuple[str, int]
ASK_SECONDS = 10.0
UNREADABLE = (KazooException, KazooTimeoutError)


class PartitionNode(NamedTuple):
    """`/brokers/topics/T/partitions/N/state`, and the replicas that the topic has given it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    version: int
    """How often the node was written."""

    @property
    def is_whole(self) -> bool:
        return self.leader in self.isr and set(self.isr) == set(self.replicas)


class ClusterState(NamedTuple):
    """What the nodes said, one after the other."""

    controller: int | None
    controller_epoch: int
    brokers: Mapping[int, int]
    """Those that are registered, and their epochs."""
    partitions: Mapping[Place, PartitionNode]

    def leaders_of(self, topics: frozenset[str]) -> dict[Place, int]:
        return {place: node.leader for place, node in self.partitions.items() if place[0] in topics}

    def faults(self, brokers: int) -> list[str]:
        """Why the cluster is not whole; empty if it is."""
        found = [] if self.controller in self.brokers else ["there is no controller"]
        if len(self.brokers) < brokers:
            found.append(f"registered are {sorted(self.brokers)}")
        return found + [
            f"{topic}-{number} is led by {node.leader}, in sync are {list(node.isr)} of {list(node.replicas)}"
            for (topic, number), node in sorted(self.partitions.items())
            if not node.is_whole
        ]

    def elections_since(self, before: "ClusterState") -> int:
        return sum(
            node.leader_epoch - before.partitions[place].leader_epoch
            for place, node in self.partitions.items()
            if place in before.partitions
        )

    def isr_changes_since(self, before: "ClusterState") -> dict[Place, int]:
        """By partition: every write of its node that was no election."""
        return {
            place: (node.version - was.version) - (node.leader_epoch - was.leader_epoch)
            for place, node in self.partitions.items()
            if (was := before.partitions.get(place)) is not None
        }


def read_state(connect: str) -> ClusterState:
    """Raises one of UNREADABLE if ZooKeeper does not answer."""
    with _client(connect) as client:
        ids = client.get_children("/brokers/ids")
        brokers = {int(each): _created(client, f"/brokers/ids/{each}") for each in ids}
        partitions: dict[Place, PartitionNode] = {}
        for topic in client.get_children("/brokers/topics"):
            with contextlib.suppress(NoNodeError):  # it is being deleted
                partitions |= _read_topic(client, topic)
        controller = _read(client, "/controller")
        epoch = client.get("/controller_epoch")[0] if client.exists("/controller_epoch") else b"0"
    number = None if controller is None else int(controller[0]["brokerid"])
    gone = {each for each, created in brokers.items() if created < 0}
    return ClusterState(number, int(epoch), {n: e for n, e in brokers.items() if n not in gone}, partitions)


def _read_topic(client: KazooClient, topic: str) -> dict[Place, PartitionNode]:
    path, found = f"/brokers/topics/{topic}", {}
    assignment = json.loads(client.get(path)[0])["partitions"]
    for number, replicas in assignment.items():
        read = _read(client, f"{path}/partitions/{number}/state")
        if read is None:
            found[topic, int(number)] = PartitionNode(-1, 0, (), tuple(replicas), 0)
            continue
        state, version = read
        found[topic, int(number)] = PartitionNode(
            state["leader"], state["leader_epoch"], tuple(state["isr"]), tuple(replicas), version
        )
    return found


def _read(client: KazooClient, path: str) -> tuple[Any, int] | None:
    try:
        data, stat = client.get(path)
    except NoNodeError:
        return None
    return json.loads(data), stat.version


def _created(client: KazooClient, path: str) -> int:
    stat = client.exists(path)
    return stat.czxid if stat is not None else -1


@contextlib.contextmanager
def _client(connect: str) -> Iterator[KazooClient]:
    quiet = logging.getLogger("tests.cluster.kazoo")
    quiet.setLevel(logging.CRITICAL)
    client = KazooClient(connect, timeout=ASK_SECONDS, read_only=False, logger=quiet)
    try:
        client.start(ASK_SECONDS)
        yield client
    finally:
        client.stop()
        client.close()
