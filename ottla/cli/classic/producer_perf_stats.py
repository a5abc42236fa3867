"""What kafka-producer-perf-test prints: rates and latencies, in lines that people parse.

A megabyte is 1024 * 1024 bytes. Of latencies, at most half a million are kept, evenly spread over the records.
"""

import asyncio
import time

_MEGABYTE = 1024 * 1024
_MS = 1000.0
_KEPT_MAX = 500_000
_PERCENTILES = (0.5, 0.95, 0.99, 0.999)
_SLEEP_SECONDS_MIN = 0.002  # shorter pauses are saved up: to sleep takes longer than that


class Stats:
    """Of one run. Prints a line every `interval_ms`, unless it is quiet."""

    def __init__(self, interval_ms: int, *, is_quiet: bool = False) -> None:
        self._interval, self._is_quiet = interval_ms / _MS, is_quiet
        self._started = self._window_started = time.perf_counter()
        self.count = self._size = 0
        self._latency_ms = self._latency_ms_max = 0.0
        self._kept: list[int] = []
        self._stride = 1
        self._window_count = self._window_size = 0
        self._window_ms = self._window_ms_max = 0.0

    def start(self) -> None:
        self._started = self._window_started = time.perf_counter()

    def record(self, sent: float, now: float, count: int, size: int) -> None:
        """So many records, of so many bytes in all, were acknowledged: they were handed in together."""
        if not count:
            return
        latency_ms = round((now - sent) * _MS)
        self._keep(latency_ms, count)
        self.count += count
        self._size += size
        self._latency_ms += latency_ms * count
        self._latency_ms_max = max(self._latency_ms_max, latency_ms)
        self._window_count += count
        self._window_size += size
        self._window_ms += latency_ms * count
        self._window_ms_max = max(self._window_ms_max, latency_ms)
        if not self._is_quiet and now - self._window_started >= self._interval:
            self._print_window(now)

    def _keep(self, latency_ms: int, count: int) -> None:
        """Every so-manieth of them."""
        kept = (self.count + count) // self._stride - self.count // self._stride
        self._kept += [latency_ms] * kept
        while len(self._kept) >= _KEPT_MAX:
            self._kept = self._kept[::2]
            self._stride *= 2

    def _print_window(self, now: float) -> None:
        elapsed = now - self._window_started
        print(
            f"{self._window_count} records sent, {self._window_count / elapsed:.1f} records/sec "
            f"({self._window_size / elapsed / _MEGABYTE:.2f} MB/sec), "
            f"{self._window_ms / self._window_count:.1f} ms avg latency, "
            f"{self._window_ms_max:.1f} ms max latency.",
            flush=True,
        )
        self._window_started = now
        self._window_count = self._window_size = 0
        self._window_ms = self._window_ms_max = 0.0

    def total(self, what: str = "records sent") -> str:
        """The last line."""
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        mean = self._latency_ms / self.count if self.count else float("nan")
        marks = ", ".join(
            f"{value} ms {name}"
            for value, name in zip(self._percentiles(), ("50th", "95th", "99th", "99.9th"), strict=True)
        )
        return (
            f"{self.count} {what}, {self.count / elapsed:.6f} records/sec "
            f"({self._size / elapsed / _MEGABYTE:.2f} MB/sec), "
            f"{mean:.2f} ms avg latency, {self._latency_ms_max:.2f} ms max latency, {marks}."
        ).replace("nan", "NaN")

    def _percentiles(self) -> list[int]:
        kept = sorted(self._kept)
        if not kept:
            return [0] * len(_PERCENTILES)
        return [kept[min(int(share * len(kept)), len(kept) - 1)] for share in _PERCENTILES]


def steady_state(stats: Stats) -> str:
    """What was left behind the warmup."""
    return stats.total("steady state records sent")


class Throttle:
    """Holds back whoever is faster than so many records a second; below 0 nobody."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._started = time.perf_counter()

    async def allowed(self, count: int, most: int) -> int:
        """How many may be sent now, if `count` were: at least one, when this returns."""
        if self._per_second <= 0:
            return most
        early = count / self._per_second - (time.perf_counter() - self._started)
        if early >= _SLEEP_SECONDS_MIN:
            await asyncio.sleep(early)
        due = int((time.perf_counter() - self._started) * self._per_second) - count
        return max(1, min(most, due))
