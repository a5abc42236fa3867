"""Taking over a log directory of Apache Kafka: what its cluster knew of its topics moves into the embedded store.

It happens once, at the first start in such a directory, before any log is opened:

1. `__cluster_metadata-0` is read, and judged: nothing may be lost, nothing may become public (`adoption_checks`)
2. everything is written to the store in one step; a crash before that leaves a directory that is Kafka's still
3. what a killed broker had not noted of its logs is noted (`adoption_epochs`)
4. `ottla-adopted.json` says that it happened, and up to where the metadata of Kafka was written then; so does a node of
   the store, should the power go between the two

From then on Kafka's metadata is history. Should its log have grown at a later start, then a broker of Kafka was here
in between, and the store does not know what it did: that is refused.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.adoption_checks import check_cluster, check_directories, check_retention, missing
from ottla.broker.adoption_epochs import note_epochs
from ottla.controller import partitions
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.configs import path_of
from ottla.core.errors import ConfigError, KafkaError, OttlaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.metadata import paths
from ottla.metadata.kraft_image import METADATA_VERSION, KraftImage, KraftTopic
from ottla.metadata.kraft_log import Position, position, read_image
from ottla.metadata.paths import (
    ClusterIdNode,
    ConfigNode,
    ControllerEpochNode,
    ProducerIdBlockNode,
    TopicNode,
)
from ottla.metadata.store import Create, MetadataStore, Op
from ottla.replication.state import TopicImage
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import Files, write_whole
from ottla.storage.meta import ADOPTED, METADATA_DIRECTORY

if TYPE_CHECKING:
    from ottla.broker.configs import Configs

logger = logging.getLogger(__name__)

STORE_NAME = "ottla-metadata.db"
ADOPTED_NODE = "/adopted"
_NEW_EPOCH = 0
_IDS_PER_MS_BITS = 12
"""Producer ids go on far above those of Kafka, and of anybody who took the directory over before. A broker that goes
back to Kafka would get its next ids from there, and take records of a new producer for those of one that we served: it
would drop them as duplicates."""

Settings = dict[ConfigResource, dict[str, str]]


class Adoption(NamedTuple):
    """What is to be taken over: read and judged, nothing changed yet."""

    directory: str
    position: Position
    cluster_id: str
    image: KraftImage
    end_offset: int
    first_producer_id: int
    settings: Settings
    places: Mapping[TopicPartition, str]
    """All partitions that are here, also such as belong to no topic, and where."""
    leader_epochs: Mapping[TopicPartition, int]
    """The newest epoch in each log: one that is in use must not begin again."""

    async def take_over(self, store: MetadataStore, files: Files, node_id: int) -> None:
        """Write all of it to the store, in one step, unless an earlier start came so far; then say that it is done."""
        found = await store.get_all([ClusterIdNode.path, ADOPTED_NODE])
        if ClusterIdNode.path not in found:
            await store.multi(list(_writes(self, node_id)))
            # Not every day's news: it is shown unless somebody wants to see errors only.
            logger.warning("%s", _told(self))
        elif ADOPTED_NODE not in found:
            return  # a store that was made for something else: who signs the directories says so
        else:
            _check_unchanged(self.directory, _decode(found[ADOPTED_NODE].data, ADOPTED_NODE), self.position)
        await asyncio.to_thread(note_epochs, files, self.places.items())
        marker = f"{self.directory}/{ADOPTED}"
        await asyncio.to_thread(write_whole, files, marker, _encode(self.position))


# --- reading ----------------------------------------------------------------------------------------------------------


def is_done(files: Files, directory: str) -> bool:
    """Was the directory with this metadata taken over already? Raises ConfigError if Kafka has used it since."""
    marker = f"{directory}/{ADOPTED}"
    if not files.exists(marker):
        return False
    now = position(files, f"{directory}/{METADATA_DIRECTORY}")
    _check_unchanged(directory, _decode(files.read(marker), marker), now)
    return True


def _check_unchanged(directory: str, then: Position, now: Position) -> None:
    if then != now:
        raise ConfigError(
            f"Apache Kafka has run in {directory} since Ottla took it over, and {STORE_NAME} does not know what it "
            "changed: a directory that went back to Apache Kafka stays there. Nothing was changed"
        )


def examine(
    files: Files, directory: str, log_dirs: list[str], configs: "Configs", now_ms: int
) -> Adoption | None:
    """Read the metadata in `directory` and judge whether all of it can be taken over. Raises ConfigError if not.

    None if it was taken over already."""
    if is_done(files, directory):
        return None
    config = configs.broker
    try:
        at = position(files, f"{directory}/{METADATA_DIRECTORY}")
        found = check_directories(files, directory, log_dirs, config)
        image, end_offset = read_image(files, f"{directory}/{METADATA_DIRECTORY}")
        here = check_cluster(image, end_offset, found, config)
        settings = dict(_settings(image, configs))
        check_retention(files, image, here, settings, config, now_ms)
    except (ProtocolError, OSError) as error:
        raise ConfigError(f"{directory} cannot be taken over from Apache Kafka: {error}") from error
    epochs = {partition: _latest_epoch(files, path) for partition, path in here.items()}
    _warn(image, missing(image, here), config.node_id)
    first_id = max(image.next_producer_id, now_ms << _IDS_PER_MS_BITS)
    every = {partition: path for partition, (path, _) in found.partitions.items()}
    return Adoption(directory, at, found.cluster_id, image, end_offset, first_id, settings, every, epochs)


def _latest_epoch(files: Files, directory: str) -> int:
    epochs = LeaderEpochs(files, directory)
    try:
        epochs.load()
    except (OSError, OttlaError):
        return -1  # whoever opens the log deals with that
    return -1 if epochs.latest is None else epochs.latest


def _settings(image: KraftImage, configs: "Configs") -> Iterator[tuple[ConfigResource, dict[str, str]]]:
    """The settings that mean something here. A key that does not is left out; one of a topic that does, with a value
    that cannot be, is refused: it may be what keeps records."""
    for (number, name), values in image.configs.items():
        kind = next((each for each in ResourceType if each == number), ResourceType.UNKNOWN)
        resource = ConfigResource(kind, name)
        if kind is ResourceType.BROKER and not configs.is_own(resource):
            continue  # another broker's, which is gone
        try:
            path_of(resource)
            configs.check(resource, values)
            kept = values
        except KafkaError:
            kept = {key: value for key, value in values.items() if _is_kept(configs, resource, key, value)}
            _check_together(configs, resource, kept)
        if kept:
            yield resource, kept


def _is_kept(configs: "Configs", resource: ConfigResource, key: str, value: str) -> bool:
    try:
        path_of(resource)
        configs.check(resource, {key: value})
    except KafkaError as error:
        if resource.type is ResourceType.TOPIC and key in TopicConfig.keys:
            raise ConfigError(f"{key}={value} of topic {resource.name} is not understood: {error}") from error
        logger.warning("%s, which was set for %s in Apache Kafka, is left out", key, _named(resource))
        return False
    return True


def _check_together(configs: "Configs", resource: ConfigResource, kept: dict[str, str]) -> None:
    """Each is possible. Should they not be possible together, a start would leave out all of them."""
    try:
        if kept:
            configs.check(resource, kept)
    except KafkaError as error:
        raise ConfigError(f"the settings of {_named(resource)} contradict each other: {error}") from error


def _named(resource: ConfigResource) -> str:
    return f"{resource.type.name.lower().replace('_', ' ')} {resource.name}".rstrip()


def _warn(image: KraftImage, absent: list[TopicPartition], node_id: int) -> None:
    """Say what is not taken over. Kafka's metadata stays where it is, so nothing of it is lost."""
    unsupported = {
        "ACLs": len(image.acls),
        "SCRAM credentials": len(image.credentials),
        "quotas": len(image.quotas),
        "delegation tokens": len(image.tokens),
    }
    if image.voters != frozenset({node_id}):
        logger.warning(
            "the metadata is a copy: what the controllers of Apache Kafka decided since is not in it"
        )
    counts = ", ".join(f"{count} {name}" for name, count in unsupported.items() if count)
    if counts:
        logger.warning("Apache Kafka had %s, which are not supported yet: they have no effect", counts)
    if absent:
        named = ", ".join(map(str, absent[:5])) + (", ..." if len(absent) > 5 else "")
        logger.warning(
            "%d partitions of Apache Kafka have no directory, and start empty: %s", len(absent), named
        )


