"""Which seeds are run: always the same ones, more of them with OTTLA_SIM_SEEDS=10."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ottla.testing.simulation.world import Violation

ROOT = Path(__file__).parent.parent.parent
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


def digests(program: str, hash_seed: str) -> list[str]:
    """What a program prints in a process of its own, in which strings hash otherwise."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()
