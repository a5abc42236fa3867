"""Carries out the faults of a schedule on whole brokers."""

from collections.abc import Callable, Mapping

from ottla.testing.simulation.brokers.node import SimBroker, name_of
from ottla.testing.simulation.cluster.faults import FOR_EVER, UNCLEAN, Fault
from ottla.testing.simulation.cluster.schedule import Schedule
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.world import World

_BEFORE_MS, _AWAY_MS = 40, 1_500


class Faults:
    """`start` plans them all; `heal` ends those that are to end."""

    def __init__(
        self,
        world: World,
        store: SimStore,
        brokers: Mapping[str, SimBroker],
        role: Callable[[str], str | None],
        may_be_unclean: Callable[[], bool],
        on_unclean: Callable[[int], None],
    ) -> None:
        """`role` says who is the controller or the leader now, `may_be_unclean` whether one more may lose what it
        has not synced; `on_unclean` is told who will have died so."""
        self._world = world
        self._store = store
        self._brokers = brokers
        self._role = role
        self._may_be_unclean = may_be_unclean
        self._on_unclean = on_unclean
        self.struck: dict[str, int] = {}
        """How often each kind has struck."""
        self.lasting: dict[str, Fault] = {}
        """Whom a fault holds for ever."""

    def start(self, schedule: Schedule) -> None:
        for fault in (*schedule.faults, *_deaths_before_deletions(schedule)):
            self._world.after(fault.at_ms, self._strike, fault)

    def _strike(self, fault: Fault) -> None:
        name = fault.who if fault.who in self._brokers else self._role(fault.who)
        if name is None and fault.kind not in ("blackout", "unknown"):
            return
        if fault.kind in UNCLEAN and not self._may_be_unclean():
            return
        self.struck[fault.kind] = self.struck.get(fault.kind, 0) + 1
        if fault.lasts_ms == FOR_EVER and name is not None:
            self.lasting[name] = fault
        self._carry_out(fault, name)

    def _carry_out(self, fault: Fault, name: str | None) -> None:
        if fault.kind in ("cut", "store-cut", "slow"):
            assert name is not None
            self._links(fault, name)
        else:
            self._befall(fault, name or "")

    def _befall(self, fault: Fault, name: str) -> None:
        world, kind = self._world, fault.kind
        if kind == "unknown":
            self._store.hiccup = fault.chance
            self._later(fault, self._settle_store)
        elif kind == "blackout":
            for each in self._brokers:
                self._kill(each, power=True)
                self._later(fault, world.restart, each)
        elif kind == "pause":
            world.pause(name)
            self._later(fault, world.resume, name)
        elif kind == "shutdown":
            self._brokers[name].shut_down(lambda: self._later(fault, world.restart, name))
        else:
            self._kill(name, power=kind == "power")
            self._later(fault, world.restart, name)

    def _kill(self, name: str, *, power: bool) -> None:
        broker = self._brokers[name]
        if self._world.is_up(name):
            self._on_unclean(broker.id)
        if power:
            broker.lose_power()
        else:
            self._world.crash(name)

    def _links(self, fault: Fault, name: str) -> None:
        world, network = self._world, self._world.network
        world.note(f"{fault.kind} {name} {'both ways' if fault.both_ways else ''} {', '.join(fault.whom)}")
        for other in fault.whom:
            if other == name:
                continue
            link = (name, other) if fault.outwards else (other, name)
            if fault.kind == "slow":
                network.slow_down(*link, fault.by_ms)
                self._later(fault, network.slow_down, *link, 0)
            else:
                network.cut(*link, both_ways=fault.both_ways)
                self._later(fault, self._mend, *link, fault.both_ways)

    def _mend(self, sender: str, receiver: str, both_ways: bool) -> None:
        self._world.network.heal(sender, receiver, both_ways=both_ways)

    def _settle_store(self) -> None:
        self._store.hiccup = 0.0

    def _later(self, fault: Fault, call: Callable[..., None], *arguments: object) -> None:
        if fault.lasts_ms != FOR_EVER:
            self._world.after(fault.lasts_ms, call, *arguments)

    def heal(self) -> None:
        """Everything works again, but for what stays for ever."""
        world = self._world
        world.note("healed")
        self._store.hiccup = 0.0
        world.network.calm_down()
        for name in self._brokers:
            world.restart(name)
            world.resume(name)
            if name in self.lasting:  # what ended it may have been the end of another fault
                self._carry_out(self.lasting[name], name)


def _deaths_before_deletions(schedule: Schedule) -> list[Fault]:
    """Every other time that a topic is deleted a broker dies before it, and comes back when that is done: few schedules
    would have it by chance."""
    doomed = [work for work in schedule.work if work.kind == "delete" and work.at_ms % 2]
    return [Fault("crash", work.at_ms - _BEFORE_MS, _AWAY_MS, name_of(work.replicas[0])) for work in doomed]
