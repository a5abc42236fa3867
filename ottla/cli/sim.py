"""`ottla sim`: a cluster in virtual time, with faults drawn from a seed. One run is printed, many are counted.

Exit codes: 0 every promise was kept, 1 one was broken, or something that must happen somewhere never did, 2 usage.
"""

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.tables import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.testing.simulation.cluster.crowd import Summary
    from ottla.testing.simulation.cluster.runner import Result
    from ottla.testing.simulation.cluster.schedule import Schedule

BROKEN = 1
OBJECTS, BROKERS = "objects", "brokers"
_NAMES = ["profile", "schedules", "events", "events_per_s", "acknowledged", "losses", "violations"]


@click.command()
@click.option("--seed", type=int, help="Run the schedule of this seed, and print it.")
@click.option("--seeds", metavar="A-B", help="Run many, and count: 0-999, or 1,5,7.")
@click.option(
    "--profile", default="all", show_default=True, help="What may go wrong; all: each seed its own."
)
@click.option(
    "--level",
    type=click.Choice([OBJECTS, BROKERS]),
    default=OBJECTS,
    show_default=True,
    help="Logs that are lists, or whole brokers with real logs and codecs.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes for --seeds.")
@click.option("--trace", is_flag=True, help="Print every event, too.")
@click.option("--shrink", "shrinks", is_flag=True, help="Make a schedule that fails as small as it gets.")
@click.option("--schedule", type=click.Path(exists=True, dir_okay=False), help="Run this one, kept as JSON.")
@click.option("--save", type=click.Path(dir_okay=False), help="Keep the schedule as JSON.")
@click.option(
    "--explore", metavar="SCOPE", help="Look at every order of events in a small world; all: in each."
)
@click.option(
    "--mutant", metavar="NAME", help="Switch a fix off, and see who notices; all: each, one by one."
)
def sim(
    seed: int | None,
    seeds: str | None,
    profile: str,
    level: str,
    jobs: int,
    trace: bool,
    shrinks: bool,
    schedule: str | None,
    save: str | None,
    explore: str | None,
    mutant: str | None,
) -> int:
    """Simulate a cluster: crashes, power losses, pauses, cut links, all drawn from a seed.

    The same seed gives the same run. With --seeds many are run, and each that fails is named with the command that runs
    it again. Random search misses rare orders of events: --explore looks at all of them, as far as a small world goes.
    """
    if sum(each is not None for each in (seed, seeds, schedule, explore, mutant)) != 1:
        raise click.UsageError("one of --seed, --seeds, --schedule, --explore and --mutant is needed")
    if level == OBJECTS or explore is not None or mutant is not None:
        _check_build()
    if explore is not None:
        return _explore(explore)
    if mutant is not None:
        return _hunt(mutant)
    _check_profile(profile)
    if seeds is not None:
        return _many(_parsed(seeds), profile, level, jobs)
    if level == BROKERS:
        if seed is None or shrinks or save:
            raise click.UsageError("whole brokers are run by --seed or --seeds only")
        return _one_of_brokers(seed, profile)
    return _one(_schedule(seed, profile, schedule), trace, shrinks, save)


def _check_build() -> None:
    """Compiled classes take real logs only, and no patches."""
    from ottla.records import is_compiled

    if is_compiled():
        raise click.UsageError("the compiled build simulates whole brokers only: add --level brokers")


def _explore(name: str) -> int:
    from ottla.testing.simulation.explorer.scopes import DEEP, SCOPES
    from ottla.testing.simulation.explorer.search import explore

    known = {**SCOPES, **DEEP}
    is_good = True
    for each in SCOPES if name == "all" else [_one_of(known, name, "scope")]:
        report = explore(known[each])
        click.echo(str(report))
        is_good = is_good and report.violation is None
    return 0 if is_good else BROKEN


def _hunt(name: str) -> int:
    from ottla.testing.simulation.hunting import hunt
    from ottla.testing.simulation.mutants import MUTANTS

    is_good = True
    for each in MUTANTS if name == "all" else [_one_of(MUTANTS, name, "mutant")]:
        found = hunt(each)
        verdict = "caught" if found.is_caught else "not caught"
        reason = f": {found.mutant.redundant}" if found.mutant.redundant else ""
        click.echo(f"{each} ({found.mutant.sentence}) is {verdict}{reason}")
        if name != "all":
            click.echo(found.evidence)
        is_good = is_good and found.is_as_said
    return 0 if is_good else BROKEN