# --- writing ----------------------------------------------------------------------------------------------------------


def _told(adoption: Adoption) -> str:
    image = adoption.image
    return (
        f"took over cluster {adoption.cluster_id} of Apache Kafka, metadata.version "
        f"{image.features.get(METADATA_VERSION, 0)}, up to offset {adoption.end_offset} of its metadata: "
        f"{len(image.topics)} topics, {sum(len(topic.partitions) for topic in image.topics.values())} partitions, "
        f"{sum(map(len, adoption.settings.values()))} settings; producer ids go on from {adoption.first_producer_id}"
    )


def _writes(adoption: Adoption, node_id: int) -> Iterator[Op]:
    yield from (Create(path) for path in paths.LAYOUT)
    yield Create(ControllerEpochNode.path, ControllerEpochNode.encode(_NEW_EPOCH))
    yield Create(ClusterIdNode.path, ClusterIdNode.encode(adoption.cluster_id))
    yield Create(ADOPTED_NODE, _encode(adoption.position))
    for topic in adoption.image.topics.values():
        yield from _topic_writes(topic, adoption.leader_epochs, node_id)
    for resource, values in adoption.settings.items():
        yield Create(path_of(resource), ConfigNode.encode(values))
    last = adoption.first_producer_id - 1
    yield Create(paths.PRODUCER_ID_BLOCK, ProducerIdBlockNode(node_id, last, last).encode())


def _topic_writes(topic: KraftTopic, epochs: Mapping[TopicPartition, int], node_id: int) -> Iterator[Op]:
    replicas = ((node_id,),) * len(topic.partitions)
    yield Create(TopicNode.path(topic.name), TopicNode(topic.topic_id, replicas).encode())
    skeleton: set[str] = set()
    for state in partitions.newborn(TopicImage(topic.name, topic.topic_id, ()), replicas).partitions:
        known = topic.partitions[state.partition].leader_epoch
        epoch = max(known, epochs.get(state.topic_partition, -1), 0)
        led = state._replace(leader=node_id, isr=(node_id,), leader_epoch=epoch)
        yield from partitions.store(led, _NEW_EPOCH, skeleton)[0]


# --- the marker -------------------------------------------------------------------------------------------------------


def _encode(at: Position) -> bytes:
    return (json.dumps({"version": 0, "file": at.file, "size": at.size}) + "\n").encode()


def _decode(data: bytes, path: str) -> Position:
    try:
        fields = json.loads(data)
        return Position(str(fields["file"]), int(fields["size"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{path} makes no sense: {error}") from None
