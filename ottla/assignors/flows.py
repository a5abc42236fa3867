"""Flows: how many partitions of each topic each member gets, where members want different topics.

Members and topics are numbers here, and partitions of one topic are all alike. Starting from what members hold, a
partition can be passed on along a chain: A gives one of topic t to B, B gives one of u to C. Only the loads of the two
ends change. As long as a chain leads from a member to one with two partitions less, loads can be made more even;
when there is none, they are as even as they can be (the theory calls it an optimal semi-matching). Then `moves` looks
for another way to the same loads that leaves members more of what they held.
"""

import heapq
from collections.abc import Mapping, Sequence

from ottla.assignors.moves import spare_moves


class Flows:
    """The counts of one group, as they are being settled."""

    def __init__(
        self,
        member_count: int,
        subscribers: Sequence[Sequence[int]],
        partition_counts: Sequence[int],
        held: Sequence[Mapping[int, int]],
    ) -> None:
        """`held`: by topic, how many partitions the members have; they must be subscribers. Call `settle` next."""
        self.counts = [[0] * member_count for _ in held]
        self._subscribers = subscribers
        self._partition_counts = partition_counts
        self._member_count = member_count
        self._loads = [0] * member_count
        for row, held_of_topic in zip(self.counts, held, strict=True):
            for member, count in held_of_topic.items():
                row[member] = count
                self._loads[member] += count
        self._held = [row.copy() for row in self.counts]
        self._topics_of: list[list[int]] = [[] for _ in range(self._member_count)]
        for topic, members in enumerate(subscribers):
            for member in members:
                self._topics_of[member].append(topic)
        self._mean_load = sum(partition_counts) // max(1, sum(map(bool, self._topics_of)))

    def settle(self) -> None:
        self._give_out()
        self._even_out()
        spare_moves(self.counts, self._held, self._loads, self._topics_of)

    def _give_out(self) -> None:
        """What nobody holds goes to whoever has least. Topics with few subscribers first: they have little choice."""
        for topic in sorted(range(len(self.counts)), key=lambda topic: len(self._subscribers[topic])):
            row = self.counts[topic]
            heap = [(self._loads[member], member) for member in self._subscribers[topic]]
            heapq.heapify(heap)
            for _ in range(self._partition_counts[topic] - sum(row)):
                load, member = heap[0]
                row[member] += 1
                self._loads[member] = load + 1
                heapq.heapreplace(heap, (load + 1, member))

    def _even_out(self) -> None:
        """Pass partitions on until no chain helps. Starts at the heaviest members.

        If no chain helps a member, nobody whom its chains reach is lighter than it by more than one, and their chains
        lead nowhere else. So they are done with as well, and no later chain needs to enter there.
        """
        done = [False] * self._member_count
        heap = [(-load, member) for member, load in enumerate(self._loads)]
        heapq.heapify(heap)
        while heap:
            load, member = heapq.heappop(heap)
            if done[member] or -load != self._loads[member]:
                continue
            chain, reached = self._find_chain(member, done)
            if not chain:
                for other in reached:
                    done[other] = True
                continue
            self._pass_on(chain)
            for end in (chain[0][0], chain[-1][2]):
                heapq.heappush(heap, (-self._loads[end], end))

    def _find_chain(self, start: int, done: Sequence[bool]) -> tuple[list[tuple[int, int, int]], list[int]]:
        """A shortest chain of (giver, topic, taker) to a member with two partitions less; or whom chains reach."""
        enough = self._loads[start] - 2
        came: dict[int, tuple[int, int]] = {start: (-1, -1)}
        seen_topics: set[int] = set()
        layer = [start]
        while layer:
            following: list[int] = []
            best = -1
            for giver in layer:
                for topic in self._topics_of[giver]:
                    if topic in seen_topics or not self.counts[topic][giver]:
                        continue
                    seen_topics.add(topic)
                    for taker in self._subscribers[topic]:
                        if taker in came or done[taker]:
                            continue
                        came[taker] = (giver, topic)
                        following.append(taker)
                        if self._loads[taker] <= enough:
                            best, enough = taker, self._loads[taker] - 1
                    if best >= 0 and self._loads[best] < self._mean_load:
                        # It has less than most. Looking on would take long and find little better.
                        return self._chain_to(best, came), []
            if best >= 0:
                return self._chain_to(best, came), []
            layer = following
        return [], list(came)

    def _chain_to(self, end: int, came: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
        chain = []
        taker = end
        while (hop := came[taker])[0] >= 0:
            chain.append((hop[0], hop[1], taker))
            taker = hop[0]
        chain.reverse()
        return chain

    def _pass_on(self, chain: Sequence[tuple[int, int, int]]) -> None:
        for giver, topic, taker in chain:
            self.counts[topic][giver] -= 1
            self.counts[topic][taker] += 1
        self._loads[chain[0][0]] -= 1
        self._loads[chain[-1][2]] += 1
