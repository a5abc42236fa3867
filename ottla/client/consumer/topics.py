"""The topics that a consumer cares for: their metadata are kept fresh.

Everything here happens in the background. What cannot be waited out (a topic that may not be read) is kept for the next
poll, which raises it.
"""

import asyncio
import logging
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.subscription import Subscription
from ottla.client.deadline import Backoff
from ottla.core.errors import RetriableError

logger = logging.getLogger(__name__)

_MS = 1000


class TopicWatch:
    """Refreshes when told to, and every `metadata_max_age_ms`. `on_news` is called after each answer, and after an
    error that a poll should raise."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        on_news: Callable[[], None],
    ) -> None:
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._on_news = on_news
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.error: Exception | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def refresh_soon(self) -> None:
        """Somebody found the metadata wanting."""
        self._asked.set()

    @property
    def names(self) -> set[str]:
        """The topics that matter."""
        assigned = {partition.topic for partition in self._subscription.partitions}
        return assigned | self._subscription.topics

    async def refresh(self) -> None:
        """Ask now. Without a group a pattern is our own to match, so all topics are asked for."""
        if self._config.group_id is None and self._subscription.pattern is not None:
            await self._cluster.refresh(None)
        elif names := self.names:
            await self._cluster.refresh(names)

    async def _run(self) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        while True:
            try:
                async with asyncio.timeout(self._config.metadata_max_age_ms / _MS):
                    await self._asked.wait()
            except TimeoutError:
                pass
            self._asked.clear()
            try:
                await self.refresh()
                self._note_errors()
                backoff.reset()
            except RetriableError as error:
                logger.warning("the metadata could not be refreshed: %s", error)
                self._asked.set()
            except Exception as error:  # nobody awaits this task: the next poll must hear of everything
                self.error = error
            self._on_news()
            # Asked for at once by many who found the same: the pause makes it one question.
            await asyncio.sleep(backoff.next_ms() / _MS)

    def _note_errors(self) -> None:
        """A topic that one may not read, or cannot be, is an error; one that does not exist may come to be."""
        for name in self.names:
            error = self._cluster.metadata.errors.get(name)
            if error is not None and not error.retriable:
                self.error = error
