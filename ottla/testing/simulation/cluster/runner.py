"""Runs one schedule: a cluster is started, everything goes wrong, everything is healed, and it is judged."""

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.testing.history import History
from ottla.testing.simulation.cluster.admin import Administrator
from ottla.testing.simulation.cluster.broker import SimBroker
from ottla.testing.simulation.cluster.clients import Cluster, Producer, Transactions
from ottla.testing.simulation.cluster.ending import Ending
from ottla.testing.simulation.cluster.injection import Injection
from ottla.testing.simulation.cluster.invariants import Invariants
from ottla.testing.simulation.cluster.profiles import ALL, PROFILES, profile_of
from ottla.testing.simulation.cluster.readers import Reader
from ottla.testing.simulation.cluster.schedule import FAULTS_UNTIL_MS, Schedule, Work, draw
from ottla.testing.simulation.cluster.settings import Settings
from ottla.testing.simulation.cluster.truth import Truth
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.world import Violation, World

BEGIN_MS = 20_000
HEALED_AFTER_MS = FAULTS_UNTIL_MS + 500
LAST_WORK_MS = 400
TRACED_LINES = 20_000
_NS = 1_000_000


@dataclass(slots=True)
class Result:
    """What came of a schedule."""

    schedule: Schedule
    events: int = 0
    seconds: float = 0.0
    acknowledged: int = 0
    violation: str | None = None
    losses: list[str] = field(default_factory=list)
    """What was lost that the promise does not cover: the reasons."""
    counts: dict[str, int] = field(default_factory=dict)
    """What has happened that is rare."""
    digest: str = ""
    trace: str = ""
    level: str = "objects"

    @property
    def command(self) -> str:
        level = "" if self.level == "objects" else f" --level {self.level}"
        return f"ottla sim --seed {self.schedule.seed} --profile {self.schedule.profile}{level}"


def run_seed(seed: int, profile: str = ALL, *, traced: bool = False) -> Result:
    """The run of a seed."""
    return run(draw(seed, profile_of(seed, profile)), traced=traced)


def run(schedule: Schedule, *, traced: bool = False) -> Result:
    """Run a schedule. Whatever goes wrong is in the result."""
    result = Result(schedule)
    began = time.process_time()
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    collects = gc.isenabled()
    gc.disable()  # a run makes little garbage that goes round in circles, and takes less than a second
    try:
        with World(schedule.seed, trace_lines_max=TRACED_LINES if traced else 0) as world:
            _Run(world, schedule, result).work()
    except Violation as violation:
        result.violation = str(violation)
    finally:
        logging.disable(level)
        if collects:
            gc.enable()
    result.events, result.seconds = world.events, time.process_time() - began
    result.counts = dict(world.counts)
    result.digest, result.trace = world.trace.digest(), str(world.trace)
    return result


class _Run:
    """One cluster, from its first start to the verdict."""

    def __init__(self, world: World, schedule: Schedule, result: Result) -> None:
        self.world = world
        self.schedule = schedule
        self.result = result
        self.profile = profile = PROFILES[schedule.profile]
        self.settings = Settings(
            brokers=profile.brokers,
            partitions=schedule.partitions,
            flushes_before_ack=profile.flushes_before_ack,
            allows_unclean=schedule.is_unclean_allowed,
        )
        self.history = History(lambda: world.now_ms * _NS)
        self.truth = Truth(world.sometimes)
        self.invariants = Invariants(world, self.truth, allows_losses=profile.allows_losses)
        self.store = SimStore(world, session_ms=self.settings.session_ms)
        self.store.on_write = self.invariants.written
        self.brokers = {
            id: SimBroker(world, self.store, id, self.settings, self.invariants.touched)
            for id in range(1, self.settings.brokers + 1)
        }
        self.invariants.brokers = self.brokers
        names = {broker.name: broker for broker in self.brokers.values()}
        self.cluster = Cluster(world, list(names))
        self.admin = Administrator(self.cluster, "admin")
        self.faults = Injection(world, self.store, names, self.invariants, profile)
        self.writers: list[Producer | Transactions] = []

    def work(self) -> None:
        self._begin()
        self._storm()
        lasting = {name: fault.kind for name, fault in self.faults.lasting.items()}
        ending = Ending(self.world, self.brokers, self.invariants, self.writers, lasting)
        ending.settle()
        sentence = ending.judge(self.cluster, self.history)
        self.result.acknowledged = self.cluster.acknowledged
        self.result.losses = self.invariants.losses
        self._note_rarities()
        if sentence is not None and not self.invariants.losses:
            self.world.violate("histories", sentence)

    def _begin(self) -> None:
        for broker in self.brokers.values():
            self.world.after(broker.id * 7, broker.restart)
        done: list[bool] = []
        errand = Work("begin", number=self.schedule.partitions)
        self.world.run_until(lambda: len(self.truth.epochs) == len(self.brokers), BEGIN_MS)
        self.admin.run(errand, lambda: done.append(True))
        if not self.world.run_until(lambda: bool(done) and self._is_begun(), BEGIN_MS):
            self.world.violate("a cluster starts", "it does not")

    def _is_begun(self) -> bool:
        led = [each for each in self.truth.partitions.values() if each.state is not None]
        return len(led) == self.schedule.partitions and all(each.is_whole for each in led)

    def _storm(self) -> None:
        """Faults and work, until everything is healed."""
        world = self.world
        world.network.weather = self.schedule.weather
        for number, work in enumerate(self.schedule.work):
            self._start(number, work)
        for fault in self.schedule.faults:
            self.faults.plan(fault)
        began_ms = world.now_ms
        world.run(began_ms + HEALED_AFTER_MS)
        self.faults.heal()
        world.run(world.now_ms + LAST_WORK_MS)
        self.cluster.is_over = True

    def _start(self, number: int, work: Work) -> None:
        makers: dict[str, Callable[[], object]] = {
            "producer": lambda: self.writers.append(
                Producer(self.cluster, f"p{number}", work, self.history.client())
            ),
            "transactions": lambda: self.writers.append(
                Transactions(
                    self.cluster, f"t{number}", work, self.history.client(), self.schedule.partitions
                )
            ),
            "reader": lambda: Reader(self.cluster, f"r{number}", work, self.history.client()),
        }
        makers.get(work.kind, lambda: self.admin.plan(work))()

    def _note_rarities(self) -> None:
        for _ in range(self.truth.controllers - 1):
            self.world.sometimes("another controller is elected")
