"""-Q: the offsets of the first records that are not older than a time, in kcat's words."""

from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.cat.metadata import compact
from ottla.cli.cat.words import Question
from ottla.cli.remote import Admin
from ottla.client.admin.partitions import list_offsets
from ottla.core.ids import TopicPartition

Places = list[tuple[TopicPartition, int]]


def check(questions: Sequence[Question]) -> None:
    """Raises click.UsageError if one partition is asked for twice: there is one answer for each."""
    seen: set[TopicPartition] = set()
    for each in questions:
        if each.partition in seen:
            raise click.UsageError(
                f"-t {each.partition.topic}:{each.partition.partition}: ask for a partition once"
            )
        seen.add(each.partition)


async def ask(admin: Admin, questions: Sequence[Question]) -> Places:
    """The offsets, by topic and partition; -1 where every record is older."""
    found = await list_offsets(admin, {each.partition: each.time_ms for each in questions})
    return sorted((partition, place.offset) for partition, place in found.items())


def as_text(places: Places) -> str:
    return "".join(f"{each.topic} [{each.partition}] offset {offset}\n" for each, offset in places)


def as_json(places: Places) -> str:
    """`{"orders": {"topic": "orders", "0": {"partition": 0, "offset": 7}}}`, without a newline behind it."""
    topics: dict[str, dict[str, Any]] = {}
    for each, offset in places:
        topic = topics.setdefault(each.topic, {"topic": each.topic})
        topic[str(each.partition)] = {"partition": each.partition, "offset": offset}
    return compact(topics)
