"""A thread that waits for work on a loop, and meanwhile does what that work asks of it.

Listeners of a blocking consumer belong to the thread that called it: it may use things that only this thread may use,
and it may call the consumer again, because the loop does not wait for it with anything in its hands.
"""

import asyncio
import logging
import queue
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from ottla.client.errors import ClosedError, IllegalStateError
from ottla.client.listener import RebalanceListener
from ottla.core.ids import TopicPartition
from ottla.core.loop_thread import LoopThread

logger = logging.getLogger(__name__)

T = TypeVar("T")

_Task = Callable[[], None]


class Caller:
    """The way from any thread to a loop in a thread of its own, and back."""

    def __init__(self, name: str) -> None:
        self._thread: LoopThread | None = LoopThread(name, patience_seconds=None)
        self._waiting: list[queue.SimpleQueue[_Task | None]] = []
        """Threads that wait and can be asked, the latest last."""
        self._later: deque[_Task] = deque()

    @property
    def is_open(self) -> bool:
        return self._thread is not None and self._thread.is_ours

    def run(self, work: Coroutine[Any, Any, T], *, is_asked: bool = False) -> T:
        """Have work done on the loop, and return what it returns. With `is_asked`, this thread does meanwhile what
        `ask` and `later` have for it."""
        thread = self._thread
        if thread is None or not thread.is_ours:
            work.close()
            raise ClosedError("the consumer was closed" if thread is None else "it stayed behind in a fork")
        if _running_loop() is thread.loop:
            work.close()
            raise IllegalStateError(
                "called from a deserializer or an interceptor, this would wait for itself"
            )
        news: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        if is_asked:
            self._waiting.append(news)
        future = asyncio.run_coroutine_threadsafe(work, thread.loop)
        future.add_done_callback(lambda _: news.put(None))
        try:
            while (task := news.get()) is not None:
                task()
            return future.result()
        except BaseException:
            future.cancel()  # whoever waited was interrupted; done work does not mind
            raise
        finally:
            if is_asked:
                self._waiting.remove(news)
                self._catch_up()

    def _catch_up(self) -> None:
        while self._later:
            self._later.popleft()()

    async def ask(self, function: Callable[[], T]) -> T:
        """On the loop: have the thread that waits call a function, and return what it returns."""
        if not self._waiting:
            return await asyncio.to_thread(function)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                result = function()
            except Exception as error:
                loop.call_soon_threadsafe(_settle, answer, None, error)
            except BaseException:
                loop.call_soon_threadsafe(answer.cancel)
                raise
            else:
                loop.call_soon_threadsafe(_settle, answer, result, None)

        self._waiting[-1].put(call)
        return await answer

    def later(self, function: _Task) -> None:
        """On the loop: have the next thread that can be asked call a function, when it is done with waiting."""
        self._later.append(function)

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_ours:
            thread.end()


class CallersListener(RebalanceListener):
    """A listener whose methods run in the thread that waits."""

    def __init__(self, caller: Caller, listener: RebalanceListener) -> None:
        self._caller, self._listener = caller, listener

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Awaitable[Any]:
        return self._caller.ask(lambda: self._listener.on_partitions_assigned(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Awaitable[Any]:
        return self._caller.ask(lambda: self._listener.on_partitions_revoked(revoked))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Awaitable[Any]:
        return self._caller.ask(lambda: self._listener.on_partitions_lost(lost))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _settle(answer: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
