"""One direction of a connection: what is sent arrives in order, once, late perhaps.

What the network loses is sent again, and what follows waits for it. While the link is cut everything waits; when it is
healed the stream goes on, unless it was ended meanwhile.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.testing.simulation.world import World

_RETRY_MS = (20, 120)
"""How often somebody tries whether a cut link is whole again."""


class Stream:
    """Carries things from one node to another. `deliver` is called when they arrive, as nobody's event: the kernel of
    a machine receives also while the process is paused."""

    def __init__(self, world: World, sender: str, receiver: str, deliver: Callable[[Any], object]) -> None:
        self.sender, self.receiver = sender, receiver
        self._world = world
        self._deliver = deliver
        self._under_way: deque[tuple[int, Any]] = deque()
        self._last_due_ms = 0
        self._is_ended = False

    def send(self, item: Any) -> None:
        if self._is_ended:
            return
        world = self._world
        due_ms = max(self._last_due_ms, world.now_ms + world.network.lag_ms(self.sender, self.receiver))
        self._last_due_ms = due_ms
        self._under_way.append((due_ms, item))
        if len(self._under_way) == 1:
            world.after(due_ms - world.now_ms, self._arrive)

    def end(self) -> None:
        """Nothing arrives any more, not even what is under way."""
        self._is_ended = True
        self._under_way.clear()

    def lose(self) -> None:
        """What is under way is lost; what is sent from now on is not."""
        self._under_way.clear()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def _arrive(self) -> None:
        world, under_way = self._world, self._under_way
        if self._is_ended:
            return
        if world.network.is_cut(self.sender, self.receiver):
            world.after(world.network.chance.randint(*_RETRY_MS), self._arrive)
            return
        while under_way and under_way[0][0] <= world.now_ms:
            self._deliver(under_way.popleft()[1])
        if under_way:
            world.after(under_way[0][0] - world.now_ms, self._arrive)
