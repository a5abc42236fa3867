"""Where things lie in the metadata store, and their JSON: Kafka's own layout, so that its tools can read ours.

One class per node: `path`, `encode`, `decode`. What is read may come from anybody who can reach the store: every
decoder refuses what is not as it should be with a ProtocolError that names the path.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id, parse_id
from ottla.metadata.fields import INT32_MAX, INT64_MAX, Fields, parse_number

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([^\[\]]*)\]|([^:\[\]]*)):(-?[0-9]{1,5})")
BROKERS = "/brokers/ids"
BROKER_EPOCHS = "/brokers/epochs"
CONFIG_CHANGES = "/config/changes"
"""Changes with every change of settings, in the same step: brokers watch it, and read again what is configured."""
TOPICS = "/brokers/topics"
DELETED_TOPICS = "/admin/delete_topics"
DELETED_REPLICAS = "/admin/deleted_replicas"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
DEFAULT_ENTITY = "<default>"
"""The name under which settings of all brokers are kept."""

LAYOUT = (
    "/admin", "/admin/delete_topics", "/admin/deleted_replicas", "/brokers", "/brokers/epochs", "/brokers/ids",
    "/brokers/topics", "/cluster", "/config", "/config/brokers", "/config/changes", "/config/client-metrics",
    "/config/groups", "/config/topics",
)  # fmt: skip
"""Nodes without data that must be there before the others; parents first."""


class EndpointNode(NamedTuple):
    """A listener in a broker's node."""

    listener: str
    security_protocol: str
    host: str
    port: int


class BrokerNode(NamedTuple):
    """`/brokers/ids/N`, ephemeral. Its creation id is the broker's epoch."""

    endpoints: tuple[EndpointNode, ...]
    rack: str | None = None
    previous_epoch: int = -1
    """The broker's life before, if it was ended by a clean shutdown. Ours alone: Kafka's tools ignore it."""

    @staticmethod
    def path(node_id: int) -> str:
        return f"{BROKERS}/{node_id}"

    def encode(self, now_ms: int, incarnation: str = "") -> bytes:
        """`incarnation` is unlike that of any other registration: who made this node knows it again."""
        # Host and port of the first plaintext listener are for tools older than listeners.
        plain = next((e for e in self.endpoints if e.security_protocol == "PLAINTEXT"), None)
        fields = {
            "version": 5,
            "host": plain.host if plain else None,
            "port": plain.port if plain else -1,
            "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in self.endpoints],
            "jmx_port": -1,
            "timestamp": str(now_ms),
            "listener_security_protocol_map": {e.listener: e.security_protocol for e in self.endpoints},
            "features": {},
        }
        if self.rack is not None:
            fields["rack"] = self.rack
        if self.previous_epoch >= 0:
            fields["previous_epoch"] = str(self.previous_epoch)
        if incarnation:
            fields["incarnation"] = incarnation
        return _dump(fields)

    @classmethod
    def decode(cls, path: str, data: bytes) -> "BrokerNode":
        node = Fields.parse(path, data)
        protocols = node.object("listener_security_protocol_map")
        endpoints = []
        for text in node.texts("endpoints"):
            found = _ENDPOINT.fullmatch(text)
            if not found:
                raise ProtocolError(f"{path}: {text!r} is not an endpoint")
            listener, bracketed, host, port = found.groups()
            endpoints.append(
                EndpointNode(listener, protocols.text(listener), bracketed or host or "", int(port))
            )
        return cls(
            tuple(endpoints),
            node.text("rack") if "rack" in node.fields else None,
            parse_number(path, node.text("previous_epoch"), INT64_MAX)
            if "previous_epoch" in node.fields
            else -1,
        )


class BrokerEpochNode:
    """`/brokers/epochs/N`: the last life of a broker that a controller knew of. Ours alone.

    Whoever is controller next knows by it that a broker has died and come back unseen.
    """

    @staticmethod
    def path(node_id: int) -> str:
        return f"{BROKER_EPOCHS}/{node_id}"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return str(epoch).encode()

    @staticmethod
    def decode(path: str, data: bytes) -> int:
        return parse_number(path, data.decode("ascii", "replace"), INT64_MAX)


