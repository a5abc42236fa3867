"""Faults drawn from the seed: crashes, pauses, cut and slow links, and whatever else a test wants to see happen.

Each seed first draws which kinds it uses at all. A run with nothing but pauses reaches places that a run with a bit of
everything does not.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.testing.simulation.world import World

KINDS = ("crash", "pause", "cut", "slow")


@dataclass(slots=True)
class Storm:
    """Let faults befall `nodes` every `gap_ms` on average, until `end_ms`; then everything is healed."""

    world: World
    nodes: Sequence[str]
    peers: Sequence[str] = ()
    """Who else is at the other end of links that are cut and slow."""
    others: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """Faults that only the test knows, such as an election for no reason."""
    gap_ms: int = 400
    lasts_ms: tuple[int, int] = (20, 1_500)
    end_ms: int = 10_000
    kinds: list[str] = field(default_factory=list)
    """Those that this seed drew."""

    def start(self) -> None:
        chance = self.world.stream("storm")
        choices = [*KINDS, *self.others]
        self.kinds = [kind for kind in choices if chance.random() < 0.6] or [chance.choice(choices)]
        self.world.note(f"a storm of {', '.join(self.kinds)}")
        at_ms = 0.0
        while (at_ms := at_ms + chance.expovariate(1 / self.gap_ms)) < self.end_ms:
            self._plan(chance, int(at_ms))
        self.world.after(self.end_ms, self._end)

    def _plan(self, chance: random.Random, at_ms: int) -> None:
        world, kind = self.world, chance.choice(self.kinds)
        name, until_ms = chance.choice(self.nodes), at_ms + chance.randint(*self.lasts_ms)
        if kind in self.others:
            world.after(at_ms, self.others[kind])
        elif kind == "crash":
            world.after(at_ms, world.crash, name)
            world.after(until_ms, world.restart, name)
        elif kind == "pause":
            world.after(at_ms, world.pause, name)
            world.after(until_ms, world.resume, name)
        else:
            self._plan_links(chance, kind, name, at_ms, until_ms)

    def _plan_links(self, chance: random.Random, kind: str, name: str, at_ms: int, until_ms: int) -> None:
        world = self.world
        ends = [end for end in (*self.nodes, *self.peers) if end != name and chance.random() < 0.6]
        by_ms, both_ways, outwards = chance.randint(50, 400), chance.random() < 0.5, chance.random() < 0.5
        for end in ends:
            link = (name, end) if outwards else (end, name)
            if kind == "cut":
                world.after(at_ms, self._cut, *link, both_ways)
                world.after(until_ms, self._heal, *link, both_ways)
            else:
                world.after(at_ms, world.network.slow_down, *link, by_ms)
                world.after(until_ms, world.network.slow_down, *link, 0)

    def _cut(self, sender: str, receiver: str, both_ways: bool) -> None:
        self.world.note(f"cut {sender} {'<->' if both_ways else '->'} {receiver}")
        self.world.network.cut(sender, receiver, both_ways=both_ways)

    def _heal(self, sender: str, receiver: str, both_ways: bool) -> None:
        self.world.network.heal(sender, receiver, both_ways=both_ways)

    def _end(self) -> None:
        self.world.note("the storm is over")
        self.world.network.calm_down()
        for name in self.nodes:
            self.world.restart(name)
            self.world.resume(name)
