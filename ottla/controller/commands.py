"""What a controller can be asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class NewTopic(NamedTuple):
    """A topic to be created. -1 leaves the number to the broker's settings; `assignments` replaces both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = {}
    configs: Mapping[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class Growth:
    """More partitions for a topic: `count` in the end. `assignments` are the replicas of each new one."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class ResourceType(IntEnum):
    """What can be configured; the numbers of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose settings. The name of a broker is its id; empty means all brokers."""

    type: ResourceType
    name: str
