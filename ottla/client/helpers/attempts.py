"""How often something is tried, how long to wait in between, and what to do in the end.

`on_exhausted(record, error, attempt)` is called when a record was tried as often as it may be: `drop` and `fail` are
here, `ottla.client.helpers.dead_letters` has the third usual one. Whatever returns from it has settled the record: its
offset is committed. Whatever it raises ends the loop, and the record will be read again.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ottla.client.helpers.faces import settled
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError

logger = logging.getLogger(__name__)

Handler = Callable[[ConsumerRecord], Any]
"""What an application does with a record; a coroutine function where the consumer is asynchronous, if it likes."""
OnExhausted = Callable[[ConsumerRecord, Exception, int], Awaitable[None] | None]
IsWorthwhile = Callable[[Exception], bool]


def always(error: Exception) -> bool:
    """Every error may be gone next time."""
    return True


@dataclass(frozen=True, slots=True)
class Attempts:
    """At most `count` attempts, with pauses in between that grow from one to the next."""

    count: int = 5
    first_pause_ms: float = 100
    pause_ms_max: float = 30_000
    factor: float = 2.0
    is_worthwhile: IsWorthwhile = always
    """Whether to try again after this error; a record that is plainly wrong will not get better."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"attempts are {self.count}, but must be at least 1")
        if self.first_pause_ms < 0 or self.pause_ms_max < 0 or self.factor < 1:
            raise ConfigError("pauses between attempts must not be negative, nor shrink")

    def pause_ms(self, attempt: int, error: Exception) -> float | None:
        """How long to wait after this attempt (the first is 1) has failed; None if it was the last."""
        if attempt >= self.count or not self.is_worthwhile(error):
            return None
        growth = self.factor ** min(
            attempt - 1, 64
        )  # beyond that every limit was passed, and floats end somewhere
        return min(self.first_pause_ms * growth, self.pause_ms_max)


ONCE = Attempts(count=1)


async def attempted(
    record: ConsumerRecord,
    handler: Handler,
    attempts: Attempts,
    on_exhausted: OnExhausted,
    pause: Callable[[float], Any],
) -> None:
    """Handle a record, as often as it takes. `pause(ms)` waits, and raises if there is no use in waiting any more."""
    attempt = 1
    while True:
        try:
            await settled(handler(record))
            return
        except Exception as error:
            pause_ms = attempts.pause_ms(attempt, error)
            if pause_ms is None:
                await settled(on_exhausted(record, error, attempt))
                return
        await settled(pause(pause_ms))
        attempt += 1


def drop(record: ConsumerRecord, error: Exception, attempt: int) -> None:
    """Leave the record behind, with a line in the log."""
    logger.error("%s was dropped after %d attempts: %r", named(record), attempt, error)


def fail(record: ConsumerRecord, error: Exception, attempt: int) -> None:
    """Stop: the error goes to whoever runs the loop, and the record stays where it is."""
    raise error


def named(record: ConsumerRecord) -> str:
    """A record in a sentence."""
    return f"the record at offset {record.offset} of {record.topic}-{record.partition}"
