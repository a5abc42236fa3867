"""May a directory of Apache Kafka be taken over? Yes, unless records would be lost by it, or become public.

Every refusal is a ConfigError that says what to do. Nothing is written here.
"""

import logging
import struct
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.config import Source
from ottla.core.errors import ConfigError, ProtocolError
from ottla.core.ids import NULL_ID, PartitionDirectory, TopicPartition, is_reserved_id, topic_name_fault
from ottla.metadata.kraft_image import KraftImage, KraftPartition, KraftTopic
from ottla.storage.checkpoints import read_partition_metadata
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.meta import METADATA_DIRECTORY, Meta, read_meta
from ottla.storage.scan import BrokenChain, walk

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig

logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000
_MIGRATING = (1, 2)  # a cluster that is still on its way from ZooKeeper
_TIME_INDEX_ENTRY = struct.Struct(">qi")
_GLANCED_BYTES_MAX = 1 << 20
_RETENTION_TIMES = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")

Here = Mapping[TopicPartition, str]
"""Partitions that are in the log directories, and where."""


class Directories(NamedTuple):
    """What the directories say of themselves."""

    cluster_id: str
    ids: frozenset[uuid.UUID]
    partitions: dict[TopicPartition, tuple[str, uuid.UUID | None]]
    """Where each partition lies, and the topic id that is written there."""


# --- the directories --------------------------------------------------------------------------------------------------


def check_directories(
    files: Files, metadata_dir: str, log_dirs: list[str], config: "BrokerConfig"
) -> Directories:
    """They must be this broker's, of one cluster, and have each partition once."""
    metas = {path: read_meta(files, path) for path in dict.fromkeys([metadata_dir, *log_dirs])}
    for path, meta in metas.items():
        if meta is not None and meta.node_id not in (None, config.node_id):
            raise ConfigError(
                f"{path} belongs to broker {meta.node_id}, this one is {config.node_id}: "
                f"start it with node.id={meta.node_id}"
            )
    first = metas[metadata_dir]
    if first is None or first.cluster_id is None:
        raise ConfigError(
            f"{metadata_dir} has metadata of Apache Kafka, but no meta.properties with a cluster.id"
        )
    for path, meta in metas.items():
        if meta is not None and meta.cluster_id not in (None, first.cluster_id):
            raise ConfigError(
                f"{path} belongs to cluster {meta.cluster_id}, but {metadata_dir} to {first.cluster_id}"
            )
    return Directories(first.cluster_id, _ids(metas, log_dirs), _partitions(files, log_dirs))


def _ids(metas: Mapping[str, Meta | None], log_dirs: list[str]) -> frozenset[uuid.UUID]:
    found = (meta for path, meta in metas.items() if path in log_dirs and meta is not None)
    return frozenset(meta.directory_id for meta in found if meta.directory_id is not None)


def _partitions(files: Files, log_dirs: list[str]) -> dict[TopicPartition, tuple[str, uuid.UUID | None]]:
    found: dict[TopicPartition, tuple[str, uuid.UUID | None]] = {}
    for directory in log_dirs:
        for name in files.names(directory):
            parsed = PartitionDirectory.parse(name)
            if parsed is None or parsed.state != "live" or name == METADATA_DIRECTORY:
                continue
            path = f"{directory}/{name}"
            if parsed.partition in found:
                raise ConfigError(f"{parsed.partition} is in {found[parsed.partition][0]} and in {path}")
            found[parsed.partition] = path, read_partition_metadata(files, path)
    return found


# --- the cluster ------------------------------------------------------------------------------------------------------


def check_cluster(image: KraftImage, end_offset: int, found: Directories, config: "BrokerConfig") -> Here:
    """Everything that the cluster had must be here. Returns where its partitions are."""
    if end_offset == 0 and found.partitions:
        raise ConfigError(
            f"the metadata of Apache Kafka is empty, but {len(found.partitions)} partitions are here "
            f"({min(found.partitions)}, for one): nothing would be known of them. Bring its {METADATA_DIRECTORY} back"
        )
    if image.zk_migration_state in _MIGRATING:
        raise ConfigError(
            "the cluster is still on its way from ZooKeeper: finish the migration with Apache Kafka"
        )
    _check_topics(image)
    _check_replicas(image, config.node_id)
    here = {
        TopicPartition(topic.name, index): found.partitions[TopicPartition(topic.name, index)][0]
        for topic in image.topics.values()
        for index in topic.partitions
        if _is_here(topic, index, found)
    }
    _check_disks(image, here, found.ids, config.node_id)
    _check_acls(image, config)
    return here


def _is_here(topic: KraftTopic, index: int, found: Directories) -> bool:
    _, topic_id = found.partitions.get(TopicPartition(topic.name, index), ("", NULL_ID))
    return topic_id in (None, topic.topic_id)


def _check_topics(image: KraftImage) -> None:
    """What no broker of Kafka writes cannot be stored, either."""
    names: set[str] = set()
    for topic in image.topics.values():
        fault = topic_name_fault(topic.name)
        if fault is None and (topic.name in names or f"{topic.name}-0" == METADATA_DIRECTORY):
            fault = "is there twice"
        if fault is None and sorted(topic.partitions) != [*range(max(1, len(topic.partitions)))]:
            fault = "has holes"
        if fault is not None:
            raise ConfigError(f"the topic {topic.name!r} of Apache Kafka {fault}: it cannot be taken over")
        names.add(topic.name)


