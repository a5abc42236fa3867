"""Whole clusters on objects, in virtual time: replication, controller, store and clients keep what was promised."""

from pathlib import Path

import pytest

from ottla.replication.leading import Leading
from ottla.testing.simulation.cluster.crowd import Summary, run_many
from ottla.testing.simulation.cluster.profiles import PROFILES
from ottla.testing.simulation.cluster.runner import run, run_seed
from ottla.testing.simulation.cluster.schedule import draw
from ottla.testing.simulation.cluster.shrink import shrink
from ottla.testing.simulation.cluster.sometimes import RUNS_MIN, SOMETIMES
from tests.simulation.seeds import digests, seeds

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
from ottla.testing.simulation.cluster.runner import run_seed
for seed in range(7):
    print(seed, run_seed(seed, traced=True).digest)
"""


@pytest.mark.parametrize("profile", PROFILES)
def test_every_promise_is_kept(profile):
    for seed in seeds(8):
        result = run_seed(10_000 + seed, profile)
        assert result.violation is None, f"{result.command}\n{result.violation}"


def test_a_seed_runs_the_same_way_whatever_strings_hash_to():
    first = digests(PROGRAM, "1")
    assert len(set(first)) == 7
    assert digests(PROGRAM, "2") == first


def test_a_trace_changes_nothing():
    bare, traced = run_seed(3), run_seed(3, traced=True)
    assert (bare.events, bare.acknowledged, bare.counts) == (
        traced.events,
        traced.acknowledged,
        traced.counts,
    )
    assert traced.trace and not bare.trace


def test_a_broken_rule_is_found_and_shrinks(monkeypatch):
    """Whoever is behind may join at once: then somebody without all records is elected."""
    monkeypatch.setattr(Leading, "may_join", lambda *_: True)
    for seed in range(40):
        result = run(draw(seed, PROFILES["default"]))
        if result.violation is not None:
            break
    assert result.violation is not None and "whoever may be elected has everything" in result.violation
    small = shrink(result.schedule)
    assert len(small.faults) < len(result.schedule.faults)
    assert run(small).violation is not None


def test_many_runs_are_one_account():
    summary = run_many(range(4), "default")
    account = summary.accounts["default"]
    assert (account.schedules, account.violations) == (4, 0)
    assert account.events > 4_000 and account.acknowledged > 20
    assert summary.is_good and not summary.never, "too few to say that something never happens"


def test_what_never_happens_fails_when_there_were_runs_enough():
    summary = Summary()
    for name in PROFILES:
        summary.add(run_seed(1, name))
        summary.accounts[name].schedules = RUNS_MIN
    summary.counts.update(list(SOMETIMES))
    assert summary.is_good
    del summary.counts["a follower truncates its log"]
    assert summary.never == ["a follower truncates its log"] and not summary.is_good
