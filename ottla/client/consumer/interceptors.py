"""What an application has between the consumer and itself: objects that see records and commits as they pass.

An interceptor has `on_consume(records)`, which returns what takes the place of the records, and `on_commit(offsets)`;
either may be left out. Their errors are logged: an observer must not stop what it observes.
"""

import logging
from collections.abc import Iterable
from typing import Any

from ottla.client.records import ConsumerRecord, OffsetAndMetadata
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

Records = dict[TopicPartition, list[ConsumerRecord]]


class Interceptors:
    """Of one consumer, in their order."""

    def __init__(self, each: Iterable[Any]) -> None:
        if isinstance(each, str):
            raise ConfigError("interceptors is a list of objects, not a name")
        self._all = [one() if isinstance(one, type) else one for one in each or ()]
        for one in self._all:
            if not hasattr(one, "on_consume") and not hasattr(one, "on_commit"):
                raise ConfigError(f"interceptors: {one!r} has neither on_consume nor on_commit")

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_consume(self, records: Records) -> Records:
        """What the application gets to see."""
        for one in self._all:
            if hasattr(one, "on_consume"):
                try:
                    records = one.on_consume(records)
                except Exception:
                    logger.exception("an interceptor failed on records")
        return records

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for one in self._all:
            if hasattr(one, "on_commit"):
                try:
                    one.on_commit(offsets)
                except Exception:
                    logger.exception("an interceptor failed on a commit")
