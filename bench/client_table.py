"""What clients of several libraries did, as a table: a line for each, and for ours how that stands to the others.

A ratio is the median over the turns, each of which had all of them; `MISSED` where it is not what was aimed at.
"""

import statistics
from collections.abc import Iterable

from bench.table import OURS, Aim, Series, number

THEIRS = ("aiokafka", "kafka-python", "confluent")
FAST = {"aiokafka": 1.0, "kafka-python": 1.0, "confluent": 0.4}
"""How many times as many records a second ours is to have, at least."""


def compare(what: str, series: Series) -> None:
    """Records a second, and CPU time of the client, which others on the machine disturb less."""
    rates, cpu = series.get("rate", {}), series.get("cpu", {})
    present = [name for name in THEIRS if name in rates]
    heads = "".join(f"{'of ' + name:>19}" for name in present)
    print(f"\n{what:<36}{'records/s':>11}{heads}{'CPU us each':>14}{heads}")
    for name in rates:
        line = f"    {name:<32}{number(statistics.median(rates[name])):>11}"
        for values, aims in ((rates, FAST), (cpu, {})):
            if values is cpu:
                line += f"{number(statistics.median(cpu[name])):>14}"
            if name.startswith(OURS):
                line += "".join(f"{_ratio(values, name, other, aims.get(other)):>19}" for other in present)
            elif values is rates:
                line += " " * 19 * len(present)
        print(line, flush=True)


def _ratio(values: dict[str, list[float]], name: str, other: str, at_least: float | None) -> str:
    found = statistics.median(_ratios(values[name], values[other]))
    is_missed = at_least is not None and Aim(at_least=at_least).is_missed(found)
    return f"{number(found)}{' MISSED' if is_missed else ''}"


def _ratios(ours: Iterable[float], theirs: Iterable[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def beside(what: str, series: Series, **figures: str) -> None:
    """Medians of every side, one line for each, without a judgement."""
    heads = "".join(f"{head:>14}" for head in figures.values())
    print(f"\n{what:<50}{heads}")
    for name in series.get(next(iter(figures)), {}):
        cells = "".join(f"{number(statistics.median(series[key][name])):>14}" for key in figures)
        print(f"    {name:<46}{cells}", flush=True)
