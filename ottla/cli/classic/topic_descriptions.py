"""`kafka-topics --describe`: a line for each topic, and one for each partition."""

import argparse
import base64
import binascii
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.classic.java import Illegal, hash_ordered
from ottla.cli.dump.output import printable
from ottla.client.errors import UnsupportedVersionError
from ottla.core.errors import AuthorizationError
from ottla.core.ids import NULL_ID, TopicPartition, format_id

if TYPE_CHECKING:
    from ottla.client.admin.config_values import ConfigEntry
    from ottla.client.admin.topic_values import (
        PartitionDescription,
        PartitionReassignment,
        TopicDescription,
    )

_ID_BYTES = 16
_TEXT_MAX = 24
_MIN_ISR = "min.insync.replicas"


async def topics_with_id(admin: Any, options: argparse.Namespace) -> Sequence[str | uuid.UUID] | None:
    """The topic with the id that is asked for; None if the id is all zeros, so that the name counts."""
    from ottla.client.admin import topics

    wanted = _read_id(options.topic_id)
    if wanted == NULL_ID:
        return None
    found = await topics.list_topics(admin, include_internal=not options.exclude_internal)
    if any(each.topic_id == wanted for each in found.values()):
        return [wanted]
    if not options.if_exists:
        raise Illegal(f"TopicId '{options.topic_id}' does not exist as expected")
    return []


def _read_id(text: str) -> uuid.UUID:
    if len(text) > _TEXT_MAX:
        raise Illegal(
            f"Input string with prefix `{text[:_TEXT_MAX]}` is too long to be decoded as a base64 UUID"
        )
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        if len(text) == 1:
            raise Illegal("Input byte[] should at least have 2 bytes for base64 bytes") from None
        raise Illegal(f"Input string `{text}` is not a base64 UUID") from None
    if len(data) != _ID_BYTES:
        raise Illegal(
            f"Input string `{text}` decoded as {len(data)} bytes, which is not equal to the expected 16 bytes"
            " of a base64-encoded UUID"
        )
    return uuid.UUID(bytes=data)


async def describe(admin: Any, options: argparse.Namespace, wanted: Sequence[str | uuid.UUID]) -> None:
    """Print what is asked for of these topics."""
    from ottla.client.admin import configs, topics
    from ottla.client.admin.config_values import ConfigResource

    if not wanted:
        return
    found = await topics.describe_topics(admin, wanted)
    settings = await configs.describe_configs(admin, [ConfigResource.topic(name) for name in found])
    living = await admin._routes.brokers()
    moves = await _reassignments(admin, found.values())
    for name in hash_ordered(sorted(found), len(found)):
        topic = found[name]
        shown = _Shown(topic, settings[ConfigResource.topic(name)], moves, set(living))
        shown.print(options)


async def _reassignments(
    admin: Any, described: Iterable["TopicDescription"]
) -> Mapping[TopicPartition, "PartitionReassignment"]:
    from ottla.client.admin import partitions

    asked = [TopicPartition(topic.name, each.partition) for topic in described for each in topic.partitions]
    try:
        return await partitions.list_partition_reassignments(admin, asked)
    except (UnsupportedVersionError, AuthorizationError):
        return {}  # who may not know of moves sees none


class _Shown:
    """One topic, and what has to be known about it."""

    def __init__(
        self,
        topic: "TopicDescription",
        settings: Mapping[str, "ConfigEntry"],
        moves: Mapping[TopicPartition, "PartitionReassignment"],
        living: set[int],
    ) -> None:
        self.topic, self.settings, self.moves, self.living = topic, settings, moves, living

    def print(self, options: argparse.Namespace) -> None:
        some_only = (
            options.unavailable_partitions
            or options.under_replicated_partitions
            or options.under_min_isr_partitions
            or options.at_min_isr_partitions
        )
        partitions = sorted(self.topic.partitions, key=lambda each: each.partition)
        own = [
            f"{key}={_text(self.settings[key].value)}"
            for key in hash_ordered(self.settings, len(self.settings))
            if not self.settings[key].is_default
        ]
        if not some_only and (own or not options.topics_with_overrides):
            self._print_topic(partitions, own)
        for each in partitions if not options.topics_with_overrides else []:
            if not some_only or self._is_wanted(each, options):
                self._print_partition(each)

    def _print_topic(self, partitions: Sequence["PartitionDescription"], own: list[str]) -> None:
        fields = [f"Topic: {printable(self.topic.name)}"]
        if self.topic.topic_id != NULL_ID:
            fields.append(f"TopicId: {format_id(self.topic.topic_id)}")
        fields.append(f"PartitionCount: {len(partitions)}")
        fields.append(f"ReplicationFactor: {self._factor(partitions[0]) if partitions else 0}")
        fields.append(f"Configs: {','.join(own)}")
        print("\t".join(fields))

    def _print_partition(self, partition: "PartitionDescription") -> None:
        fields = [
            f"\tTopic: {printable(self.topic.name)}",
            f"Partition: {partition.partition}",
            f"Leader: {'none' if partition.leader < 0 else partition.leader}",
            f"Replicas: {_ids(partition.replicas)}",
            f"Isr: {_ids(partition.isr)}",
        ]
        if move := self._move(partition):
            fields.append(f"Adding Replicas: {_ids(move.adding_replicas)}")
            fields.append(f"Removing Replicas: {_ids(move.removing_replicas)}")
        fields.append(f"Elr: {_ids(partition.eligible_leader_replicas)}")
        fields.append(f"LastKnownElr: {_ids(partition.last_known_eligible_leader_replicas)}")
        print("\t".join(fields))

    def _is_wanted(self, partition: "PartitionDescription", options: argparse.Namespace) -> bool:
        has_leader = partition.leader >= 0
        in_sync, least = len(partition.isr), int(self.settings[_MIN_ISR].value or 1)
        return bool(
            (options.under_replicated_partitions and self._factor(partition) > in_sync)
            or (options.unavailable_partitions and partition.leader not in self.living)
            or (options.under_min_isr_partitions and (not has_leader or in_sync < least))
            or (options.at_min_isr_partitions and in_sync == least)
        )

    def _move(self, partition: "PartitionDescription") -> "PartitionReassignment | None":
        return self.moves.get(TopicPartition(self.topic.name, partition.partition))

    def _factor(self, partition: "PartitionDescription") -> int:
        """The number of replicas; of a partition on the move, without those that come."""
        move = self._move(partition)
        if move and {*move.adding_replicas, *move.removing_replicas} & {*partition.replicas}:
            return len(move.replicas) - len(move.adding_replicas)
        return len(partition.replicas)


def _ids(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _text(value: str | None) -> str:
    return "null" if value is None else printable(value)