def _check_replicas(image: KraftImage, node_id: int) -> None:
    """Either nobody else had replicas, or this broker, which decided alone, knows that it has all that they have."""
    decided_alone = image.voters == frozenset({node_id})
    elsewhere = [
        TopicPartition(topic.name, index)
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if not _is_whole(partition, node_id, decided_alone=decided_alone)
    ]
    if elsewhere:
        raise ConfigError(
            f"{len(elsewhere)} partitions have replicas on other brokers, which may hold more than broker {node_id} "
            f"({elsewhere[0]}, for one): move all of them to this broker, with kafka-reassign-partitions.sh, and stop "
            "it after that"
        )


def _is_whole(partition: KraftPartition, node_id: int, *, decided_alone: bool) -> bool:
    if partition.replicas == (node_id,):
        return True
    return decided_alone and node_id in partition.replicas and partition.has_everything(node_id)


def missing(image: KraftImage, here: Here) -> list[TopicPartition]:
    """Partitions of the cluster that no directory has."""
    every = (
        TopicPartition(topic.name, index) for topic in image.topics.values() for index in topic.partitions
    )
    return [partition for partition in every if partition not in here]


def _check_disks(image: KraftImage, here: Here, ids: frozenset[uuid.UUID], node_id: int) -> None:
    """A log directory that was not named would leave its partitions empty. One whose broker died right after a topic
    was created may lack a partition: Kafka makes it at the next start, and so do we."""
    absent = missing(image, here)
    known = {each for each in image.brokers.get(node_id, ()) if not is_reserved_id(each)}
    if not known and absent:
        raise ConfigError(
            f"{len(absent)} partitions are in none of the directories ({absent[0]}, for one): "
            "log.dirs must name all that the broker of Apache Kafka had"
        )
    if not known <= ids:
        raise ConfigError(
            f"the broker of Apache Kafka had {len(known)} log directories, and {len(known - ids)} of them are not "
            "named here: log.dirs must name all of them"
        )


def _check_acls(image: KraftImage, config: "BrokerConfig") -> None:
    if image.acls and not config.adoption_ignore_acls:
        raise ConfigError(
            f"the cluster has {len(image.acls)} ACLs, which are not supported yet: everybody who reaches this broker "
            "could read and write everything. If that is all right, start it with adoption.ignore.acls=true"
        )


# --- the records ------------------------------------------------------------------------------------------------------


def check_retention(
    files: Files,
    image: KraftImage,
    here: Here,
    settings: Mapping[ConfigResource, Mapping[str, str]],
    config: "BrokerConfig",
    now_ms: int,
) -> None:
    """The retention that stood in the old server.properties is in no metadata: where nobody has said one, and the
    default would delete records at once, somebody has to. Where it would do so later, somebody should know."""
    if _is_retention_said(settings, config):
        return
    kept: set[str] = set()
    doomed: set[str] = set()
    for topic in image.topics.values():
        own = TopicConfig(settings.get(ConfigResource(ResourceType.TOPIC, topic.name), {}), broker=config)
        if "delete" in own.cleanup_policy and own.describe("retention.ms").source is Source.DEFAULT:
            places = (here.get(TopicPartition(topic.name, index)) for index in topic.partitions)
            newest = [_newest_of_oldest(files, place) for place in places if place is not None]
            is_doomed = any(time is not None and now_ms - time > own.retention_ms for time in newest)
            (doomed if is_doomed else kept).add(topic.name)
    if kept and not doomed:
        logger.warning(
            "records of %d topics (%s, for one) are kept for %d days, the default: if the old broker kept them for "
            "longer, say so with its server.properties (--config), or with log.retention.ms",
            *(len(kept), min(kept), config["log.retention.ms"] // _DAY_MS),
        )
    if doomed:
        raise ConfigError(
            f"{len(doomed)} topics ({min(doomed)}, for one) have records that log.retention.ms, which nobody has set, "
            "would delete at once: start it with the server.properties of the old broker (--config), or say how long "
            "records are kept (log.retention.ms=-1 is for ever)"
        )


def _is_retention_said(settings: Mapping[ConfigResource, Mapping[str, str]], config: "BrokerConfig") -> bool:
    """For all topics: in the file or on the command line, or in the metadata, for all brokers or for this one."""
    if config.describe("log.retention.ms").source is not Source.DEFAULT:
        return True
    of_brokers = [
        settings.get(ConfigResource(ResourceType.BROKER, id), {}) for id in ("", str(config.node_id))
    ]
    return any(key in _RETENTION_TIMES for values in of_brokers for key in values)


def _newest_of_oldest(files: Files, directory: str) -> int | None:
    """The time of the newest record in the oldest segment: the next to go. None if nobody can tell."""
    segment = min((name for name in files.names(directory) if name.endswith(".log")), default=None)
    if segment is None:
        return None
    path = f"{directory}/{segment}"
    index = f"{path.removesuffix('.log')}.timeindex"
    noted = _last_time(files.read(index)) if files.exists(index) else None
    return _glance(files, path) if noted is None else noted


def _last_time(index: bytes) -> int | None:
    """What the last entry says; an index that was in use when its broker died has zeros behind it."""
    low, high = 0, len(index) // _TIME_INDEX_ENTRY.size
    while low < high:
        middle = (low + high) // 2
        if _TIME_INDEX_ENTRY.unpack_from(index, middle * _TIME_INDEX_ENTRY.size)[0] > 0:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return None
    time: int = _TIME_INDEX_ENTRY.unpack_from(index, (low - 1) * _TIME_INDEX_ENTRY.size)[0]
    return time


def _glance(files: Files, path: str) -> int | None:
    """The newest time in a segment without an index: a small one, or one that is being written."""
    file = files.open(path)
    newest = None
    try:
        for batch in walk(file, 0, min(file.size(), _GLANCED_BYTES_MAX)):
            newest = max(newest or 0, batch.max_timestamp)
    except (BrokenChain, ProtocolError):
        pass
    finally:
        file.close()
    return newest
