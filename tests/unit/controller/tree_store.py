"""As much of a metadata store as reading takes; nothing waits."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.metadata import paths
from ottla.metadata.store import Create, Op
from ottla.metadata.tree import Tree

T = TypeVar("T")


class TreeStore:
    """A tree with the layout."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.write(*(Create(path) for path in paths.LAYOUT))

    def write(self, *ops: Op) -> int:
        plan = self.tree.plan(ops, session=0)
        self.tree.apply(plan)
        return plan.change_id

    async def children(self, path):
        return self.tree.children(path)

    async def get_all(self, wanted):
        return {path: node for path in wanted if (node := self.tree.get(path)) is not None}


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")
