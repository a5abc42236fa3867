"""Turns, medians and ratios: measurements of several sides that alternate, and the lines that are printed of them."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from bench.processes import REPETITIONS, ROOT

Seen = dict[str, float]
Series = dict[str, dict[str, list[float]]]  # figure, side, one value per repetition
OURS = ("pure", "compiled")


class Named(Protocol):
    """What takes turns."""

    @property
    def name(self) -> str: ...


Turning = TypeVar("Turning", bound=Named)


class Aim(NamedTuple):
    """Ours is to be at least or at most so much; with `against`, so many times what another side has."""

    against: str = ""
    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        return f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"

    def is_missed(self, found: float) -> bool:
        is_low = self.at_least is not None and found < self.at_least
        return is_low or (self.at_most is not None and found > self.at_most)


class Figure(NamedTuple):
    """What is printed of one figure, and what it is held against."""

    key: str
    unit: str
    aims: tuple[Aim, ...] = ()


def run(module: str, *, env: dict[str, str] | None = None, **arguments: object) -> Seen:
    """One measurement in a client process of its own."""
    command = [sys.executable, "-m", module, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    found: Seen = json.loads(done.stdout)
    return found


def alternate(
    sides: Sequence[Turning], work: Callable[[Turning, int], Seen], repetitions: int = REPETITIONS
) -> Series:
    """Let the sides take turns, each time in another order. A side that fails is out, with a line that says why."""
    series: Series = {}
    failed: set[str] = set()
    for turn in range(repetitions):
        order = [*sides[turn % len(sides) :], *sides[: turn % len(sides)]]
        for side in order:
            if side.name in failed:
                continue
            try:
                seen = work(side, turn)
            except (RuntimeError, AssertionError, OSError, subprocess.TimeoutExpired) as error:
                print(f"    {side.name} failed: {error}", flush=True)
                failed.add(side.name)
                continue
            for key, value in seen.items():
                series.setdefault(key, {}).setdefault(side.name, []).append(value)
    for values in series.values():
        for name in failed:
            values.pop(name, None)
    return series


def show(what: str, series: Series, *figures: Figure) -> None:
    """Medians of every side, and below them ours beside the aims, with the lowest and the highest."""
    for figure in figures:
        values = series.get(figure.key, {})
        medians = "  ".join(f"{name} {number(statistics.median(each))}" for name, each in values.items())
        print(f"{what + ', ' + figure.unit:<72} {medians}", flush=True)
        for aim in figure.aims:
            for name in values:
                if name.startswith(OURS) and (not aim.against or aim.against in values):
                    judge(name, values, aim)


def judge(name: str, values: dict[str, list[float]], aim: Aim) -> None:
    if aim.against:
        found = [a / b for a, b in zip(values[name], values[aim.against], strict=True) if b]
        name = f"{name} / {aim.against}"
    else:
        found = values[name]
    if found:
        verdict = ", MISSED" if aim.is_missed(statistics.median(found)) else ""
        print(f"    {name}: {spread(found)} (aim: {aim}{verdict})", flush=True)


def spread(values: list[float]) -> str:
    return f"{number(statistics.median(values))} [{number(min(values))} - {number(max(values))}]"


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
