"""Lets the faults of a schedule happen, and heals everything in the end, but for what is to stay for ever."""

from collections.abc import Callable, Mapping

from ottla.metadata.paths import ControllerNode
from ottla.replication.state import NO_LEADER
from ottla.testing.simulation.cluster.broker import SimBroker
from ottla.testing.simulation.cluster.faults import FOR_EVER, UNCLEAN, Fault
from ottla.testing.simulation.cluster.invariants import Invariants
from ottla.testing.simulation.cluster.profiles import Profile
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.world import World

_FAST_MS = 200
"""A restart within this time comes before the session of the life before has expired."""


class Injection:
    """The faults of one run. `lasting` are the brokers that one of them holds for ever."""

    def __init__(
        self,
        world: World,
        store: SimStore,
        brokers: Mapping[str, SimBroker],
        invariants: Invariants,
        profile: Profile,
    ) -> None:
        self.lasting: dict[str, Fault] = {}
        self.injected = 0
        self._is_healed = False
        self._world = world
        self._store = store
        self._brokers = brokers
        self._invariants = invariants
        self._profile = profile
        self._handlers: dict[str, Callable[[Fault, SimBroker], None]] = {
            "crash": self._crash,
            "bounce": self._crash,
            "power": self._power,
            "shutdown": self._shut_down,
            "pause": self._pause,
            "slow": self._slow,
            "cut": self._cut,
            "store-cut": self._cut,
        }

    def plan(self, fault: Fault) -> None:
        self._world.after(fault.at_ms, self._inject, fault)

    def _inject(self, fault: Fault) -> None:
        victim = self._victim(fault.who)
        if victim is None and fault.kind not in ("blackout", "unknown", "unseat"):
            return
        if fault.kind in UNCLEAN and not self._may_die(fault):
            return
        self._world.note(f"fault: {fault}")
        self.injected += 1
        if fault.lasts_ms == FOR_EVER and victim is not None:
            self.lasting[victim.name] = fault
        if fault.kind == "blackout":
            for broker in self._brokers.values():
                self._power(fault, broker)
        elif fault.kind == "unseat":
            self._store.remove(ControllerNode.path)
        elif fault.kind == "unknown":
            self._store.hiccup = fault.chance
            self._world.after(fault.lasts_ms, self._calm_store)
        elif victim is not None:
            self._handlers[fault.kind](fault, victim)

    def _victim(self, who: str) -> SimBroker | None:
        """The broker of that name, or in that role now. None if there is none that lives."""
        truth = self._invariants.truth
        if who == "controller":
            who = f"b{truth.controller}"
        elif who == "leader":
            leaders = [each.state.leader for each in truth.partitions.values() if each.state is not None]
            who = f"b{leaders[0] if leaders else NO_LEADER}"
        broker = self._brokers.get(who)
        return broker if broker is not None and self._world.is_up(broker.name) else None

    def _may_die(self, fault: Fault) -> bool:
        if not self._profile.one_unclean_at_a_time:
            return True
        is_calm = self._invariants.all_whole() and all(map(self._world.is_running, self._brokers))
        return is_calm and not any(broker.is_leaving for broker in self._brokers.values())

    def _later(self, fault: Fault, call: Callable[..., None], *arguments: object) -> None:
        if fault.lasts_ms != FOR_EVER:
            self._world.after(fault.lasts_ms, self._end, call, arguments)

    def _end(self, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """A fault ends by itself, unless everything was healed before: then what lasts for ever is not to be ended."""
        if not self._is_healed:
            call(*arguments)

    def _restart(self, name: str) -> None:
        """After a clean shutdown, which may come to its end late."""
        if name not in self.lasting or self.lasting[name].kind != "crash":
            self._world.restart(name)

    # --- kinds ----------------------------------------------------------------------------------------------------

    def _crash(self, fault: Fault, victim: SimBroker) -> None:
        self._world.sometimes("a fast bounce" if fault.lasts_ms < _FAST_MS else "a crash")
        self._invariants.unclean_shutdown(victim)
        self._world.crash(victim.name)
        self._later(fault, self._world.restart, victim.name)

    def _power(self, fault: Fault, victim: SimBroker) -> None:
        if self._world.is_up(victim.name):
            self._invariants.unclean_shutdown(victim)
        self._world.sometimes("a power loss")
        victim.power_loss()
        self._later(fault, self._world.restart, victim.name)

    def _shut_down(self, fault: Fault, victim: SimBroker) -> None:
        def down() -> None:
            self._world.after(max(0, fault.lasts_ms), self._restart, victim.name)

        victim.shut_down(down)

    def _pause(self, fault: Fault, victim: SimBroker) -> None:
        if self._world.is_running(victim.name):
            self._world.pause(victim.name)
            self._later(fault, self._world.resume, victim.name)

    def _slow(self, fault: Fault, victim: SimBroker) -> None:
        network = self._world.network
        for end in fault.whom:
            for link in ((victim.name, end), (end, victim.name)):
                network.slow_down(*link, fault.by_ms)
                self._later(fault, network.slow_down, *link, 0)

    def _cut(self, fault: Fault, victim: SimBroker) -> None:
        network = self._world.network
        for end in fault.whom:
            if end == victim.name:
                continue
            link = (victim.name, end) if fault.outwards else (end, victim.name)
            network.cut(*link, both_ways=fault.both_ways)
            self._later(fault, self._heal, link, fault.both_ways)

    def _heal(self, link: tuple[str, str], both_ways: bool) -> None:
        self._world.network.heal(*link, both_ways=both_ways)

    def _calm_store(self) -> None:
        self._store.hiccup = 0.0

    # --- the end --------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everything is well again, but for what lasts for ever."""
        world = self._world
        world.note("everything is healed")
        self._is_healed = True
        world.network.calm_down()
        self._calm_store()
        for name, broker in self._brokers.items():
            world.restart(name)
            world.resume(name)
            if name in self.lasting:  # what ended it may have been the end of another fault
                self._handlers[self.lasting[name].kind](self.lasting[name], broker)
