"""Three whole brokers in virtual time: the real log, frames and handlers, and all that can go wrong around them."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ottla.replication.leading import Leading
from ottla.replication.partition import Partition
from ottla.testing.simulation.brokers.runner import run
from tests.simulation.seeds import first_violation, seeds

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
from ottla.testing.simulation.brokers.runner import run
for seed in (3, 4, 5):
    print(run(seed, "default").digest)
"""
USUAL = {"an in-sync replica is elected", "an ISR shrinks", "an ISR grows"}
HAPPENS = {
    "default": {*USUAL, "another controller is elected", "a clean shutdown", "a producer is refused (6)"},
    "power": {*USUAL, "power"},
    "flush": {*USUAL, "power", "blackout"},
    "stragglers": USUAL,
    "forever": {"an ISR shrinks"},
    "moves": {"an ISR shrinks"},
    "unlimited": {"an acknowledged record was lost, which was allowed"},
}


@pytest.mark.parametrize("profile", HAPPENS)
def test_what_was_acknowledged_stays_and_everybody_gets_on(profile):
    counts: Counter[str] = Counter()
    for seed in seeds(8):
        counts.update(run(seed, profile).counts)
    assert counts.keys() >= HAPPENS[profile], "a run in which nothing happens finds nothing"


def digests(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()


def test_a_seed_runs_the_same_way_whatever_strings_hash_to():
    first = digests("1")
    assert len(set(first)) == 3
    assert digests("2") == first


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (Leading, "committed_to", lambda self, end: end),
        (Partition, "divergence", lambda self, *_: None),
    ],
    ids=["a leader commits alone", "logs that part are not told"],
)
def test_a_bug_is_found(monkeypatch, owner, name, replacement):
    assert hasattr(owner, name)
    monkeypatch.setattr(owner, name, replacement)
    assert first_violation(lambda seed: run(seed, "default"), 40) is not None
