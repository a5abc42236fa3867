"""Topics spread over brokers, with as few moves as can be. Pure: nobody is asked here.

Replicas that are on these brokers stay, and the others go to who has least. Then one replica after the other goes from
a broker that has too many to one that has too few, until no two differ by more than one: in each topic, and then over
all. Every step makes the loads more even, so there is an end.

Where every broker names its rack, a partition has replicas in as many racks as can be, and no step takes that away.
Who leads costs nothing to change: the first of the replicas is chosen anew, so that each leads as much as the others.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ottla.cli.cluster_plan import Assignment, racks_of
from ottla.cli.cluster_state import Node
from ottla.cli.remote import Failed
from ottla.controller.placement import circle
from ottla.core.ids import TopicPartition


def spread(
    now: Assignment, topics: Collection[str], nodes: Mapping[int, Node], onto: Collection[int]
) -> Assignment:
    """All partitions of these topics, with as many replicas as they have, on these brokers."""
    placed: dict[TopicPartition, list[int]] = {}
    for place, replicas in sorted(now.items()):
        if place.topic in topics:
            if len(replicas) > len(onto):
                raise Failed(
                    f"{place.topic}:{place.partition} has {len(replicas)} replicas: name at least so many brokers"
                )
            placed[place] = [id for id in replicas if id in onto]
    others = [replicas for place, replicas in now.items() if place not in placed]
    work = Spread(placed, others, onto, racks_of(nodes[id] for id in onto))
    for place in placed:
        work.fill(place, len(now[place]))
        work.widen(place)
    work.even_out()
    return with_leaders(placed, now)


class Spread:
    """Replicas on their way to an even load."""

    def __init__(
        self,
        placed: dict[TopicPartition, list[int]],
        others: Iterable[Sequence[int]],
        onto: Collection[int],
        racks: Mapping[int, str],
    ) -> None:
        """`others` are replicas that stay where they are, and count."""
        self._placed, self._racks = placed, racks
        self._order = circle(onto, racks)
        self._in_topic: Counter[tuple[str, int]] = Counter()
        self._total = Counter(id for replicas in others for id in replicas)
        for place, replicas in placed.items():
            for id in replicas:
                self._count(place, id, 1)

    def _count(self, place: TopicPartition, id: int, change: int) -> None:
        self._in_topic[place.topic, id] += change
        self._total[id] += change

    def _load(self, place: TopicPartition, id: int) -> tuple[int, int]:
        return self._in_topic[place.topic, id], self._total[id]

    def _swap(self, place: TopicPartition, source: int, target: int) -> None:
        replicas = self._placed[place]
        replicas[replicas.index(source)] = target
        self._count(place, source, -1)
        self._count(place, target, 1)

    def _rack_count(self, replicas: Iterable[int]) -> int:
        return len({self._racks[id] for id in replicas}) if self._racks else 0

    # --- one partition ------------------------------------------------------------------------------------------

    def fill(self, place: TopicPartition, factor: int) -> None:
        """So many replicas: from racks that have none, and then who has least."""
        replicas = self._placed[place]
        while len(replicas) < factor:
            used = {self._racks[id] for id in replicas} if self._racks else set()
            free = [id for id in self._order if id not in replicas]
            chosen = min(free, key=lambda id: (self._racks.get(id) in used, *self._load(place, id)))
            replicas.append(chosen)
            self._count(place, chosen, 1)

    def widen(self, place: TopicPartition) -> None:
        """Replicas in as many racks as can be."""
        replicas = self._placed[place]
        wanted = min(len(replicas), self._rack_count(self._order))
        while self._rack_count(replicas) < wanted:
            held = Counter(self._racks[id] for id in replicas)
            crowded = [id for id in replicas if held[self._racks[id]] > 1]
            outside = [id for id in self._order if self._racks[id] not in held]
            source = max(crowded, key=lambda id: self._load(place, id))
            self._swap(place, source, min(outside, key=lambda id: self._load(place, id)))

    # --- all of them --------------------------------------------------------------------------------------------

    def even_out(self) -> None:
        topics: dict[str, list[TopicPartition]] = {}
        for place in self._placed:
            topics.setdefault(place.topic, []).append(place)
        for topic, places in topics.items():
            loads = {id: self._in_topic[topic, id] for id in self._order}
            self._level(places, loads, lambda place, source, target: True)
        # Over all, a step must not make a topic less even: who gives has more of it than who takes.
        loads = {id: self._total[id] for id in self._order}
        self._level(list(self._placed), loads, self._is_fair)

    def _is_fair(self, place: TopicPartition, source: int, target: int) -> bool:
        return self._in_topic[place.topic, source] > self._in_topic[place.topic, target]

    def _level(
        self,
        places: Sequence[TopicPartition],
        loads: dict[int, int],
        may: Callable[[TopicPartition, int, int], bool],
    ) -> None:
        """Steps from the largest of the loads to the smallest, until no two differ by more than one, or none may."""
        while (found := self._step(places, loads, may)) is not None:
            place, source, target = found
            self._swap(place, source, target)
            loads[source] -= 1
            loads[target] += 1

    def _step(
        self,
        places: Sequence[TopicPartition],
        loads: Mapping[int, int],
        may: Callable[[TopicPartition, int, int], bool],
    ) -> tuple[TopicPartition, int, int] | None:
        for source in sorted(self._order, key=lambda id: -loads[id]):
            for target in sorted(self._order, key=lambda id: loads[id]):
                if loads[source] - loads[target] < 2:
                    break
                for place in places:
                    if self._can_swap(place, source, target) and may(place, source, target):
                        return place, source, target
        return None

    def _can_swap(self, place: TopicPartition, source: int, target: int) -> bool:
        replicas = self._placed[place]
        if source not in replicas or target in replicas:
            return False
        after = [target if id == source else id for id in replicas]
        return self._rack_count(after) >= self._rack_count(replicas)


def with_leaders(placed: Mapping[TopicPartition, Sequence[int]], now: Assignment) -> Assignment:
    """The same replicas, the first chosen so that each leads as much as the others; who is first now, if it can be."""
    led: Counter[tuple[str, int]] = Counter()
    total: Counter[int] = Counter()
    found: Assignment = {}
    for place, replicas in placed.items():
        before = now[place][0] if now[place] else -1
        first = min(replicas, key=lambda id: (led[place.topic, id], total[id] + (id != before), id != before))
        led[place.topic, first] += 1
        total[first] += 1
        found[place] = (first, *(id for id in replicas if id != first))
    return found
