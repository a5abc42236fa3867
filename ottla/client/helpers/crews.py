"""Those who work on a backlog: tasks of an event loop, or threads.

Both call the handler, try again as they are told, and note the first error that nobody wanted to have. Neither touches
the consumer.
"""

import asyncio
import threading
import time
from collections.abc import Collection
from typing import Protocol

from ottla.client.errors import IllegalStateError
from ottla.client.helpers.attempts import Attempts, Handler, OnExhausted, attempted, named
from ottla.client.helpers.backlog import Backlog, Item
from ottla.client.helpers.faces import drive
from ottla.core.ids import TopicPartition

_MS = 1000
_CLOSE_SECONDS_MAX = 1.0  # idle threads need no time at all


class Crew(Protocol):
    """What the reader of the records needs of them."""

    error: Exception | None
    """What `on_exhausted` raised first."""

    def call(self) -> None:
        """There is something to do in the backlog."""

    async def wait(self, timeout_ms: float) -> None:
        """Until a record is done or given up, or the time is over."""

    def abandon(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Nobody is interested any more in what is being done of these partitions, or of all."""

    async def close(self) -> None:
        """Everybody goes home."""


class TaskCrew:
    """A task for every record, and so many at a time."""

    def __init__(
        self, backlog: Backlog, size: int, handler: Handler, attempts: Attempts, on_exhausted: OnExhausted
    ) -> None:
        self._backlog, self._size = backlog, size
        self._work = (handler, attempts, on_exhausted)
        self._tasks: dict[asyncio.Task[None], Item] = {}
        self._news = asyncio.Event()
        self._is_closed = False
        self.error: Exception | None = None

    def call(self) -> None:
        while self.error is None and not self._is_closed and len(self._tasks) < self._size:
            item = self._backlog.take()
            if item is None:
                break
            task = asyncio.create_task(attempted(item.record, *self._work, _sleep))
            self._tasks[task] = item
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        item = self._tasks.pop(task)
        error: BaseException | None
        if not task.cancelled():
            error = task.exception()
        elif self._is_closed or not self._backlog.is_current(item):
            error = asyncio.CancelledError()  # it was us
        else:
            error = IllegalStateError(f"{named(item.record)} was cancelled by its handler")
        if error is None:
            self._backlog.finish(item)
        else:
            self._backlog.abandon(item)
        if isinstance(error, Exception) and self.error is None:
            self.error = error
        self._news.set()
        self.call()

    async def wait(self, timeout_ms: float) -> None:
        try:
            async with asyncio.timeout(timeout_ms / _MS):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def abandon(self, partitions: Collection[TopicPartition] | None = None) -> None:
        for task, item in self._tasks.items():
            if partitions is None or item.lane[0] in partitions:
                task.cancel()

    async def close(self) -> None:
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _sleep(pause_ms: float) -> None:
    await asyncio.sleep(pause_ms / _MS)


class _Abandoned(Exception):
    """The record that a thread waits with was given up."""


class ThreadCrew:
    """So many threads, each with one record at a time."""

    def __init__(
        self, backlog: Backlog, size: int, handler: Handler, attempts: Attempts, on_exhausted: OnExhausted
    ) -> None:
        self._backlog = backlog
        self._work = (handler, attempts, on_exhausted)
        self._changed = threading.Condition()
        self._news = threading.Event()
        self._is_closed = False
        self.error: Exception | None = None
        self._threads = [
            threading.Thread(target=self._run, name=f"ottla-worker-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def call(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            error = self._try(item)
            if error is None:
                self._backlog.finish(item)
            else:
                self._backlog.abandon(item)
                if not isinstance(error, _Abandoned) and self.error is None:
                    self.error = error
            self._news.set()

    def _next(self) -> Item | None:
        with self._changed:
            while not self._is_closed:
                if self.error is None and (item := self._backlog.take()) is not None:
                    return item
                self._changed.wait()
        return None

    def _try(self, item: Item) -> Exception | None:
        def pause(pause_ms: float) -> None:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_useless(item), pause_ms / _MS):
                    raise _Abandoned

        try:
            drive(attempted(item.record, *self._work, pause))
        except Exception as error:
            return error
        except BaseException as error:  # SystemExit: this thread would be missed, and nobody told why
            return IllegalStateError(f"{named(item.record)} ended with {error!r}")
        return None

    def _is_useless(self, item: Item) -> bool:
        return self._is_closed or not self._backlog.is_current(item)

    async def wait(self, timeout_ms: float) -> None:
        if self._news.wait(timeout_ms / _MS):
            self._news.clear()

    def abandon(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """A thread cannot be interrupted. One that waits for its next attempt gives up, the others are not heard."""
        with self._changed:
            if partitions is None:
                self._is_closed = True
            self._changed.notify_all()

    async def close(self) -> None:
        """Threads that hang in a handler stay behind, as daemons; what they do counts for nothing."""
        self.abandon()
        end = time.monotonic() + _CLOSE_SECONDS_MAX
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