def _one_of(known: "Mapping[str, object]", name: str, what: str) -> str:
    if name not in known:
        raise click.UsageError(f"there is no {what} {name!r}, but {', '.join(known)}, and all")
    return name


def _check_profile(name: str) -> None:
    from ottla.testing.simulation.cluster.profiles import ALL, PROFILES

    if name not in (ALL, *PROFILES):
        known = "; ".join(f"{each.name} ({each.sentence})" for each in PROFILES.values())
        raise click.UsageError(f"there is no profile {name!r}, but all, {known}")


def _parsed(seeds: str) -> list[int]:
    from ottla.testing.simulation.cluster.crowd import parse_seeds

    try:
        return parse_seeds(seeds)
    except ValueError:
        raise click.UsageError(f"{seeds!r} is no list of seeds such as 0-999") from None


def _schedule(seed: int | None, profile: str, path: str | None) -> "Schedule":
    from ottla.testing.simulation.cluster.profiles import profile_of
    from ottla.testing.simulation.cluster.schedule import Schedule, draw

    if path is None:
        assert seed is not None
        return draw(seed, profile_of(seed, profile))
    try:
        return Schedule.from_json(Path(path).read_text())
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path} is no schedule: {error}") from None


def _one(schedule: "Schedule", trace: bool, shrinks: bool, save: str | None) -> int:
    from ottla.testing.simulation.cluster.runner import run
    from ottla.testing.simulation.cluster.shrink import shrink

    result = run(schedule, traced=True)
    if shrinks and result.violation is not None:
        schedule = shrink(schedule)
        result = run(schedule, traced=True)
    if save is not None:
        Path(save).write_text(schedule.to_json() + "\n")
    click.echo(str(schedule))
    if trace:
        click.echo(result.trace)
    for name, count in sorted(result.counts.items()):
        click.echo(f"{count:>7}  {name}")
    for reason in result.losses:
        click.echo(f"records were lost, which the promise allows: {reason}")
    click.echo(f"{result.events} events, {result.acknowledged} records acknowledged, digest {result.digest}")
    if result.violation is None:
        click.echo("every promise was kept")
        return 0
    click.echo(result.violation.splitlines()[0] if trace else result.violation)
    return BROKEN


def _many(seeds: list[int], profile: str, level: str, jobs: int) -> int:
    from ottla.testing.simulation.cluster.crowd import run_many

    began = time.monotonic()
    with _progress(len(seeds)) as step:
        summary = run_many(seeds, profile, level=level, jobs=jobs, on_result=step)
    _report(summary)
    click.echo(f"{len(seeds)} schedules in {time.monotonic() - began:.1f} s")
    return 0 if summary.is_good else BROKEN


def _report(summary: "Summary") -> None:
    rows = [
        {
            "profile": name,
            "schedules": account.schedules,
            "events": account.events,
            "events_per_s": int(account.events / max(account.seconds, 1e-9)),
            "acknowledged": account.acknowledged,
            "losses": account.losses.total(),
            "violations": account.violations,
        }
        for name, account in sorted(summary.accounts.items())
    ]
    show(rows, _NAMES)
    for name, count in sorted(summary.counts.items()):
        click.echo(f"{count:>9}  {name}")
    for name in summary.never:
        click.echo(f"never happened: {name}")
    for failure in summary.failures:
        click.echo(f"{failure.sentence}\n  {failure.command}")


@contextmanager
def _progress(total: int) -> "Iterator[Callable[[Result], None]]":
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda result: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True) as bars:
        task = bars.add_task("schedules", total=total)
        yield lambda result: bars.advance(task)


def _one_of_brokers(seed: int, profile: str) -> int:
    from ottla.testing.simulation.cluster.crowd import run_brokers

    result = run_brokers(seed, profile)
    click.echo(str(result.schedule))
    for name, count in sorted(result.counts.items()):
        click.echo(f"{count:>7}  {name}")
    for reason in result.losses:
        click.echo(f"records were lost, which the promise allows: {reason}")
    click.echo(f"{result.events} events, {result.acknowledged} records acknowledged, digest {result.digest}")
    click.echo("every promise was kept" if result.violation is None else result.violation)
    return 0 if result.violation is None else BROKEN
