"""What `kafka-reassign-partitions` asks a cluster: who has which partition in which directory, and what moves."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.cli.classic.java import hash_ordered
from ottla.cli.classic.reassign_files import Dirs, Replicas
from ottla.client.admin import log_dirs, partitions, topics
from ottla.client.admin.cluster import describe_cluster
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.topic_values import PartitionReassignment
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

Moving = Mapping[TopicPartition, PartitionReassignment]
_NO_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def moving(admin: Any, places: Iterable[TopicPartition] | None = None) -> Moving:
    """What is on the move, of these partitions or of all."""
    wanted = None if places is None else set(places)
    found = await partitions.list_partition_reassignments(admin)
    return {place: each for place, each in sorted(found.items()) if wanted is None or place in wanted}


async def racks(admin: Any) -> dict[int, str | None]:
    """The brokers that live, with their racks."""
    found = await describe_cluster(admin)
    return {each.node_id: each.rack for each in found.brokers}


async def replicas_of_topics(admin: Any, names: Iterable[str], *, must_be: bool = True) -> Replicas:
    """The replicas of all partitions of topics. Raises KafkaError for one that is not there, if it must be."""
    wanted = list(dict.fromkeys(names))
    try:
        found = dict(await topics.describe_topics(admin, wanted)) if wanted else {}
    except PartialFailure as failure:
        found = {key: each for key, each in failure.results.items() if key not in failure.errors}
        for name in hash_ordered(failure.errors):
            error = failure.errors[name]
            if error.code is not _NO_TOPIC:
                raise error from None
            if must_be:
                raise KafkaError(_NO_TOPIC, f"Topic {name} not found.") from None
    return {
        TopicPartition(each.name, row.partition): row.replicas
        for each in found.values()
        for row in each.partitions
    }


async def replicas_of(admin: Any, places: Collection[TopicPartition]) -> Replicas:
    """The replicas of these partitions. Raises KafkaError for one that is not there."""
    found = await replicas_of_topics(admin, (place.topic for place in places))
    missing = [place for place in hash_ordered(places) if place not in found]
    if missing:
        raise KafkaError(_NO_TOPIC, f"Unable to find partition: {', '.join(map(str, missing))}")
    return {place: found[place] for place in places}


class Where(NamedTuple):
    """The directories of a replica: where it is, and where it is on its way to."""

    current: str | None
    future: str | None


async def dirs_of(
    admin: Any, replicas: Collection[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, Where]:
    """As far as their brokers tell."""
    brokers = sorted({each.broker_id for each in replicas} & set(await racks(admin)))
    places = {TopicPartition(each.topic, each.partition) for each in replicas}
    found: dict[TopicPartitionReplica, Where] = {}
    if not brokers:
        return found
    try:
        answers: Mapping[int, Any] = await log_dirs.describe_log_dirs(admin, brokers, partitions=places)
    except PartialFailure as failure:
        answers = {key: each for key, each in failure.results.items() if key not in failure.errors}
    for broker, directories in answers.items():
        for path, directory in directories.items():
            for place, info in directory.replicas.items():
                key = TopicPartitionReplica(place.topic, place.partition, broker)
                before = found.get(key, Where(None, None))
                found[key] = before._replace(future=path) if info.is_future else before._replace(current=path)
    return found


async def current_dirs(admin: Any, parts: Replicas) -> Dirs:
    """Where the replicas of partitions are, as far as their brokers tell."""
    wanted = [
        TopicPartitionReplica(place.topic, place.partition, broker)
        for place, replicas in parts.items()
        for broker in replicas
    ]
    found = await dirs_of(admin, wanted)
    return {key: each.current for key, each in found.items() if each.current is not None}
