"""Which partition a record goes to, if it does not name one.

    default       by its key, as Java's client does; without a key one partition for as long as a batch takes
    key           by its key; records without one are refused
    round_robin   each partition in turn
    random        any partition
    rack, host    partitions whose leader is where the producer is: `client_rack`, or this machine

Your own is a function `(topic, key, value, partitions) -> number`, or an object with a method
`partition(record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int`.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.client.metadata import Metadata, TopicInfo
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.core.hosts import is_loopback

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install

_KNOWN_KEYS_MAX = 50_000
_FACTOR: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF


class Outgoing(NamedTuple):
    """What a partitioner sees of a record: after the serializers, and before them."""

    topic: str
    key: Any
    key_bytes: bytes | None
    value: Any
    value_bytes: bytes | None


class Partitioner(Protocol):
    """Must name a partition of the topic; one without a leader is possible, and waits for one."""

    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int: ...


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys, 32 bits without a sign.

    Byte by byte: compiled, that is ten times as fast as cutting words out, and interpreted it is no slower.
    """
    length: i64 = len(data)
    whole: i64 = length & ~3
    h: i64 = 0x9747B28C ^ length
    position: i64 = 0
    while position < whole:
        k: i64 = (
            data[position] | data[position + 1] << 8 | data[position + 2] << 16 | data[position + 3] << 24
        )
        k = k * _FACTOR & _WORD
        h = h * _FACTOR & _WORD ^ (k ^ k >> 24) * _FACTOR & _WORD
        position += 4
    if length > whole:
        k = 0
        position = length
        while position > whole:
            position -= 1
            k = k << 8 | data[position]
        h = (h ^ k) * _FACTOR & _WORD
    h = (h ^ h >> 13) * _FACTOR & _WORD
    return h ^ h >> 15


class KeyHashes:
    """The hashes of keys that were seen: to look one up takes a tenth of the time."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def __call__(self, key: bytes) -> int:
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KNOWN_KEYS_MAX:
                self._known.clear()
            found = self._known[key] = murmur2(key) & 0x7FFFFFFF
        return found


def stick(topic: TopicInfo, before: int, waiting: Callable[[str, int], int]) -> int:
    """Where records without a key go next, for as long as a batch takes (KIP-794): a partition that has a leader, of
    two that chance names the one on which less is waiting."""
    candidates = topic.available or list(range(len(topic.partitions)))
    if len(candidates) > 1 and before in candidates:
        candidates.remove(before)
    one, other = random.choice(candidates), random.choice(candidates)
    return one if waiting(topic.name, one) <= waiting(topic.name, other) else other


class ByKey:
    """The hash of the key, whatever the partitions' state: the same key always goes to the same place."""

    def __init__(self) -> None:
        self._hash = KeyHashes()

    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int:
        if record.key_bytes is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"the partitioner `key` needs a key, and a record for {record.topic} has none",
            )
        return self._hash(record.key_bytes) % len(topic.partitions)


class RoundRobin:
    """The partitions that have a leader, one after the other."""

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int:
        candidates = topic.available or range(len(topic.partitions))
        return candidates[next(self._turns.setdefault(topic.name, count())) % len(candidates)]


class Random:
    """Any partition that has a leader."""

    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int:
        return random.choice(topic.available or range(len(topic.partitions)))


class ByPlace:
    """Partitions whose leader is near, in turn; all of them where none is.

    For clusters in two data centres: each site's producers write to the brokers of their own.
    """

    def __init__(self, is_near: Callable[[Metadata, int], bool]) -> None:
        self._is_near = is_near
        self._turn = count()

    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int:
        near = [each.partition for each in topic.partitions if self._is_near(cluster, each.leader)]
        candidates = near or topic.available or range(len(topic.partitions))
        return candidates[next(self._turn) % len(candidates)]


class ByFunction:
    """An application's own function."""

    def __init__(self, fn: Callable[[str, Any, Any, int], Any]) -> None:
        self._fn = fn

    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> Any:
        return self._fn(record.topic, record.key, record.value, len(topic.partitions))


def _in_rack(rack: str) -> Callable[[Metadata, int], bool]:
    def is_near(cluster: Metadata, leader: int) -> bool:
        node = cluster.brokers.get(leader)
        return node is not None and node.rack == rack

    return is_near


def _on_host(host: str) -> Callable[[Metadata, int], bool]:
    names = {host, host.partition(".")[0]}

    def is_near(cluster: Metadata, leader: int) -> bool:
        node = cluster.brokers.get(leader)
        return node is not None and (node.host in names or is_loopback(node.host))

    return is_near


_BY_NAME: Mapping[str, Callable[[], Partitioner]] = {
    "key": ByKey,
    "round_robin": RoundRobin,
    "random": Random,
}
_JAVA_CLASSES = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "default",
}


def partitioner_of(setting: Any, rack: str) -> Partitioner | None:
    """The partitioner that a setting means; None for the default, which producers have built in."""
    if isinstance(setting, str):
        name = _JAVA_CLASSES.get(setting, setting)
        if name == "default":
            return None
        if name == "rack":
            if not rack:
                raise ConfigError("partitioner is rack: client.rack must be set")
            return ByPlace(_in_rack(rack))
        if name == "host":
            return ByPlace(_on_host(socket.gethostname()))
        if name not in _BY_NAME:
            known = ", ".join(["default", *_BY_NAME, "rack", "host"])
            raise ConfigError(f"partitioner is {setting!r}, but must be {known}, a function or an object")
        return _BY_NAME[name]()
    if isinstance(setting, type):
        setting = setting()
    if hasattr(setting, "partition"):
        found: Partitioner = setting
        return found
    if callable(setting):
        return ByFunction(setting)
    raise ConfigError(f"partitioner is {setting!r}, which can neither be called nor has `partition`")
