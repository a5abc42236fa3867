"""Many schedules at once, in a few processes, and what came of them in one account."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ottla.testing.simulation.brokers import sometimes as sometimes_of_brokers
from ottla.testing.simulation.cluster import sometimes
from ottla.testing.simulation.cluster.profiles import ALL, profile_of
from ottla.testing.simulation.cluster.runner import Result, run_seed
from ottla.testing.simulation.cluster.schedule import draw
from ottla.testing.simulation.world import Violation

Task = tuple[str, int, str]
"""A level, a seed and a profile."""
OBJECTS, BROKERS = "objects", "brokers"
CHUNK = 4
FAILURES_MAX = 20


@dataclass(slots=True)
class Failure:
    """A run that broke a promise, and how to see it again."""

    seed: int
    profile: str
    sentence: str
    command: str


@dataclass(slots=True)
class Account:
    """One profile, all its runs."""

    schedules: int = 0
    events: int = 0
    seconds: float = 0.0
    acknowledged: int = 0
    violations: int = 0
    losses: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Summary:
    """All runs."""

    accounts: dict[str, Account] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    level: str = OBJECTS

    def add(self, result: Result) -> None:
        profile = result.schedule.profile
        account = self.accounts.setdefault(profile, Account())
        account.schedules += 1
        account.events += result.events
        account.seconds += result.seconds
        account.acknowledged += result.acknowledged
        account.losses.update(result.losses)
        self.counts.update(result.counts)
        if result.violation is not None:
            account.violations += 1
            sentence = result.violation.splitlines()[0]
            if len(self.failures) < FAILURES_MAX:
                self.failures.append(Failure(result.schedule.seed, profile, sentence, result.command))

    @property
    def never(self) -> list[str]:
        """What should have happened and did not; nothing if there were too few runs to tell."""
        table = sometimes if self.level == OBJECTS else sometimes_of_brokers
        runs = {name: account.schedules for name, account in self.accounts.items()}
        return table.never(self.counts) if table.is_enough(runs) else []

    @property
    def is_good(self) -> bool:
        return not self.never and not any(account.violations for account in self.accounts.values())


def run_many(
    seeds: Sequence[int],
    profile: str = ALL,
    *,
    level: str = OBJECTS,
    jobs: int = 1,
    on_result: Callable[[Result], None] = lambda result: None,
) -> Summary:
    """Run every seed, `jobs` at a time."""
    summary = Summary(level=level)
    for result in _results([(level, seed, profile) for seed in seeds], jobs):
        summary.add(result)
        on_result(result)
    return summary


def _results(tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    if jobs <= 1:
        yield from map(_run, tasks)
        return
    # Not by fork: whoever calls may have threads.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run, tasks, CHUNK)


def _run(task: Task) -> Result:
    level, seed, profile = task
    return run_seed(seed, profile) if level == OBJECTS else run_brokers(seed, profile)


def run_brokers(seed: int, profile: str = ALL) -> Result:
    """The same with whole brokers, real logs and codecs."""
    from ottla.testing.simulation.brokers import runner

    kind = profile_of(seed, profile)
    result = Result(draw(seed, kind), level=BROKERS)
    began = time.process_time()
    try:
        done = runner.run(seed, kind.name)
    except Violation as violation:
        result.violation = str(violation)
    else:
        result.events, result.acknowledged = done.events, done.acknowledged
        result.counts, result.digest, result.losses = done.counts, done.digest, done.losses
    result.seconds = time.process_time() - began
    return result


def parse_seeds(text: str) -> list[int]:
    """`0-999`, `7`, or `1,5,10-12`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        seeds += _span(int(first), int(last) if dash else int(first))
    return seeds


def _span(first: int, last: int) -> Iterable[int]:
    return range(first, last + 1)
