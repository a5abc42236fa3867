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
from ottla.testing.simulation.brokers.admin import Administrator
from ottla.testing.simulation.brokers.clients import TOPIC, Producer, Reader, Told
from ottla.testing.simulation.brokers.ears import listening
from ottla.testing.simulation.brokers.faults import Faults
from ottla.testing.simulation.brokers.invariants import Invariants
from ottla.testing.simulation.brokers.node import SimBroker
from ottla.testing.simulation.brokers.outcomes import Outcomes
from ottla.testing.simulation.brokers.transactions import Transactions
from ottla.testing.simulation.brokers.truth import Truth
from ottla.testing.simulation.cluster.profiles import PROFILES, Profile
from ottla.testing.simulation.cluster.schedule import FAULTS_UNTIL_MS, Schedule, Work, draw
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.wire import Wires
from ottla.testing.simulation.world import World

SESSION_MS = 500
START_MS = 10_000
"""So long the cluster may take to come up, and to have its topic."""
SETTLE_MS = 30_000
"""So long everything may take to be well again after the faults."""
_AFTERWARDS_MS = 600
_STRAGGLERS = 0.15
"""Behind a late message all others of its connection are late, too: so there are fewer of them."""
_SETTINGS: dict[str, object] = {
    "metadata.store.connect": "store:2181",
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.backoff.ms": 3_600_000,
    "log.segment.delete.delay.ms": 500,
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
    losses: list[str] = field(default_factory=list)
    """Why records could be lost."""


def run(seed: int, profile: str = "default", *, brokers: int | None = None) -> Result:
    """Raises Violation. The same seed runs the same way. `brokers` instead of as many as the profile has."""
    kind = PROFILES[profile]
    schedule = draw(seed, kind)
    with World(seed) as world, _alarm(world), listening(world), _without_collector():
        return Run(world, schedule, kind, brokers or kind.brokers).result()


class Run:
    """The parts of a run, and its course."""

    def __init__(self, world: World, schedule: Schedule, profile: Profile, brokers: int) -> None:
        self.world = world
        self.schedule = schedule
        self.profile = profile
        self.wires = Wires(world)
        self.store = SimStore(world, session_ms=SESSION_MS)
        ids = range(1, brokers + 1)
        settings = _settings(profile, brokers, allows_unclean=schedule.is_unclean_allowed)
        by_id = {id: SimBroker(world, self.wires, self.store, id, settings) for id in ids}
        self.brokers = list(by_id.values())
        self.replicas = min(3, brokers)
        self.told = Told(world, self.wires, ids)
        self.history = History(lambda: world.now_ms * 1_000_000)
        self.truth = Truth(world, self.store, by_id, schedule.partitions)
        self.invariants = Invariants(
            world, self.brokers, self.told, self.truth, allows_losses=profile.allows_losses
        )
        by_name = {each.name: each for each in self.brokers}
        self.faults = Faults(
            world, self.store, by_name, self.truth.who, self._may_be_unclean, self.truth.unclean_shutdown
        )
        self.admin = Administrator(self.told)
        self.producers: list[Producer] = []
        self.readers: list[Reader] = []
        self.last: list[Reader] = []
        self.writers: list[Transactions] = []
        there = self.truth.stored.partitions.keys()
        self.outcomes = Outcomes(self.brokers, self.writers, there, self._has_hopeless)
        self.invariants.look_at = self.outcomes.look_at

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
            self.invariants.losses,
        )

    # --- the course ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        created = self.admin.loop.run(self.admin.begin(self.schedule.partitions, self.replicas))
        self._expect("the cluster starts", created.done, START_MS)
        self._expect("all replicas are in sync", lambda: self.truth.is_whole, START_MS)
        self._begin_transactions()
        for number, work in enumerate(self.schedule.work):
            if work.kind == "producer":
                self.producers.append(Producer(self.told, f"p{number}", work, self.history.client()))
            elif work.kind == "reader":
                self.readers.append(Reader(self.told, f"r{number}", work, self.history.client()))

    def _begin_transactions(self) -> None:
        """Not where the log of a coordinator may be lost: nothing can be said of its transactions then."""
        partitions = range(self.schedule.partitions)
        for number, work in enumerate(self.schedule.work):
            if work.kind == "transactions" and not self.profile.allows_losses:
                name = f"t{number}"
                self.writers.append(Transactions(self.told, name, work, self.history.client(), partitions))
        ready = [each.is_ready for each in self.writers]
        self._expect("there are coordinators", lambda: all(is_ready() for is_ready in ready), START_MS)
        self._expect("all replicas are in sync", lambda: self.truth.is_whole, START_MS)

    def _weather_the_storm(self) -> None:
        weather = self.schedule.weather
        self.world.network.weather = weather._replace(straggler=weather.straggler * _STRAGGLERS)
        for work in self.schedule.work:
            self.admin.plan(work)
        self.faults.start(self.schedule)
        self.world.run(self.world.now_ms + FAULTS_UNTIL_MS)
        self.faults.heal()

    def _settle(self) -> None:
        """Everything gets on: moves come to their end, replicas are in sync, whoever writes is acknowledged."""
        self._expect("the administrator comes to an end", lambda: not self.admin.busy, SETTLE_MS)
        if not self.faults.lasting:
            what = "all replicas are where they are to be, and in sync"
            self._expect(what, lambda: self.truth.is_whole, SETTLE_MS, self.truth.trouble)
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
        self._expect("no transaction stays open", self.outcomes.are_all_ended, SETTLE_MS, self.outcomes.open)
        if not self.faults.lasting:
            self._expect("everybody knows which topics there are", self.truth.is_known_to_all, SETTLE_MS)
            self._tidy_up()

    def _tidy_up(self) -> None:
        """What was deleted, or moved away, is on no disk any more."""
        until_ms = self.world.now_ms + SETTLE_MS
        while litter := {node: found for node in self.brokers if (found := self.truth.litter(node))}:
            if self.world.now_ms >= until_ms:
                self.world.violate("nothing is left of what was deleted", str(litter))
            self.world.run(self.world.now_ms + _AFTERWARDS_MS)

    @property
    def _away(self) -> set[int]:
        return {each.id for each in self.brokers if each.name in self.faults.lasting}

    def _is_hopeless(self, partition: int) -> bool:
        """Could only a broker lead it that is held for ever? Then nobody may."""
        return self.truth.is_hopeless(partition, self._away)

    def _has_hopeless(self) -> bool:
        return self.truth.has_hopeless(self._away)

    def _read_everything(self) -> None:
        for partition in range(self.schedule.partitions):
            if self._is_hopeless(partition):
                continue
            until = self._end_of(partition)
            work = Work("reader", partition=partition, read_committed=True)
            client = self.history.client()
            self.last.append(Reader(self.told, f"last{partition}", work, client, until=until))
        self._expect("everything can be read", lambda: all(each.is_done for each in self.last), SETTLE_MS)

    def _end_of(self, partition: int) -> int:
        """How far it can be read, as those say who lead it."""
        led = [each for node in self.brokers for each in node.partitions if each.is_leader]
        here = [each for each in led if each.topic_partition == TopicPartition(TOPIC, partition)]
        return max((each.high_watermark.value for each in here), default=0)

    def _judge(self) -> None:
        if (sentence := self.invariants.check_alike()) is not None:
            self.world.violate("replicas are alike", sentence)
        if not self.invariants.losses:
            hopeless = [each for each in range(self.schedule.partitions) if self._is_hopeless(each)]
            if hopeless:
                self.world.sometimes("only a broker that is away for ever could lead")
            seen = {value for reader in self.last for value in reader.seen}
            if not self._has_hopeless() and (sentence := self.outcomes.judge(seen)) is not None:
                self.world.violate("transactions", sentence)
            report = check(self.history, is_complete=not hopeless)
            if not report.is_valid:
                self.world.violate("the history", str(report))

    def _expect(
        self,
        what: str,
        condition: Callable[[], bool],
        within_ms: int,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        if not self.world.run_until(condition, self.world.now_ms + within_ms):
            self.world.violate(what, f"not within {within_ms} ms: {trouble() or 'it does not happen'}")

    def _may_be_unclean(self) -> bool:
        """One unclean shutdown at a time: the next when everybody is back, and in sync."""
        if not self.profile.one_unclean_at_a_time:
            return True
        return self.truth.is_whole and all(self.world.is_running(each.name) for each in self.brokers)


def _settings(profile: Profile, brokers: int, *, allows_unclean: bool) -> dict[str, object]:
    settings = dict(_SETTINGS)
    settings["default.replication.factor"] = min(3, brokers)
    settings["min.insync.replicas"] = min(2, brokers)
    for topic in ("offsets.topic", "transaction.state.log"):
        settings[f"{topic}.replication.factor"] = min(3, brokers)
    settings["unclean.leader.election.enable"] = allows_unclean
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
