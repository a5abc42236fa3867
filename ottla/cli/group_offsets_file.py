"""Offsets of a group in a file: CSV as `kafka-consumer-groups --export` writes it, or JSON as `--json` prints it.

A line is topic,partition,offset, or group,topic,partition,offset as it is for several groups: then those of other
groups are left out.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from ottla.core.ids import TopicPartition, topic_name_fault

FILE_BYTES_MAX = 64 << 20
"""More than all partitions of a large cluster take, and less than memory."""
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_WITH_GROUP, _WITHOUT = 4, 3


def read_offsets(path: str, group: str) -> dict[TopicPartition, int]:
    """The offsets of that group. Raises UsageError, which names the line."""
    text = _text(path)
    if text.lstrip().startswith("{"):
        rows = _from_json(text, path, group)
    else:
        rows = _from_csv(text, path, group)
    found: dict[TopicPartition, int] = {}
    for where, topic, partition, offset in rows:
        place = TopicPartition(_topic(topic, where), _number(partition, _PARTITION_MAX, "partition", where))
        if place in found:
            raise click.UsageError(f"{where}: {topic}:{partition} has an offset already")
        found[place] = _number(offset, _OFFSET_MAX, "offset", where)
    if not found:
        raise click.UsageError(
            f"{path} has no offsets for group {group!r}: write lines such as orders,0,4711"
        )
    return found


def written_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """What `read_offsets` reads. Names of topics need no quotes."""
    return "".join(f"{place.topic},{place.partition},{offset}\n" for place, offset in offsets.items())


def _text(path: str) -> str:
    try:
        with click.open_file(path, "rb") as file:
            data: bytes = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise click.UsageError(f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB")
        return data.decode()
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not a text in UTF-8") from None


def _from_csv(text: str, path: str, group: str) -> Iterator[tuple[str, Any, Any, Any]]:
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        for words in reader:
            where = f"{path}, line {reader.line_num}"
            if not words:
                continue
            if len(words) not in (_WITHOUT, _WITH_GROUP):
                raise click.UsageError(f"{where}: write topic,partition,offset")
            *owner, topic, partition, offset = (word.strip() for word in words)
            if not owner or owner[0] == group:
                yield where, topic, partition, offset
    except csv.Error as error:
        raise click.UsageError(f"{path}, line {reader.line_num}: {error}") from None


def _from_json(text: str, path: str, group: str) -> Iterator[tuple[str, Any, Any, Any]]:
    try:
        document = json.loads(text)
        rows = document["partitions"]
        if document.get("group", group) != group:
            rows = []
        for number, row in enumerate(rows, 1):
            offset = row["after"] if "after" in row else row["offset"]
            if offset is not None:  # nothing was to be committed there
                yield f"{path}, partition {number}", row["topic"], row["partition"], offset
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise click.UsageError(
            f'{path} is no such JSON: write {{"partitions": [{{"topic", "partition", "offset"}}]}}'
        ) from None


def _topic(topic: Any, where: str) -> str:
    if not isinstance(topic, str) or topic_name_fault(topic):
        raise click.UsageError(f"{where}: {topic!r} is no name of a topic")
    return topic


def _number(value: Any, limit: int, what: str, where: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < len(str(limit)) + 1:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise click.UsageError(f"{where}: {value!r} is no {what}")
    return value
