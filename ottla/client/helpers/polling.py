"""The loop around a step: until it is told to stop, or enough is done; and the commit at the end of a step."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ottla.client.errors import CommitFailedError, IllegalStateError
from ottla.client.helpers.faces import AnyConsumer, settled
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

POLL_MS = 500
"""How long a step waits for records: so long it may take until the loop hears of `stop`."""


class Polling:
    """Calls a step again and again."""

    def __init__(self, step: Callable[[float, int | None], Awaitable[int]]) -> None:
        """`step(timeout_ms, max_records)` returns how many records it has done."""
        self._step = step
        self._is_running = self._is_stopped = False

    async def run(self, count: int | None) -> int:
        """Until `stop`, or until so many records are done. `stop` before `run` counts as well, once."""
        if self._is_running:
            raise IllegalStateError("it runs already")
        done, self._is_running = 0, True
        try:
            while not self._is_stopped and (count is None or done < count):
                done += await self._step(POLL_MS, None if count is None else count - done)
        finally:
            self._is_running = self._is_stopped = False
        return done

    def stop(self) -> None:
        self._is_stopped = True


async def commit_done(consumer: AnyConsumer, offsets: Mapping[TopicPartition, int]) -> bool:
    """Commit, where there is something to. If the group has gone on without us that is no error: what was done will be
    done again by the next owner, as after a crash. Then this is false."""
    if not offsets:
        return True
    try:
        await settled(consumer.commit(offsets))
    except CommitFailedError as error:
        logger.warning(
            "%d partitions were not committed, their records will be read again: %s", len(offsets), error
        )
        return False
    return True


def must_commit_by_hand(consumer: Any) -> None:
    """Raises ConfigError for a consumer that would commit what was handed out, though it is not done."""
    if consumer.config.auto_commits:
        raise ConfigError(
            "enable.auto.commit must be false: offsets are committed here, when records are done"
        )
