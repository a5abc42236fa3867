"""Whoever wants to know what passes through the broker: the audit hangs here. Nobody does by default, at no cost."""

from typing import Protocol

from ottla.core.ids import TopicPartition
from ottla.storage.log import Appended


class Observer(Protocol):
    """Called on the event loop, after the fact: must be quick, and cannot refuse anything."""

    def appended(self, topic_partition: TopicPartition, appended: Appended, bytes_count: int) -> None: ...

    def fetched(self, topic_partition: TopicPartition, offset: int, bytes_count: int) -> None: ...

    def committed(self, group: str, topic_partition: TopicPartition, offset: int) -> None: ...
