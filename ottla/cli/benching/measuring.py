"""Latencies and rates, and the names under which they are shown.

A megabyte is 1024 * 1024 bytes, as Kafka's own performance tools count. A percentile is the smallest latency that so
many of a hundred did not exceed: one that was measured, not one in between.
"""

from collections.abc import Iterable
from typing import NamedTuple

MEGABYTE = 1024 * 1024
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}
LATENCIES = ["mean", *_PERCENTILES, "max"]


class Latencies(NamedTuple):
    """In milliseconds, in ascending order."""

    sorted_ms: list[float]

    @classmethod
    def of(cls, measured_ms: Iterable[float]) -> "Latencies":
        return cls(sorted(measured_ms))

    def percentile(self, percent: float) -> float | None:
        """None if nothing was measured."""
        if not self.sorted_ms:
            return None
        rank = -(-len(self.sorted_ms) * percent // 100)  # rounded up
        return self.sorted_ms[max(0, int(rank) - 1)]

    def row(self) -> dict[str, float | None]:
        """Mean, percentiles and the worst, by `LATENCIES`."""
        count = len(self.sorted_ms)
        mean = sum(self.sorted_ms) / count if count else None
        marks = {name: self.percentile(percent) for name, percent in _PERCENTILES.items()}
        return {"mean": mean, **marks, "max": self.percentile(100.0)}


class Measured(NamedTuple):
    """What one run has moved, in how many seconds."""

    records: int
    size: int
    """Bytes of values in all."""
    seconds: float
    latencies: Latencies

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.size / MEGABYTE / self.seconds if self.seconds else 0.0
