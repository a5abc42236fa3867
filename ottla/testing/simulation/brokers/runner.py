"""One run of whole brokers from one seed: a schedule of faults, clients, a calm end, and a judgement."""

import contextlib
import gc
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.core.errors import OttlaError
from ottla.core.ids import TopicPartition
from ottla.testing.checker import check
from ottla.testing.history import History
from ottla.testing.simulation.brokers.clients import TOPIC, Client, Producer, Reader, Told
from ottla.testing.simulation.brokers.faults import Faults
from ottla.testing.simulation.brokers.invariants import Invariants
from ottla.testing.simulation.brokers.node import SimBroker
from ottla.testing.simulation.brokers.truth import Truth, Witness
from ottla.testing.simulation.cluster.profiles import PROFILES, Profile
from ottla.testing.simulation.cluster.schedule import FAULTS_UNTIL_MS, Schedule, Work, draw
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.wire import Wires
from ottla.testing.simulation.world import World

SESSION_MS = 1_200
START_MS = 10_000
"""So long the cluster may take to come up, and to have its topic."""
SETTLE_MS = 30_000
"""So long everything may take to be well again after the faults."""
_AFTERWARDS_MS = 600
_STRAGGLERS = 0.15
"""Behind a late message all others of its connection are late, too: so there are fewer of them."""
_SETTINGS: dict[str, object] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "log.cleaner.backoff.ms": 3_600_000,
    "replica.lag.time.max.ms": 1_000,
    "replica.fetch.wait.max.ms": 200,
    "replica.fetch.backoff.ms": 100,
    "replica.socket.timeout.ms": 1_000,
}


@dataclass(slots=True)
class Result:
    """What came of a run that found nothing wrong."""

    seed: int
    profile: str
    virtual_ms: int
    events: int
    acknowledged: int
    read: int
    elections: int
    digest: str
    counts: dict[str, int] = field(default_factory=dict)
    """How often what is rare has happened."""


def run(seed: int, profile: str = "default", *, brokers: int | None = None) -> Result:
    """Raises Violation. The same seed runs the same way. `brokers` instead of as many as the profile has."""
    kind = PROFILES[profile]
    schedule = draw(seed, kind)
    with World(seed) as world, _alarm(world), _without_collector():
        return Run(world, schedule, kind, brokers or kind.brokers).result()


