"""An event loop in a thread of its own, for programs that have none: work is handed in, and waited for."""

import asyncio
import concurrent.futures
import os
import threading
import time
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

ANSWER_SECONDS_MAX = 60.0  # longer than anything here takes: a test should fail, not hang
_END_SECONDS_MAX = 10.0
_GLANCE_SECONDS = 1.0  # how often whoever waits looks whether there is still somebody to wait for


class LoopThread:
    """Runs until `end`, or until nobody knows it any more."""

    def __init__(
        self, name: str = "ottla-broker", patience_seconds: float | None = ANSWER_SECONDS_MAX
    ) -> None:
        """`patience_seconds` is how long `run` waits for an answer; None is for as long as it takes."""
        self._pid = os.getpid()
        self._patience_seconds = patience_seconds
        self._loop = _new_loop()
        # A daemon: a program that forgets to end it can end nevertheless.
        self._thread = threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _stop, self._loop, self._thread, self._pid)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """For `call_soon_threadsafe`: nothing else of it may be used from other threads."""
        return self._loop

    @property
    def is_current(self) -> bool:
        """Whether whoever asks runs in it."""
        return threading.current_thread() is self._thread

    @property
    def is_alive(self) -> bool:
        """Whether what is handed in is still done."""
        return self._thread.is_alive()

    @property
    def is_ours(self) -> bool:
        """Threads stay behind in a fork: the child has the object, but nobody runs it."""
        return os.getpid() == self._pid

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """Have `work` done on the loop, and return what it returns. `seconds` come on top of the usual patience."""
        reason = None
        if not self.is_ours:
            reason = f"this was started by process {self._pid}, and did not come along in the fork"
        elif self.is_current:
            reason = "called from its own thread, this would wait for itself"
        elif not self._end.alive:
            reason = "it has ended"
        if reason is not None:
            work.close()
            raise RuntimeError(reason)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        patience = None if self._patience_seconds is None else self._patience_seconds + seconds
        try:
            return self._wait(future, patience)
        except BaseException:
            future.cancel()  # whoever waited was interrupted; done work does not mind
            raise

    def _wait(self, future: "concurrent.futures.Future[T]", patience: float | None) -> T:
        """What was handed in at the very moment of the end may never be looked at: then nobody waits for ever."""
        end = None if patience is None else time.monotonic() + patience
        while True:
            left = _GLANCE_SECONDS if end is None else min(_GLANCE_SECONDS, end - time.monotonic())
            concurrent.futures.wait((future,), max(0.0, left))
            if future.done():
                return future.result()
            if not self._thread.is_alive():
                raise RuntimeError("it has ended")
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"no answer in {patience:.0f} s")

    def end(self) -> None:
        """Cancel what is left, and return when the thread is gone."""
        self._end()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in (tasks := asyncio.all_tasks(loop)):
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if os.getpid() == pid and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
        if threading.current_thread() is not thread:
            thread.join(_END_SECONDS_MAX)
