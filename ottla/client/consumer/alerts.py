"""What the background has for the next poll: an error to raise, or just the wish that somebody polls.

Tasks in the background never disturb an application. They leave word here, and wake whoever waits in a poll.
"""

import asyncio
from collections.abc import Callable

from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.poll_clock import PollClock
from ottla.client.deadline import Deadline
from ottla.client.errors import ClientError
from ottla.core.errors import ErrorCode, KafkaError


class Alerts:
    """Of one member."""

    def __init__(self, config: ConsumerConfig, wake: Callable[[], None]) -> None:
        self._config, self.wake = config, wake
        self._clock = PollClock(config.max_poll_interval_ms, now_ms())
        self._is_nudged = False
        self._error: Exception | None = None

    @property
    def are_there(self) -> bool:
        return self._error is not None or self._is_nudged

    def polled(self) -> None:
        """The application polls. Raises what it must hear."""
        self._clock.polled(now_ms())
        self._is_nudged = False
        self.raise_error()

    def fail(self, error: Exception) -> None:
        """The next poll raises it."""
        if self._error is None or _is_final(error):
            self._error = error
        self.wake()

    def raise_error(self) -> None:
        error = self._error
        if error is None:
            return
        if not _is_final(error):
            self._error = None
        raise error

    @property
    def is_overdue(self) -> bool:
        """Whether the application has not polled for longer than it may. Who waits in a poll is asked to look first."""
        if self._clock.is_overdue(now_ms()):
            return True
        if self._clock.nudges(now_ms()):
            self._is_nudged = True
            self.wake()
        return False

    def next_ms(self, at_most: float) -> float:
        """When to look at `is_overdue` again."""
        return min(at_most, self._clock.next_ms(now_ms()))

    def for_commits(self, deadline: Deadline) -> Deadline:
        """A poll may have no time at all, but what is handed over uncommitted is read twice."""
        limit_ms = min(self._config.request_timeout_ms, self._config.max_poll_interval_ms)
        return Deadline(max(limit_ms, deadline.left_ms(at_most=self._config.max_poll_interval_ms)))


def overdue(config: ConsumerConfig) -> str:
    """What to tell people whose application does not poll."""
    return (
        f"The application has not polled for longer than max_poll_interval_ms ({config.max_poll_interval_ms} ms): this "
        f"consumer leaves the group {config.group_id} until it does. Raise that setting, or lower max_poll_records."
    )


def now_ms() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time() * 1000


def _is_final(error: Exception) -> bool:
    """Whether polling again would not help: somebody else has taken our place."""
    is_answer = isinstance(error, KafkaError) and not isinstance(error, ClientError)
    return is_answer and getattr(error, "code", None) == ErrorCode.FENCED_INSTANCE_ID
