"""An offset that others can wait for: high watermark, last stable offset, log end offset.

It stands for what Kafka calls purgatory. A produce with acks=-1 waits for the high watermark to reach the end
of its records; a fetch waits for the first one that moves. Whoever waits is told once: the offset is reached,
or the error with which the watermark failed (leadership lost, too few in-sync replicas).

Waiters are told in the order of their offsets, then of their arrival. Who gives up is skipped, and swept out
when such leftovers outnumber the rest, so that a stream of timeouts holds no memory.

Watchers want to hear of any move. A fetch watches hundreds of offsets for each one that moves, so to watch and to leave
costs next to nothing.
"""

import heapq
from collections.abc import Callable

from ottla.core.errors import KafkaError

Told = Callable[[KafkaError | None], object]

_SWEEP_COUNT_MIN = 16  # below this, leftovers are not worth the walk


class Waiter:
    """A promise to call `told` once. `cancel` takes it back."""

    __slots__ = ("_watermark", "offset", "told")

    def __init__(self, watermark: "Watermark", offset: int, told: Told) -> None:
        self._watermark = watermark
        self.offset = offset
        self.told: Told | None = told

    def cancel(self) -> None:
        """Wait no longer. Does nothing if told or cancelled before."""
        if self.told is not None:
            self.told = None
            self._watermark._drop_one()


class Watermark:
    """An offset that grows on a leader, may move back on a follower, and that tasks can wait for."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._waiters: list[tuple[int, int, Waiter]] = []  # a heap: offset, arrival, waiter
        self._arrivals = 0
        self.waiting = 0
        """How many have yet to be told."""
        self.watchers: dict[Callable[[], object], None] = {}
        """Called at every move and failure, in the order of their arrival, until they leave."""

    def __repr__(self) -> str:
        return f"<Watermark {self.value}, {self.waiting} waiting>"

    def advance(self, to: int) -> None:
        """Move forward and tell everybody whose offset is reached."""
        assert to >= self.value, "a watermark moves back only by reset()"
        self.value = to
        if self._waiters:
            self._tell_reached()
        if self.watchers:
            self._tell_watchers()

    def reset(self, to: int) -> None:
        """Set the value either way, as a follower does that truncates. Who was told already stays told."""
        self.value = to
        self._tell_reached()
        self._tell_watchers()

    def fail(self, error: KafkaError) -> None:
        """Tell everybody who waits that it will not happen. Later waiters wait anew."""
        failed, self._waiters = self._waiters, []
        for _, _, waiter in sorted(failed):
            # One error each: a shared exception would collect the tracebacks of all who raise it.
            self._tell(waiter, type(error)(error.code, error.detail))
        self._tell_watchers()

    def on_reach(self, offset: int, told: Told) -> Waiter:
        """Call `told(None)` when `offset` is reached (at once, if it is), `told(error)` when that fails."""
        waiter = Waiter(self, offset, told)
        if self.value >= offset:
            waiter.told = None
            told(None)
        else:
            self._arrivals += 1
            self.waiting += 1
            heapq.heappush(self._waiters, (offset, self._arrivals, waiter))
        return waiter

    async def reach(self, offset: int) -> None:
        """Wait until the value is at least `offset`. Raises the KafkaError with which the watermark failed.

        Cancelling the task, or a timeout around it, is the way to give up.
        """
        if self.value >= offset:
            return
        import asyncio  # here, because importing it takes longer than the whole of core

        # The error is a result, no exception: nobody complains if the task is cancelled before it sees it.
        future: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

        def told(error: KafkaError | None) -> None:
            # Cancelling a task cancels its future at once; the task itself gives up a step later.
            if not future.done():
                future.set_result(error)

        waiter = self.on_reach(offset, told)
        try:
            error = await future
        finally:
            waiter.cancel()
        if error is not None:
            raise error

    def _tell_reached(self) -> None:
        # `value` is read anew each time: whoever is told may move it.
        while self._waiters and self._waiters[0][0] <= self.value:
            self._tell(heapq.heappop(self._waiters)[2], None)

    def _tell_watchers(self) -> None:
        for told in list(self.watchers):
            told()

    def _tell(self, waiter: Waiter, error: KafkaError | None) -> None:
        told, waiter.told = waiter.told, None
        if told is not None:
            self.waiting -= 1
            told(error)

    def _drop_one(self) -> None:
        self.waiting -= 1
        leftovers = len(self._waiters) - self.waiting
        if leftovers > _SWEEP_COUNT_MIN and leftovers > self.waiting:
            self._waiters = [entry for entry in self._waiters if entry[2].told is not None]
            heapq.heapify(self._waiters)
