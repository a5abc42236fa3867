"""How soon does a broker answer, and how much memory does it hold when nobody asks?

As a process and inside a program; empty and with 2,000 partitions after a clean stop; idle, and with 5,000 connections
that have asked one thing each.
"""

import json
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.processes import (
    API_VERSIONS,
    IS_QUICK,
    ROOT,
    answers,
    cpu_seconds,
    environment,
    free_port,
    has_compiled_broker,
    null_broker,
    ottla,
    ottla_command,
    rss_bytes,
    stop,
)
from bench.table import Aim, Figure, Series, show
from bench.wire import create_topic

STARTS = 3 if IS_QUICK else 11
TOPICS, PARTITIONS_EACH = (2, 100) if IS_QUICK else (20, 100)
CONNECTIONS = 500 if IS_QUICK else 5000
POLL_SECONDS = 0.001
IN_PROCESS = """
import json, sys, time
from bench.processes import answers
from ottla.testing.broker import Broker
times = []
for _ in range({starts}):
    started = time.perf_counter()
    with Broker() as broker:
        assert answers(int(broker.bootstrap_server.rpartition(":")[2]))
        times.append((time.perf_counter() - started) * 1000)
print(json.dumps(times))
"""


def builds() -> list[bool]:
    return [False, *([True] if has_compiled_broker() else [])]


def name_of(compiled: bool) -> str:
    return "compiled" if compiled else "pure"


@contextmanager
def running(command: list[str], env: dict[str, str], port: int) -> Iterator[tuple[int, float]]:
    """The process and the milliseconds until it answered, until the block ends with a clean stop."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, text=True)
    try:
        while not answers(port):
            if process.poll() is not None:
                raise RuntimeError(f"it ended with {process.returncode}: {' '.join(command)}")
            time.sleep(POLL_SECONDS)
        yield process.pid, (time.perf_counter() - started) * 1000
    finally:
        stop(process)


def empty_starts() -> None:
    series: Series = {"ms": {}, "cpu": {}, "rss": {}}
    sides = [name_of(compiled) for compiled in builds()] + ["null"]
    for turn in range(STARTS + 1):
        for name in sides:
            with tempfile.TemporaryDirectory() as directory:
                port = free_port()
                command = ottla_command(directory, port)
                if name == "null":
                    command = [sys.executable, "-m", "bench.null_broker", directory, str(port)]
                with running(command, environment(compiled=name == "compiled"), port) as (pid, ms):
                    seen = {"ms": ms, "cpu": cpu_seconds(pid) * 1000, "rss": rss_bytes(pid) / 1e6}
            if turn:  # the first one may have to compile the sources
                for key, value in seen.items():
                    series[key].setdefault(name, []).append(value)
    what = "start of a process to its first answer"
    show(what, series, Figure("ms", "ms", (Aim(at_most=250),)), Figure("cpu", "ms of CPU time"))
    show("idle", series, Figure("rss", "MB of RSS", (Aim(at_most=45),)))


def in_process_starts() -> None:
    first: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    for compiled in builds():
        for _ in range(2 if IS_QUICK else 5):
            done = subprocess.run(
                [sys.executable, "-c", IN_PROCESS.format(starts=4)],
                cwd=ROOT,
                env={**environment(compiled=compiled), "PYTHONPATH": python_path(compiled)},
                capture_output=True,
                text=True,
                check=True,
            )
            times = json.loads(done.stdout)
            first.setdefault(name_of(compiled), []).append(times[0])
            later.setdefault(name_of(compiled), []).append(statistics.median(times[1:]))
    show("testing.Broker(), the first", {"ms": first}, Figure("ms", "ms", (Aim(at_most=50),)))
    show("testing.Broker(), the next", {"ms": later}, Figure("ms", "ms", (Aim(at_most=50),)))


def python_path(compiled: bool) -> str:
    """The build, and behind it this tree for the measurements themselves."""
    return f"{environment(compiled=compiled)['PYTHONPATH']}:{ROOT}"


def many_partitions() -> None:
    values: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    for compiled in builds():
        with tempfile.TemporaryDirectory() as directory:
            env, port = environment(compiled=compiled), free_port()
            command = ottla_command(directory, port)
            with running(command, env, port):
                for number in range(TOPICS):
                    create_topic(port, f"wide-{number}", PARTITIONS_EACH)
                    write_to_all(port, f"wide-{number}")
            for _ in range(3):
                with running(command, env, port) as (pid, ms):
                    values.setdefault(name_of(compiled), []).append(ms / 1000)
                    memory.setdefault(name_of(compiled), []).append(rss_bytes(pid) / 1e6)
    count = TOPICS * PARTITIONS_EACH
    show(
        f"start with {count} partitions",
        {"s": values, "rss": memory},
        Figure("s", "seconds", (Aim(at_most=5),)),
    )
    show(f"start with {count} partitions", {"rss": memory}, Figure("rss", "MB of RSS"))


def write_to_all(port: int, topic: str) -> None:
    """One batch in every partition: empty logs would open too easily."""
    from bench.stored import batch_of
    from bench.wire import produce_frame, produce_patiently

    batch = batch_of(1, 100)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for partition in range(PARTITIONS_EACH):
            produce_patiently(connection, produce_frame(topic, partition, batch))


def idle_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    series: Series = {"open": {}, "asked": {}}
    with tempfile.TemporaryDirectory() as directory:
        makers = [lambda c=c: ottla(directory, compiled=c) for c in builds()]
        for maker in [*makers, lambda: null_broker(directory)]:
            with maker() as side:
                opened, asked = hold(side.port, side.pid)
                series["open"][side.name], series["asked"][side.name] = [opened], [asked]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    what = f"{CONNECTIONS} idle connections"
    show(what, series, Figure("open", "KB each, just opened", (Aim(at_most=60),)))
    show(what, series, Figure("asked", "KB each, after a request", (Aim(at_most=60),)))


def hold(port: int, pid: int) -> tuple[float, float]:
    """KB per connection, before and after each of them asked which versions there are."""
    answers(port)
    before = rss_bytes(pid)
    connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(CONNECTIONS)]
    answers(port)  # whoever is accepted after them is so behind them
    opened = rss_bytes(pid)
    for each in connections:
        each.sendall(API_VERSIONS)
    for each in connections:
        assert len(each.recv(4096)) > 8
    asked = rss_bytes(pid)
    for each in connections:
        each.close()
    return (opened - before) / 1000 / CONNECTIONS, (asked - before) / 1000 / CONNECTIONS


def main() -> None:
    empty_starts()
    in_process_starts()
    many_partitions()
    idle_connections()


if __name__ == "__main__":
    main()
