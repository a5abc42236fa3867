"""Names and ids that every layer shares: topic names, partitions, Kafka's UUIDs.

A partition's directory is called `topic-0`. While it waits to be deleted, is being moved to another disk, or
turned out to belong to nobody, it is called `topic-0.<unique>-delete`, `-future` or `-stray`. The topic may
itself contain dots and dashes, so names are read from the right.
"""

import base64
import binascii
import random
import re
import uuid
from typing import Literal, NamedTuple

TOPIC_NAME_LENGTH_MAX = 249
"""With `-<partition>.<32 hex digits>-delete` behind it, a directory name must stay below 255 characters."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_UNIQUE = re.compile(r"[0-9a-f]{32}")
_FILE_NAME_LENGTH_MAX = 255

DirectoryState = Literal["live", "delete", "future", "stray"]
_STATES: dict[str, DirectoryState] = {"delete": "delete", "future": "future", "stray": "stray"}


def topic_name_fault(name: str) -> str | None:
    """Why `name` cannot be a topic's name, as the end of a sentence; None when it can."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return 'is "." or ".."'
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"is longer than {TOPIC_NAME_LENGTH_MAX} characters"
    if not _TOPIC_NAME.fullmatch(name):
        return "contains something else than ASCII letters, digits, '.', '_' and '-'"
    return None


def is_topic_name(name: str) -> bool:
    return topic_name_fault(name) is None


def collision_key(topic: str) -> str:
    """Topics with equal keys may not exist side by side: metrics names turn every dot into an underscore."""
    return topic.replace(".", "_")


class TopicPartition(NamedTuple):
    """One partition of one topic, and the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, name: str) -> "TopicPartition":
        """The partition called `name`, as `str()` writes it. Raises ValueError for anything else."""
        topic, dash, number = name.rpartition("-")
        if not dash or not is_topic_name(topic) or not _PARTITION.fullmatch(number) or int(number) >= 1 << 31:
            raise ValueError(f"{name!r} is not the name of a partition, such as 'orders-0'")
        return cls(topic, int(number))


class PartitionDirectory(NamedTuple):
    """What the name of a partition's directory says."""

    partition: TopicPartition
    state: DirectoryState = "live"
    unique: str = ""
    """32 hex digits that tell apart two directories of the same partition; empty for a live one."""

    def __str__(self) -> str:
        if self.state == "live":
            return str(self.partition)
        # A long topic is cut so that the name still fits; nobody needs the topic of what is to go.
        tail = f"-{self.partition.partition}.{self.unique}-{self.state}"
        return self.partition.topic[: _FILE_NAME_LENGTH_MAX - len(tail)] + tail

    @classmethod
    def parse(cls, name: str) -> "PartitionDirectory | None":
        """What `name` says, or None if it is no partition's directory."""
        try:
            head, _, ending = name.rpartition("-")
            state = _STATES.get(ending)
            if state:
                partition, _, unique = head.rpartition(".")
                if not _UNIQUE.fullmatch(unique):
                    return None
                return cls(TopicPartition.parse(partition), state, unique)
            return cls(TopicPartition.parse(name))
        except ValueError:
            return None


NULL_ID = uuid.UUID(int=0)
"""Stands for "no id" wherever the protocol has a UUID field."""

_RESERVED_COUNT = (
    100  # Kafka keeps the lowest ids for itself: no id, the metadata topic, lost or unassigned disks
)


def is_reserved_id(value: uuid.UUID) -> bool:
    return value.int < _RESERVED_COUNT


def format_id(value: uuid.UUID) -> str:
    """Kafka's spelling of a UUID: 22 characters of URL-safe base64, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_id(text: str) -> uuid.UUID:
    """The UUID that `format_id` wrote. Raises ValueError for anything else."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
        value = uuid.UUID(bytes=raw)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        value = None
    if value is None or format_id(value) != text:  # also refuses stray bits behind the 128th
        raise ValueError(f"{text!r} is not an id of 22 URL-safe base64 characters")
    return value


def random_id(source: random.Random | None = None) -> uuid.UUID:
    """A fresh id, never a reserved one. It never starts with a dash: tools would take it for an option.

    `source` makes it reproducible; without one it comes from the operating system.
    """
    while True:
        value = uuid.UUID(int=source.getrandbits(128), version=4) if source else uuid.uuid4()
        if not is_reserved_id(value) and not format_id(value).startswith("-"):
            return value
