"""A heart: a task that beats now and then, and sooner when it is told to.

There is never more than one beat at a time, and whoever says `soon` gets a beat that begins after that.
"""

import asyncio
from collections.abc import Awaitable, Callable

_MS = 1000


class Heart:
    """`beat` says how many milliseconds there are until the next one; `failed` is told if it raises, and ends it."""

    def __init__(self, beat: Callable[[], Awaitable[float]], failed: Callable[[Exception], None]) -> None:
        self._beat, self._failed = beat, failed
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_beating(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin, if it does not beat already."""
        if not self.is_beating:
            self._task = asyncio.ensure_future(self._run())

    def soon(self) -> None:
        """Beat at once, or when the beat that is under way is over."""
        self._soon.set()

    async def stop(self) -> None:
        """End it. A beat under way is cut off."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                self._soon.clear()
                pause_ms = await self._beat()
                await self._rest(pause_ms)
        except Exception as error:  # nobody awaits this task: whoever owns it must hear of everything
            self._failed(error)

    async def _rest(self, pause_ms: float) -> None:
        try:
            async with asyncio.timeout(pause_ms / _MS):
                await self._soon.wait()
        except TimeoutError:
            pass