class ControllerNode:
    """`/controller`, ephemeral: whose it is."""

    path = "/controller"

    @staticmethod
    def encode(node_id: int, now_ms: int) -> bytes:
        fields = {"version": 2, "brokerid": node_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
        return _dump(fields)

    @classmethod
    def decode(cls, data: bytes) -> int:
        return Fields.parse(cls.path, data).number("brokerid")


class ControllerEpochNode:
    """`/controller_epoch`: a bare number that grows with every election."""

    path = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return str(epoch).encode()

    @classmethod
    def decode(cls, data: bytes) -> int:
        return parse_number(cls.path, data.decode("ascii", "replace"), INT32_MAX)


class TopicNode(NamedTuple):
    """`/brokers/topics/T`: the topic's id, and the replicas of its partitions."""

    topic_id: uuid.UUID
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = {}
    removing: Mapping[int, tuple[int, ...]] = {}

    @staticmethod
    def path(topic: str) -> str:
        return f"{TOPICS}/{topic}"

    def encode(self) -> bytes:
        return _dump(
            {
                "removing_replicas": {str(index): ids for index, ids in self.removing.items()},
                "partitions": {str(index): ids for index, ids in enumerate(self.replicas)},
                "topic_id": format_id(self.topic_id),
                "adding_replicas": {str(index): ids for index, ids in self.adding.items()},
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> "TopicNode":
        node = Fields.parse(path, data)
        try:
            topic_id = parse_id(node.text("topic_id"))
        except ValueError as error:
            raise ProtocolError(f"{path}: {error}") from None
        replicas = _by_partition(node.object("partitions"))
        if not all(replicas.values()):
            raise ProtocolError(f"{path}: a partition has no replicas")
        if not replicas or sorted(replicas) != list(range(len(replicas))):
            raise ProtocolError(f"{path}: the partitions are not numbered from 0 without holes")
        return cls(
            topic_id,
            tuple(replicas[index] for index in range(len(replicas))),
            _by_partition(node.object("adding_replicas")) if "adding_replicas" in node.fields else {},
            _by_partition(node.object("removing_replicas")) if "removing_replicas" in node.fields else {},
        )


class PartitionStateNode(NamedTuple):
    """`/brokers/topics/T/partitions/P/state`. The node's version is the partition epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    elr: tuple[int, ...] = ()
    last_known_leader: int = -1
    is_recovering: bool = False
    """These three are ours alone, and written only where they say something."""

    @staticmethod
    def parents(topic: str, partition: int) -> tuple[str, str]:
        return f"/brokers/topics/{topic}/partitions", f"/brokers/topics/{topic}/partitions/{partition}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"/brokers/topics/{topic}/partitions/{partition}/state"

    def encode(self) -> bytes:
        return (
            f'{{"controller_epoch":{self.controller_epoch},"leader":{self.leader},"version":1,'
            f'"leader_epoch":{self.leader_epoch},"isr":[{",".join(map(str, self.isr))}]{self._more()}}}'
        ).encode()

    def _more(self) -> str:
        more = f',"elr":[{",".join(map(str, self.elr))}]' if self.elr else ""
        more += f',"last_known_leader":{self.last_known_leader}' if self.last_known_leader >= 0 else ""
        return more + (',"recovering":1' if self.is_recovering else "")

    @classmethod
    def decode(cls, path: str, data: bytes) -> "PartitionStateNode":
        node = Fields.parse(path, data)
        return cls(
            node.number("leader", low=-1),
            node.number("leader_epoch"),
            node.ids("isr"),
            node.number("controller_epoch"),
            node.ids("elr") if "elr" in node.fields else (),
            node.number("last_known_leader", low=-1) if "last_known_leader" in node.fields else -1,
            bool(node.number("recovering")) if "recovering" in node.fields else False,
        )


class ConfigNode:
    """`/config/<kind>/<name>`: settings that were made for a topic, a broker, all brokers, ..."""

    @staticmethod
    def parent(kind: str) -> str:
        return f"/config/{kind}"

    @staticmethod
    def path(kind: str, name: str | None) -> str:
        """Without a name: the settings that all of this kind have."""
        return f"/config/{kind}/{DEFAULT_ENTITY if name is None else escape(name)}"

    @staticmethod
    def encode(values: Mapping[str, str]) -> bytes:
        return _dump({"version": 1, "config": dict(values)})

    @staticmethod
    def decode(path: str, data: bytes) -> dict[str, str]:
        if not data:
            return {}
        values = Fields.parse(path, data).object("config")
        return {key: values.text(key) for key in values.fields}


class DeleteTopicNode:
    """`/admin/delete_topics/T`: the topic is to go, and stays marked until nothing is left of it."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{DELETED_TOPICS}/{topic}"


class DeletedReplicasNode(NamedTuple):
    """`/admin/deleted_replicas/B-I`: replicas of the topic with id I that broker B still has to delete. Ours alone.

    It is there from before they are taken from the broker until it has said that they are gone, so none survives the
    death of the broker or of the controller.
    """

    topic: str
    partitions: tuple[int, ...]

    @staticmethod
    def path(broker: int, topic_id: uuid.UUID) -> str:
        return f"{DELETED_REPLICAS}/{broker}-{format_id(topic_id)}"

    @staticmethod
    def parse(path: str) -> tuple[int, uuid.UUID]:
        """The broker and the topic's id."""
        broker, _, topic_id = path.rpartition("/")[2].partition("-")
        try:
            return parse_number(path, broker, INT32_MAX), parse_id(topic_id)
        except ValueError as error:
            raise ProtocolError(f"{path}: {error}") from None

    def encode(self) -> bytes:
        return _dump({"version": 1, "topic": self.topic, "partitions": self.partitions})

    @classmethod
    def decode(cls, path: str, data: bytes) -> "DeletedReplicasNode":
        node = Fields.parse(path, data)
        return cls(node.text("topic"), node.ids("partitions"))


class ProducerIdBlockNode(NamedTuple):
    """`/latest_producer_id_block`: the ids that were handed out last, and to whom."""

    broker: int
    first: int
    last: int

    def encode(self) -> bytes:
        fields = {"version": 1, "broker": self.broker}
        return _dump({**fields, "block_start": str(self.first), "block_end": str(self.last)})

    @classmethod
    def decode(cls, data: bytes) -> "ProducerIdBlockNode":
        node = Fields.parse(PRODUCER_ID_BLOCK, data)
        first = parse_number(PRODUCER_ID_BLOCK, node.text("block_start"), INT64_MAX)
        last = parse_number(PRODUCER_ID_BLOCK, node.text("block_end"), INT64_MAX)
        if last < first:
            raise ProtocolError(f"{PRODUCER_ID_BLOCK}: the block ends at {last}, before its start at {first}")
        return cls(node.number("broker"), first, last)


class ClusterIdNode:
    """`/cluster/id`."""

    path = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        return _dump({"version": "1", "id": cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> str:
        cluster_id = Fields.parse(cls.path, data).text("id")
        if not cluster_id:
            raise ProtocolError(f"{cls.path}: the id is empty")
        return cluster_id


def escape(name: str) -> str:
    """A name as it stands in a path. Names of groups may hold anything; Kafka escapes as in URLs, and so do we."""
    if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name):
        return name
    return "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b"_-" else f"%{byte:02X}"
        for byte in name.encode("utf-8", "surrogatepass")
    )


def unescape(name: str) -> str:
    """The name that `escape` was given."""
    if "%" not in name:
        return name
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), name.encode())
    return raw.decode("utf-8", "replace")


def _by_partition(node: Fields) -> dict[int, tuple[int, ...]]:
    return {parse_number(node.path, index, INT32_MAX): node.ids(index) for index in node.fields}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _dump(fields: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
