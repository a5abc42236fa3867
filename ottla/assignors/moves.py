"""Moves: of all assignments with equally even loads, one in which as few partitions as possible change hands.

Give and take form a graph: a member gives one partition of a topic, which another member takes, who gives one of
another topic, and so on, until the first is reached again. Such a round leaves all loads as they are. A round may also
jump from a taker to a giver that has one partition more than it: the two exchange their loads. Giving away what was
not one's own saves a move, taking what was not one's own costs one. As long as there is a round that saves more than
it costs there are needless moves; when there is none, there are no needless moves (Bellman and Ford find the rounds).
"""

from collections.abc import Sequence
from operator import lt

STEPS_MAX = 1_000_000
"""After so many looks at one member and one topic it is good enough: a group may not hold up all others."""


def spare_moves(
    counts: list[list[int]],
    held: Sequence[Sequence[int]],
    loads: list[int],
    topics_of: Sequence[Sequence[int]],
) -> None:
    """Change `counts` (by topic and member), and `loads` with them, so that less of `held` moves."""
    steps_left = STEPS_MAX
    while steps_left > 0 and _has_needless(counts, held):
        search = Rounds(counts, held, loads, topics_of)
        rounds = search.find(steps_left)
        if not rounds:
            return
        for nodes in rounds:
            search.go(nodes)
        steps_left -= search.steps


def _has_needless(counts: Sequence[Sequence[int]], held: Sequence[Sequence[int]]) -> bool:
    """Whether anybody lost what it held: what nobody held has to go somewhere, and is no move."""
    return any(any(map(lt, row, held_row)) for row, held_row in zip(counts, held, strict=True))


class Rounds:
    """One search. Nodes are the members, then the topics, then the loads between which members may jump."""

    def __init__(
        self,
        counts: list[list[int]],
        held: Sequence[Sequence[int]],
        loads: list[int],
        topics_of: Sequence[Sequence[int]],
    ) -> None:
        self._counts = counts
        self._held = held
        self._loads = loads
        self._topics_of = topics_of
        self._first_topic = len(loads)
        self._first_load = self._first_topic + len(counts)
        node_count = self._first_load + max(loads, default=0) + 2
        self._costs = [0] * node_count
        self._came_from = [-1] * node_count
        self.steps = 0

    def find(self, steps_max: int) -> list[list[int]]:
        """Rounds that save moves and have no node in common, each in the order in which partitions go. Or none."""
        while self._look_once():
            if rounds := self._closed():
                return rounds
            if self.steps > steps_max:
                break
        return []

    def _look_once(self) -> bool:
        """Look at every arc once; whether anything has become cheaper."""
        costs, came_from = self._costs, self._came_from
        is_cheaper = False
        for member, topics in enumerate(self._topics_of):
            self.steps += len(topics)
            cost = costs[member]
            for topic in topics:
                node = self._first_topic + topic
                count, had = self._counts[topic][member], self._held[topic][member]
                given = cost - (count > had)
                if count and given < costs[node]:
                    costs[node], came_from[node], is_cheaper = given, member, True
                taken = costs[node] + (count >= had)
                if taken < cost:
                    costs[member], came_from[member], is_cheaper = taken, node, True
                    cost = taken
            above = self._first_load + self._loads[member] + 1
            if cost < costs[above]:
                costs[above], came_from[above], is_cheaper = cost, member, True
            if costs[above - 1] < cost:
                costs[member], came_from[member], is_cheaper = costs[above - 1], above - 1, True
        return is_cheaper

    def _closed(self) -> list[list[int]]:
        """The rounds among the arcs by which nodes are reached most cheaply. Each of them saves moves."""
        rounds = []
        seen_from = [-1] * len(self._came_from)
        for start in range(len(self._came_from)):
            node = start
            while node >= 0 and seen_from[node] < 0:
                seen_from[node] = start
                node = self._came_from[node]
            if node >= 0 and seen_from[node] == start:
                nodes = [node]
                while (before := self._came_from[nodes[-1]]) != node:
                    nodes.append(before)
                rounds.append(nodes[::-1])
        return rounds

    def go(self, nodes: Sequence[int]) -> None:
        """Do what the round says."""
        for here, there in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
            if here < self._first_topic <= there < self._first_load:
                self._counts[there - self._first_topic][here] -= 1
            elif there < self._first_topic <= here < self._first_load:
                self._counts[here - self._first_topic][there] += 1
            elif here < self._first_topic:
                self._loads[here] += 1
            else:
                self._loads[there] -= 1
