"""Nodes for tests of the kernel: they do nothing by themselves, and get a new loop with every life."""

from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.world import World


class Host:
    """A node with a loop. `begin` is what each life does first."""

    def __init__(self, world: World, name: str, begin=None, **options) -> None:
        self.world, self.name, self._begin, self._options = world, name, begin, options
        world.add(self)
        self.restart()

    def receive(self, sender, message):
        raise AssertionError("nobody sends to it")

    def crash(self):
        """Everything is in the loop, and ends with it."""

    def restart(self):
        self.loop = NodeLoop(self.world, self.name, **self._options)
        if self._begin is not None:
            self.loop.run(self._begin(self))


def finish(world: World, loop: NodeLoop, coroutine, until_ms: int = 60_000):
    """The result of a coroutine, as soon as it is there."""
    task = loop.run(coroutine)
    assert world.run_until(task.done, world.now_ms + until_ms), "it does not end"
    return task.result()
