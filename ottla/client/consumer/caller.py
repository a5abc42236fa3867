"""A thread that waits for work on a loop, and meanwhile does what that work asks of it.

Listeners of a blocking consumer belong to the thread that called it: it may use things that only this thread may use,
and it may call the consumer again, because the loop does not wait for it with anything in its hands.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Generic, TypeVar

from ottla.client.errors import ClosedError, IllegalStateError
from ottla.client.listener import RebalanceListener
from ottla.core.ids import TopicPartition
from ottla.core.loop_thread import LoopThread

logger = logging.getLogger(__name__)

T = TypeVar("T")

_Task = Callable[[], None]
_GLANCE_SECONDS = 1.0  # how often whoever waits looks whether there is still somebody to wait for


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

    def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        is_asked: bool = False,
        undo: Callable[[T], None] | None = None,
    ) -> T:
        """Have work done on the loop, and return what it returns. With `is_asked`, this thread does meanwhile what
        `ask` and `later` have for it. If this thread is interrupted the work is cancelled, and has ended when that is
        raised; what it had to return, if it was faster, is given to `undo`, on the loop."""
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
        handed_in = _HandedIn(work)
        future = asyncio.run_coroutine_threadsafe(handed_in.run(), thread.loop)
        future.add_done_callback(lambda _: news.put(None))
        try:
            while (task := self._next(news, thread)) is not None:
                task()
            if is_asked:
                self._waiting.remove(news)
                self._catch_up()
            if future.cancelled():
                raise ClosedError("the consumer was closed")
            if (error := future.exception()) is None:
                return future.result()
        except BaseException:
            if news in self._waiting:
                self._waiting.remove(news)
            self._take_back(handed_in, future, thread, undo)
            raise
        raise error

    def _next(self, news: "queue.SimpleQueue[_Task | None]", thread: LoopThread) -> _Task | None:
        """What to do while waiting; None at the end. Nobody waits for a loop that another thread has ended."""
        while True:
            try:
                return news.get(timeout=_GLANCE_SECONDS)
            except queue.Empty:
                if not thread.is_alive and news.empty():
                    raise ClosedError("the consumer was closed") from None

    def _take_back(
        self,
        handed_in: "_HandedIn[T]",
        future: "concurrent.futures.Future[T]",
        thread: LoopThread,
        undo: Callable[[T], None] | None,
    ) -> None:
        """This thread was interrupted: nobody takes the result."""
        if not thread.is_alive:
            return
        _tell(thread.loop, handed_in.cancel)
        while not concurrent.futures.wait((future,), _GLANCE_SECONDS).done:
            if not thread.is_alive:
                return
        if undo is not None and not future.cancelled() and future.exception() is None:
            _tell(thread.loop, undo, future.result())

    def _catch_up(self) -> None:
        while self._later:
            try:
                self._later.popleft()()
            except Exception:  # it must not take away what a poll returns
                logger.exception("the callback of a commit failed")

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
                _tell(loop, _settle, answer, None, error)
            except BaseException:
                _tell(loop, answer.cancel)
                raise
            else:
                _tell(loop, _settle, answer, result, None)

        self._waiting[-1].put(call)
        return await answer

    def later(self, function: _Task) -> None:
        """On the loop: have the next thread that can be asked call a function, when it is done with waiting."""
        self._later.append(function)

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_ours:
            thread.end()


class _HandedIn(Generic[T]):
    """Work that can be cancelled on the loop, and says what came of it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    async def run(self) -> T:
        self._task = asyncio.current_task()
        if self._is_cancelled:
            self._work.close()
            raise asyncio.CancelledError
        return await self._work

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()


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


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # a listener has closed the consumer: nobody waits for its answer
        loop.call_soon_threadsafe(function, *args)


def _settle(answer: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
