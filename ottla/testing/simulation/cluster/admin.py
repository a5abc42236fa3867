"""An administrator: asks whoever is the controller, and asks again if that was somebody else."""

from collections.abc import Callable
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.testing.simulation.cluster.clients import Client, Cluster
from ottla.testing.simulation.cluster.messages import Answer, Errand
from ottla.testing.simulation.cluster.schedule import Work

ATTEMPTS_MAX = 12
_AGAIN = {ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR}


class Administrator(Client):
    """Runs errands one after the other, each when its time has come."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self.done: list[tuple[Work, ErrorCode]] = []
        self.busy = 0

    def plan(self, work: Work) -> None:
        self.after(work.at_ms, self.run, work)

    def run(self, work: Work, then: Callable[[], None] = lambda: None) -> None:
        self.busy += 1
        self._try(work, then, ATTEMPTS_MAX)

    def _try(self, work: Work, then: Callable[[], None], attempts: int) -> None:
        def answered(answer: Answer | None) -> None:
            if answer is not None and answer.error not in _AGAIN:
                self._ended(work, answer.error, then)
            elif attempts == 0:
                self._ended(work, ErrorCode.REQUEST_TIMED_OUT, then)
            else:
                self.learn(lambda: self.later(self._try, work, then, attempts - 1))

        if self.controller < 0:
            self.learn(lambda: self.later(self._ask, work, answered))
        else:
            self._ask(work, answered)

    def _ask(self, work: Work, answered: Callable[[Any], None]) -> None:
        if self.controller < 0:
            answered(None)
        else:
            self.ask(f"b{self.controller}", lambda number: Errand(number, work), answered)

    def _ended(self, work: Work, error: ErrorCode, then: Callable[[], None]) -> None:
        self.busy -= 1
        self.done.append((work, error))
        self.world.note(f"{work.kind}: {error.name}")
        self.world.sometimes(f"{work.kind}: {'done' if error is ErrorCode.NONE else error.name}")
        then()
