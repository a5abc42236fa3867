"""Which seeds are run: always the same ones, more of them with OTTLA_SIM_SEEDS=10."""

import os
from collections.abc import Callable

from ottla.testing.simulation.world import Violation

FACTOR = max(1, int(os.environ.get("OTTLA_SIM_SEEDS", "1")))


def seeds(count: int) -> range:
    return range(count * FACTOR)


def first_violation(run: Callable[[int], object], count: int) -> str | None:
    """What the first seed that fails says; None if none of them does."""
    for seed in range(count):
        try:
            run(seed)
        except Violation as violation:
            return str(violation)
    return None
