"""Cycles in a directed graph: each set of nodes that can all reach each other, if there are at least two of them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def cycles(edges: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Strongly connected components of two nodes or more, by Tarjan's algorithm, without recursion."""
    order: dict[N, int] = {}
    lowest: dict[N, int] = {}
    stack: list[N] = []
    on_stack: set[N] = set()
    found: list[list[N]] = []

    def enter(node: N) -> tuple[N, Iterator[N]]:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        on_stack.add(node)
        return node, iter(edges.get(node, ()))

    for root in edges:
        path = [] if root in order else [enter(root)]
        while path:
            node, following = path[-1]
            for other in following:
                if other not in order:
                    path.append(enter(other))
                    break
                if other in on_stack:
                    lowest[node] = min(lowest[node], order[other])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    lowest[before] = min(lowest[before], lowest[node])
                if lowest[node] == order[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        found.append(component[::-1])
    return found
