"""One integer is enough to see a run again: on another machine, in another process, whatever strings hash to."""

from pathlib import Path

import pytest

from tests.simulation.members import ClassicMember, ConsumerMember
from tests.simulation.seeds import digests
from tests.simulation.test_groups import run_group
from tests.simulation.test_transactions import run_copiers

ROOT = Path(__file__).parent.parent.parent
RUNS = {
    "classic": lambda seed: run_group(ClassicMember, seed),
    "consumer": lambda seed: run_group(ConsumerMember, seed),
    "copiers": run_copiers,
}
PROGRAM = """
from tests.simulation.test_reproducibility import RUNS
for name, run in RUNS.items():
    for seed in (3, 4):
        print(name, seed, run(seed).world.trace.digest())
"""


def test_a_seed_runs_the_same_way_whatever_strings_hash_to():
    first = digests(PROGRAM, "1")
    assert len(set(first)) == 6
    assert digests(PROGRAM, "2") == first


@pytest.mark.parametrize("name", RUNS)
def test_the_storms_reach_what_they_are_meant_to_reach(name):
    """A simulation in which nothing happens finds nothing."""
    runs = [RUNS[name](seed) for seed in range(8)]
    assert sum(cluster.group_log.epoch for cluster in runs) > 8, "failovers"
    lines = [line.text for cluster in runs for line in cluster.world.trace.lines]
    for what in ("crashes", "is paused", "cut ", "lost", "has loaded", "NOT_COORDINATOR"):
        assert any(what in text for text in lines), what
    if name == "copiers":
        assert sum(cluster.transaction_log.epoch for cluster in runs) > 8
        outcomes = [outcome for cluster in runs for outcome in cluster.ledger.outcomes.values()]
        assert outcomes.count(False) > 20 and outcomes.count(True) > 100
        assert any("INVALID_PRODUCER_EPOCH" in text or "PRODUCER_FENCED" in text for text in lines), "fencing"
