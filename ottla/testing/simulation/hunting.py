"""Lets the nets loose on a mutant: the explorer in the scope that it names, or the cluster with its seeds."""

from dataclasses import replace
from typing import NamedTuple

from ottla.testing.simulation.cluster.faults import Fault
from ottla.testing.simulation.cluster.profiles import PROFILES
from ottla.testing.simulation.cluster.runner import Result, run
from ottla.testing.simulation.cluster.schedule import FAULTS_FROM_MS, FAULTS_UNTIL_MS, Schedule, draw
from ottla.testing.simulation.explorer.scopes import SCOPES
from ottla.testing.simulation.explorer.search import explore
from ottla.testing.simulation.mutants import Mutant, applied

SEEDS_MAX = 60
"""How many seeds are tried after those that are known to find a mutant: what a seed does changes with the cluster."""
_UNSEAT_EVERY_MS = 170


class Hunt(NamedTuple):
    """What became of a mutant. `evidence` is the shortest trace, or the violation of a seed."""

    mutant: Mutant
    is_caught: bool
    evidence: str

    @property
    def is_as_said(self) -> bool:
        """Was it caught, or found harmless where the table says so?"""
        return self.is_caught != bool(self.mutant.redundant)


def hunt(name: str, seeds_max: int = SEEDS_MAX) -> Hunt:
    """Apply a mutant, and look what its net catches."""
    with applied(name) as mutant:
        if mutant.scope:
            report = explore(SCOPES[mutant.scope])
            return Hunt(mutant, report.violation is not None, str(report))
        for seed in (*mutant.seeds, *range(seeds_max)):
            result = run_for(mutant, seed)
            if result.violation is not None:
                return Hunt(mutant, True, f"{result.command}\n{result.violation}")
    return Hunt(mutant, False, f"nothing in {len(mutant.seeds) + seeds_max} seeds")


def run_for(mutant: Mutant, seed: int) -> Result:
    """The run of a seed in the profile of a mutant, which need not be applied."""
    schedule = draw(seed, PROFILES[mutant.profile])
    return run(_unseating(schedule) if mutant.unseats else schedule)


def _unseating(schedule: Schedule) -> Schedule:
    """The same, and the controller is removed from its seat time and again."""
    times = range(FAULTS_FROM_MS, FAULTS_UNTIL_MS, _UNSEAT_EVERY_MS)
    faults = [*schedule.faults, *(Fault("unseat", at_ms, 0) for at_ms in times)]
    return replace(schedule, faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)))
