"""Questions that wait for an answer: whoever asks is told once, by the answer or by its absence."""

from collections.abc import Callable
from typing import Any

from ottla.testing.simulation.world import Event, World

Then = Callable[[Any], None]
"""Called with the answer, or with None if none came in time."""


class Calls:
    """The open questions of one life of a node."""

    def __init__(self, world: World, node: str, first: int = 0) -> None:
        self._world = world
        self._node = node
        self._number = first
        self._open: dict[int, tuple[Then, Event]] = {}

    def ask(self, receiver: str, question: Callable[[int], Any], then: Then, timeout_ms: int) -> None:
        self._number += 1
        number = self._number
        timer = self._world.after(timeout_ms, self._give_up, number, node=self._node)
        self._open[number] = then, timer
        self._world.send(self._node, receiver, question(number))

    def answered(self, answer: Any) -> None:
        """An answer has come: late and doubled ones find nobody who waits."""
        waiting = self._open.pop(answer.number, None)
        if waiting is None:
            self._world.sometimes("an answer comes too late")
            return
        then, timer = waiting
        timer.cancel()
        then(answer)

    def _give_up(self, number: int) -> None:
        waiting = self._open.pop(number, None)
        if waiting is not None:
            waiting[0](None)