class Run:
    """The parts of a run, and its course."""

    def __init__(self, world: World, schedule: Schedule, profile: Profile, brokers: int) -> None:
        self.world = world
        self.schedule = schedule
        self.profile = profile
        self.wires = Wires(world)
        self.store = SimStore(world, session_ms=SESSION_MS)
        Witness(world, self.store)
        ids = range(1, brokers + 1)
        settings = _settings(profile, brokers)
        self.brokers = [SimBroker(world, self.wires, self.store, id, settings) for id in ids]
        self.replicas = min(3, brokers)
        self.told = Told(world, self.wires, ids, allows_losses=profile.allows_losses)
        self.history = History(lambda: world.now_ms * 1_000_000)
        allows = profile.allows_losses
        self.invariants = Invariants(world, self.brokers, self.told, allows_losses=allows)
        self.truth = Truth(self.store, self.brokers, partitions=schedule.partitions, replicas=self.replicas)
        by_name = {each.name: each for each in self.brokers}
        self.faults = Faults(world, self.store, by_name, self.truth.who, self._may_be_unclean)
        self.producers: list[Producer] = []
        self.readers: list[Reader] = []

    def result(self) -> Result:
        self._begin()
        self._weather_the_storm()
        self._settle()
        self._read_everything()
        self._judge()
        world = self.world
        return Result(
            world.seed,
            self.profile.name,
            world.now_ms,
            world.events,
            sum(len(each) for each in self.told.acknowledged.values()),
            sum(each.read for each in self.readers),
            len(self.invariants.leaders),
            world.trace.digest(),
            {**world.counts, **self.faults.struck},
        )

    # --- the course ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        admin = Client(self.told, "admin")
        created = admin.loop.run(admin.create_topic(self.schedule.partitions, self.replicas))
        self._expect("the cluster starts", created.done, START_MS)
        self._expect("all replicas are in sync", lambda: self.truth.is_whole, START_MS)
        for number, work in enumerate(self.schedule.work):
            if work.kind == "producer":
                self.producers.append(Producer(self.told, f"p{number}", work, self.history.client()))
            elif work.kind == "reader":
                self.readers.append(Reader(self.told, f"r{number}", work, self.history.client()))

    def _weather_the_storm(self) -> None:
        weather = self.schedule.weather
        self.world.network.weather = weather._replace(straggler=weather.straggler * _STRAGGLERS)
        self.faults.start(self.schedule)
        self.world.run(self.world.now_ms + FAULTS_UNTIL_MS)
        self.faults.heal()

    def _settle(self) -> None:
        """Everything gets on: replicas are in sync, whoever writes is acknowledged."""
        if not self.faults.lasting:
            self._expect("all replicas are in sync again", lambda: self.truth.is_whole, SETTLE_MS)
        before = {each.name: each.acknowledged for each in self.producers}
        self._expect(
            "everybody who writes is acknowledged",
            lambda: all(
                each.acknowledged > before[each.name] or self._is_hopeless(each.partition)
                for each in self.producers
            ),
            SETTLE_MS,
        )
        self.world.run(self.world.now_ms + _AFTERWARDS_MS)
        self.told.is_over = True
        self._expect(
            "nothing is left undone",
            lambda: all(each.is_idle for each in self.producers),
            SETTLE_MS,
        )

    def _is_hopeless(self, partition: int) -> bool:
        """Could only a broker lead it that is held for ever? Then nobody may."""
        away = {each.id for each in self.brokers if each.name in self.faults.lasting}
        return self.truth.is_hopeless(partition, away)

    def _read_everything(self) -> None:
        last = []
        for partition in range(self.schedule.partitions):
            if self._is_hopeless(partition):
                continue
            until = self._end_of(partition)
            work = Work("reader", partition=partition)
            last.append(Reader(self.told, f"last{partition}", work, self.history.client(), until=until))
        self._expect("everything can be read", lambda: all(each.is_done for each in last), SETTLE_MS)

    def _end_of(self, partition: int) -> int:
        """How far it can be read, as those say who lead it."""
        led = [each for node in self.brokers for each in node.partitions if each.is_leader]
        here = [each for each in led if each.topic_partition == TopicPartition(TOPIC, partition)]
        return max((each.high_watermark.value for each in here), default=0)

    def _judge(self) -> None:
        if (sentence := self.invariants.check_alike()) is not None:
            self.world.violate("replicas are alike", sentence)
        if not self.profile.allows_losses:
            hopeless = [each for each in range(self.schedule.partitions) if self._is_hopeless(each)]
            if hopeless:
                self.world.sometimes("only a broker that is away for ever could lead")
            report = check(self.history, is_complete=not hopeless)
            if not report.is_valid:
                self.world.violate("the history", str(report))

    def _expect(self, what: str, condition: Callable[[], bool], within_ms: int) -> None:
        if not self.world.run_until(condition, self.world.now_ms + within_ms):
            self.world.violate(what, f"not within {within_ms} ms")

    def _may_be_unclean(self) -> bool:
        """One unclean shutdown at a time: the next when everybody is back, and in sync."""
        if not self.profile.one_unclean_at_a_time:
            return True
        return self.truth.is_whole and all(self.world.is_running(each.name) for each in self.brokers)


def _settings(profile: Profile, brokers: int) -> dict[str, object]:
    settings = dict(_SETTINGS)
    settings["default.replication.factor"] = min(3, brokers)
    settings["min.insync.replicas"] = min(2, brokers)
    if profile.flushes_before_ack:
        settings["log.flush.interval.messages"] = 1
    return settings


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Collections come when they come; a run must not depend on it, and is faster without."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Alarm(logging.Handler):
    """What brokers write to their log about exceptions that nobody foresaw is a violation."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OttlaError | OSError):
            text = logging.Formatter().format(record)
            with contextlib.suppress(AssertionError):
                self._world.violate("unforeseen", text)


@contextlib.contextmanager
def _alarm(world: World) -> Iterator[None]:
    logger, alarm = logging.getLogger("ottla"), _Alarm(world)
    was = logger.level, logger.propagate
    logger.addHandler(alarm)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(alarm)
        logger.setLevel(was[0])
        logger.propagate = was[1]
