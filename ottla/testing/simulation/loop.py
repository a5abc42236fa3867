"""An event loop in virtual time: what asyncio code of one simulated node runs on.

Many of them live side by side in one process, one for each life of a node. Callbacks run in turns, and a turn is one
event of the world; so are timers, and what is done in threads elsewhere. Within a node their order is that of asyncio,
between nodes the seed decides.

A life that is over runs nothing any more. Its tasks are not cancelled, they just never go on: not even a `finally` of
theirs is run, which could touch what the next life needs. They are kept until the world is closed.
"""

import asyncio
import contextlib
import heapq
import math
import random
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.core.clock import Clock
from ottla.testing.simulation.world import WALL_MS, Event, Violation, World

if TYPE_CHECKING:
    from ottla.testing.simulation.transport import VirtualTransport
    from ottla.testing.simulation.wire import VirtualServer, Wires

T = TypeVar("T")
P = TypeVar("P", bound=asyncio.BaseProtocol)

UNSEEN_MS = 1_000
"""How long a task may have failed before somebody looks at it."""
_MS = 1_000
_ROUNDING_MS = 1e-6
_CLOSES_MAX = 20


class WorldClock(Clock):
    """The time of the world, for whoever holds a `Clock`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return WALL_MS + self._world.now_ms

    def monotonic_ms(self) -> int:
        return self._world.now_ms


class NodeLoop(asyncio.BaseEventLoop):
    """The event loop of one life of a node. `run` a coroutine on it; the world does the rest."""

    def __init__(
        self,
        world: World,
        node: str,
        *,
        wires: "Wires | None" = None,
        thread_ms: tuple[int, int] = (0, 0),
    ) -> None:
        """`wires` lets it open and take connections; `thread_ms` is how long a call in a thread takes."""
        super().__init__()
        self.world = world
        self.node = node
        self._wires = wires
        self._thread_ms = thread_ms
        self._life = world.life(node)
        self._is_closed_by_world = False
        self._turn_ready: deque[asyncio.Handle] = deque()
        self._has_turn = False
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._timer_number = 0
        self._wake_event: tuple[int, Event] | None = None
        self._last_when = 0.0
        """Of timers that have run: whoever looks at the clock then must not find that it is a rounding too early."""
        self._alive: set[asyncio.Task[Any]] = set()
        self._chance: random.Random = world.stream(f"loop/{node}/{self._life}")
        world.at_close(self._bury)

    def __repr__(self) -> str:
        return f"<the loop of {self.node}{', which is over' if self.is_over else ''}>"

    @property
    def is_over(self) -> bool:
        """Has this life of the node ended?"""
        return self._is_closed_by_world or self.world.life(self.node) != self._life

    def run(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> "asyncio.Task[T]":
        """Have the node do this."""
        return self.create_task(coroutine, name=name)

    # --- callbacks ----------------------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_over:
            self._turn_ready.append(handle)
            self._want_turn()
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def _want_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self.world.after(0, self._turn, node=self.node)

    def _turn(self) -> None:
        """Run what is ready now; what becomes ready meanwhile comes with the next turn."""
        self._has_turn = False
        ready, before = self._turn_ready, asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.is_over:
                    return  # it ended itself
        finally:
            asyncio._set_running_loop(before)
        if ready:
            self._want_turn()

    # --- time ---------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return max(self.world.now_ms / _MS, self._last_when)

    def call_later(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_over:
            at_ms = max(self.world.now_ms, math.ceil(when * _MS - _ROUNDING_MS))
            self._timer_number += 1
            heapq.heappush(self._timers, (at_ms, self._timer_number, timer))
            self._want_wake()
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _want_wake(self) -> None:
        """One event for the earliest timer; it is replaced when an earlier one comes."""
        at_ms = self._timers[0][0]
        if self._wake_event is not None:
            if self._wake_event[0] <= at_ms:
                return
            self._wake_event[1].cancel()
        event = self.world.after(max(0, at_ms - self.world.now_ms), self._wake, node=self.node)
        self._wake_event = (at_ms, event)

    def _wake(self) -> None:
        self._wake_event = None
        timers, now_ms = self._timers, self.world.now_ms
        while timers and (timers[0][0] <= now_ms or timers[0][2].cancelled()):
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self._last_when = max(self._last_when, timer.when())
                self._turn_ready.append(timer)
        if timers:
            self._want_wake()
        if self._turn_ready and not self._has_turn:
            self._turn()

    # --- threads ------------------------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]  # a future, as asyncio's own loops return
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Call it in a later event of this node, whether or not anybody still waits by then: as a thread would."""
        future: asyncio.Future[T] = self.create_future()
        if not self.is_over:
            self.world.after(
                self._chance.randint(*self._thread_ms), self._call, future, func, args, node=self.node
            )
        return future

    def _call(self, future: "asyncio.Future[T]", func: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except BaseException as error:
            if not future.done() and not self.is_over:
                future.set_exception(error)
            return
        if not future.done() and not self.is_over:
            future.set_result(result)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    # --- tasks --------------------------------------------------------------------------------------------------

    def create_task(  # type: ignore[override]  # narrower in typeshed than what asyncio takes
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        if self.is_over:
            coro.close()  # what a life does while it ends is never begun
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._alive.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._alive.discard(task)
        if not task.cancelled() and _is_unseen(task):
            self.world.after(UNSEEN_MS, self._check_seen, task, node=self.node)

    def _check_seen(self, task: "asyncio.Task[Any]") -> None:
        if _is_unseen(task):
            error = task.exception()
            assert error is not None
            self._complain(f"{_name(task)} failed, and nobody looks at it", error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What asyncio would write to a log is a violation, if it is of a life that goes on."""
        error: BaseException | None = context.get("exception")
        if self.is_over:
            return
        if "task" not in context and "future" not in context:
            self._complain(context["message"], error)
        elif error is not None:
            with contextlib.suppress(Violation):  # nobody could catch it in the midst of a collection
                self._complain("something failed, and nobody looked at it", error)

    def _complain(self, sentence: str, error: BaseException | None) -> None:
        details = "".join(traceback.format_exception(error)) if error is not None else ""
        self.world.violate(f"exceptions of {self.node}", f"{sentence}\n{details}")

    # --- the end ------------------------------------------------------------------------------------------------

    def _bury(self) -> None:
        """The world is closed: let go of the tasks that never ended, so that the collector has nothing to say."""
        self._is_closed_by_world = True
        for task in list(self._alive):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # typeshed leaves it out
            coroutine = task.get_coro()
            for _ in range(_CLOSES_MAX):  # one that awaits in its `finally` has to be told again
                try:
                    coroutine.close()
                    break
                except BaseException:
                    continue
        self._alive.clear()
        self._turn_ready.clear()
        self._timers.clear()

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return False

    def close(self) -> None:
        """It ends with its life."""

    def __del__(self) -> None:
        """Nothing was opened."""

    # --- connections --------------------------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]  # as much of it as we use
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        start_serving: bool = True,
        **_: Any,
    ) -> "VirtualServer":
        assert self._wires is not None, f"{self.node} has no wires"
        return self._wires.listen(self, protocol_factory, host, port, start_serving=start_serving)

    async def create_connection(  # type: ignore[override]  # as much of it as we use
        self, protocol_factory: Callable[[], P], host: str, port: int, **_: Any
    ) -> "tuple[VirtualTransport, P]":
        assert self._wires is not None, f"{self.node} has no wires"
        return await self._wires.connect(self, protocol_factory, host, port)


def _is_unseen(task: "asyncio.Task[Any]") -> bool:
    """Did it fail, without anybody asking how it went? To ask in the usual way would count as asking."""
    return bool(task._log_traceback)


def _name(task: "asyncio.Task[Any]") -> str:
    """Numbers in names differ from run to run."""
    return getattr(task.get_coro(), "__qualname__", "a task")
