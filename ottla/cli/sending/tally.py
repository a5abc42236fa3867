"""What has become of the records: how many were acknowledged, where, and what went wrong first."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.cli.outcomes import counted
from ottla.cli.sending.inputs import Block
from ottla.cli.topic_progress import size as size_text
from ottla.client.errors import ClosedError
from ottla.client.producer.batch import Stretch
from ottla.core.ids import TopicPartition

_RATE_SECONDS_MIN = 1.0
"""A rate is said of runs that took as long as this; below, it would be that of the connection."""


class Trouble(NamedTuple):
    """Why it did not go on. `where` is the piece of the input, if it was one."""

    error: Exception
    where: str = ""


class Landed:
    """What lies in one partition."""

    __slots__ = ("count", "last_offset")

    def __init__(self) -> None:
        self.count = 0
        self.last_offset = -1


class Tally:
    """Counts from the first record to the last answer. `failed` is called with the first failure."""

    def __init__(self, failed: Callable[[], object], noun: str = "line") -> None:
        self.read = self.acknowledged = self.bytes = 0
        self.partitions: dict[TopicPartition, Landed] = {}
        self.trouble: Trouble | None = None
        self.transaction: str | None = None
        """What became of it: committed, aborted, unknown; None without one."""
        self._failed, self._noun = failed, noun
        self._started = time.monotonic()
        self._ended: float | None = None

    @property
    def missing(self) -> int:
        """Read, and not acknowledged."""
        return self.read - self.acknowledged

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._started

    def end(self) -> None:
        self._ended = time.monotonic()

    def watch(self, stretch: Stretch, block: Block, places: Any) -> None:
        """Count it when it is settled. Its records stand at these places of the block."""
        stretch.when_done(lambda done: self._settled(done, block, places))

    def _settled(self, stretch: Stretch, block: Block, places: Any) -> None:
        done = stretch.settled()
        if done.acknowledged:
            self.acknowledged += done.acknowledged
            landed = self.partitions.get(stretch.partition)
            if landed is None:
                landed = self.partitions[stretch.partition] = Landed()
            landed.count += done.acknowledged
            landed.last_offset = max(landed.last_offset, done.last_offset)
        # Only we close the producer, when it is known already why: what was under way then may be written or not.
        if done.error is not None and not isinstance(done.error, ClosedError):
            at = places[stretch.origins[done.first_failed]]
            self.went_wrong(done.error, block.place(at, self._noun))

    def went_wrong(self, error: Exception, where: str = "") -> None:
        """Only the first one is kept: the others follow from it."""
        if self.trouble is None:
            self.trouble = Trouble(error, where)
            self._failed()

    # --- words ------------------------------------------------------------------------------------------------------

    def summary(self, *, is_answered: bool = True) -> str:
        """`3 records acknowledged in 1 partition`."""
        verb = "acknowledged in" if is_answered else "sent to"
        text = f"{counted(self.acknowledged, 'record')} {verb} {counted(len(self.partitions), 'partition')}"
        if not is_answered:
            text += " (acks=0: no broker says whether they arrived)"
        if self.transaction is not None:
            text += f", in a transaction that was {self.transaction}"
        if self.seconds >= _RATE_SECONDS_MIN:
            rate = size_text(int(self.bytes / self.seconds))
            text += f": {size_text(self.bytes)} in {self.seconds:.1f} s, {rate}/s"
        return text

    def document(self) -> dict[str, Any]:
        return {
            "acknowledged": self.acknowledged,
            "not_acknowledged": self.missing,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "transaction": self.transaction,
            "partitions": [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "records": landed.count,
                    "last_offset": landed.last_offset if landed.last_offset >= 0 else None,
                }
                for place, landed in sorted(self.partitions.items())
            ],
        }
