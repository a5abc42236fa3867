"""Many connections that say nothing: what they cost a broker, and what the others notice of them."""

import resource
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from ottla.protocol.messages.metadata import MetadataRequest
from tests.scenarios.process import BrokerProcess
from tests.scenarios.raw import Raw

_QUESTIONS = 200
_MS = 1000


class Cost(NamedTuple):
    connections: int
    bytes_each: float
    rss_mb: float
    median_ms_before: float
    median_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return (
            f"{self.connections} idle connections: {self.bytes_each / 1024:.1f} KB each, "
            f"broker RSS {self.rss_mb:.0f} MB; Metadata p50 {self.median_ms:.2f} ms "
            f"({self.median_ms_before:.2f} ms without them), p99 {self.p99_ms:.2f} ms"
        )


def cost_of(count: int, directory: Path) -> Cost:
    """Open so many connections, have each say who it is, and leave them alone."""
    _allow_files(count + 500)
    with BrokerProcess(directory) as broker, Raw(broker.port) as asker:
        median_before = statistics.median(_latencies(asker))
        before = broker.rss_bytes
        connections = [Raw(broker.port) for _ in range(count)]
        for each in connections:
            assert each.is_served()
        after = broker.rss_bytes
        latencies = sorted(_latencies(asker))
        for each in connections:
            assert each.is_served(), "it is still there"
            each.socket.close()
    return Cost(
        count,
        (after - before) / count,
        after / 1e6,
        median_before,
        statistics.median(latencies),
        latencies[len(latencies) * 99 // 100],
    )


def _latencies(asker: Raw) -> list[float]:
    taken = []
    for _ in range(_QUESTIONS):
        started = time.perf_counter()
        asker.ask(MetadataRequest(topics=[]), 8)
        taken.append((time.perf_counter() - started) * _MS)
    return taken


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(count, soft), hard), hard))
