"""-M: a cluster to try things on. kcat's is a mock inside of its library; these are real brokers, on free ports.

They keep nothing: when stdin ends, or with Ctrl-C, they and their data are gone. A single broker runs in this process,
several in processes of their own. As kcat's mock has it, topics come into being when they are used, with four
partitions.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

BROKERS_MAX = 64
SETTINGS: dict[str, object] = {"num.partitions": 4, "auto.create.topics.enable": True}
_PIECE = 4096


@contextlib.contextmanager
def cluster(count: int) -> Iterator[str]:
    """Where a cluster of so many brokers listens, until the block ends."""
    from ottla.testing import Broker, Cluster

    if count == 1:
        with Broker(config=SETTINGS) as broker:
            yield broker.bootstrap_server
        return
    copies = min(3, count)
    with Cluster(nodes=count, config={**SETTINGS, "default.replication.factor": copies}) as several:
        yield several.bootstrap_servers


def serve(count: int, say: Callable[[str], None]) -> int:
    """Run them until stdin ends. stdout gets one line, `BROKERS=host:port,host:port`."""
    with _told_to_stop(), contextlib.suppress(KeyboardInterrupt), cluster(count) as servers:
        say(f"Cluster started with bootstrap.servers={servers}")
        say("Press Ctrl-C or Ctrl-D to terminate.")
        print(f"BROKERS={servers}", flush=True)
        while os.read(sys.stdin.fileno(), _PIECE):
            pass
        say("Terminating cluster")
    return 0


@contextlib.contextmanager
def _told_to_stop() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, with everything put away."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
