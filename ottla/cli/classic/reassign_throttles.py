"""The throttles of `kafka-reassign-partitions` (KIP-73): set before partitions move, cleared when nothing moves.

What `ottla cluster reassign` names only for partitions that are copied, this tool, as Apache's does, also names for
those that stay where they are.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.cli.classic.java import hash_ordered
from ottla.cli.classic.reassign_files import Replicas
from ottla.cli.classic.reassign_state import Moving, racks
from ottla.cli.cluster_throttles import RATES, REPLICAS
from ottla.cli.dump.output import printable
from ottla.client.admin.config_values import ConfigResource
from ottla.client.admin.configs import incremental_alter_configs
from ottla.core.ids import TopicPartition

_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Copy(NamedTuple):
    """From whom to whom a partition is copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def copies(going: Moving, proposed: Replicas, current: Replicas) -> dict[TopicPartition, Copy]:
    """Of all that moves now, and of all that is to move."""
    found = {
        place: Copy(
            frozenset(each.replicas) - frozenset(each.adding_replicas), frozenset(each.adding_replicas)
        )
        for place, each in going.items()
    }
    for place, replicas in proposed.items():
        before = found.get(place, Copy(frozenset(current[place]), frozenset()))
        found[place] = before._replace(
            destinations=(before.destinations | frozenset(replicas)) - before.sources
        )
    return found


def topic_settings(wanted: Mapping[TopicPartition, Copy]) -> dict[str, dict[str, str]]:
    """What the two settings of each topic say: whose replication holds back."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for place, copy in wanted.items():
        for side, ids in zip(found.setdefault(place.topic, (set(), set())), copy, strict=True):
            side.update(f"{place.partition}:{id}" for id in ids)
    return {
        topic: dict(zip(REPLICAS, (",".join(sorted(side)) for side in sides), strict=True))
        for topic, sides in sorted(found.items())
    }


async def limit_copies(admin: Any, wanted: Mapping[TopicPartition, Copy], bytes_per_s: int) -> None:
    changes: dict[ConfigResource, dict[str, Any]] = {
        ConfigResource.topic(topic): dict(settings) for topic, settings in topic_settings(wanted).items()
    }
    brokers = {id for copy in wanted.values() for id in (*copy.sources, *copy.destinations)}
    changes |= {ConfigResource.broker(id): dict.fromkeys(RATES, str(bytes_per_s)) for id in sorted(brokers)}
    await incremental_alter_configs(admin, changes)


async def limit_dirs(admin: Any, brokers: Iterable[int], bytes_per_s: int) -> None:
    """Hold back moves between the directories of these brokers."""
    changes = {ConfigResource.broker(id): {_DIRS_RATE: str(bytes_per_s)} for id in sorted(set(brokers))}
    if changes:
        await incremental_alter_configs(admin, changes)


async def clear(admin: Any, parts: Replicas) -> None:
    """Nobody holds back any more: no broker that lives or is named, no topic that is named."""
    brokers = sorted({*await racks(admin), *(id for replicas in parts.values() for id in replicas)})
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, brokers))}")
    keys = (*RATES, _DIRS_RATE)
    await incremental_alter_configs(admin, {ConfigResource.broker(id): dict.fromkeys(keys) for id in brokers})
    topics = hash_ordered({place.topic: None for place in parts})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {printable(','.join(topics))}")
    if topics:
        wanted = {ConfigResource.topic(topic): dict.fromkeys(REPLICAS) for topic in topics}
        await incremental_alter_configs(admin, wanted)


def _s(things: Collection[Any]) -> str:
    return "" if len(things) == 1 else "s"
