"""Three whole brokers in virtual time: the real log, frames and handlers, and all that can go wrong around them."""

from collections import Counter
from pathlib import Path

import pytest

from ottla.broker.upkeep import Upkeep
from ottla.replication.leading import Leading
from ottla.replication.partition import Partition
from ottla.testing.simulation.brokers import sometimes
from ottla.testing.simulation.brokers.runner import run
from ottla.testing.simulation.cluster.profiles import PROFILES
from tests.simulation.seeds import digests, first_violation, seeds

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
from ottla.testing.simulation.brokers.runner import run
for seed in (3, 4, 5):
    print(run(seed, "default").digest)
"""
USUAL = {"an in-sync replica is elected", "an ISR shrinks", "an ISR grows"}
HAPPENS = {
    "default": {
        *USUAL,
        "another controller is elected",
        "a clean shutdown",
        "min-insync: done",
        "elect: done",
    },
    "power": {*USUAL, "power"},
    "flush": {*USUAL, "power", "blackout"},
    "stragglers": USUAL,
    "forever": {"an ISR shrinks"},
    "moves": {*USUAL, "a replica was moved", "a topic is deleted", "create: done"},
    "unlimited": {"committed records are lost, which was allowed"},
}


@pytest.mark.parametrize("profile", HAPPENS)
def test_what_was_acknowledged_stays_and_everybody_gets_on(profile):
    counts: Counter[str] = Counter()
    for seed in seeds(8):
        counts.update(run(seed, profile).counts)
    assert counts.keys() >= HAPPENS[profile], "a run in which nothing happens finds nothing"


def test_what_is_asked_for_is_counted_by_somebody():
    source = "".join(path.read_text() for path in (ROOT / "ottla/testing/simulation").rglob("*.py"))
    for name in sometimes.SOMETIMES:
        fixed = name.partition(" (")[0].partition(":")[0].removesuffix("not done").removesuffix("done")
        assert source.count(fixed) > source.count(f'"{name}": ') or ":" in name, name


def test_too_few_runs_say_nothing():
    assert not sometimes.is_enough({"default": 1_000})
    assert sometimes.is_enough(dict.fromkeys(PROFILES, sometimes.RUNS_MIN))
    assert sometimes.never({}) == list(sometimes.SOMETIMES)


def test_a_seed_runs_the_same_way_whatever_strings_hash_to():
    first = digests(PROGRAM, "1")
    assert len(set(first)) == 3
    assert digests(PROGRAM, "2") == first


@pytest.mark.parametrize(
    ("owner", "name", "replacement", "profile"),
    [
        (Leading, "committed_to", lambda self, end: end, "default"),
        (Partition, "divergence", lambda self, *_: None, "stragglers"),
    ],
    ids=["a leader commits alone", "logs that part are not told"],
)
def test_a_bug_is_found(monkeypatch, owner, name, replacement, profile):
    assert hasattr(owner, name)
    monkeypatch.setattr(owner, name, replacement)
    assert first_violation(lambda seed: run(seed, profile), 40) is not None


def test_a_loss_that_the_promise_covers_is_found_where_losses_are_allowed(monkeypatch):
    monkeypatch.setattr(Leading, "committed_to", lambda self, end: end)
    found = first_violation(lambda seed: run(seed, "unlimited"), 60)
    assert found is not None and "all within the promise" in found


def test_files_that_stay_behind_are_found(monkeypatch):
    async def forget(upkeep):
        return None

    assert hasattr(Upkeep, "remove_deleted_partitions")
    monkeypatch.setattr(Upkeep, "remove_deleted_partitions", forget)
    found = first_violation(lambda seed: run(seed, "moves"), 20)
    assert found is not None and "nothing is left of what was deleted" in found
