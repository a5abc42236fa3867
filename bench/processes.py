"""Brokers as processes of their own: started, asked for their CPU time and memory, stopped.

A `Side` is what a measurement compares: a build of Ottla, the null broker, Apache Kafka, or librdkafka's mock broker,
which lives inside the client and therefore has no process.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMPILED_TREE = Path(os.environ.get("OTTLA_COMPILED_TREE") or ROOT / "build" / "compiled" / "lib")
IS_QUICK = bool(os.environ.get("QUICK"))
REPETITIONS = 2 if IS_QUICK else 7
# ApiVersions v0 with correlation id 1 and no client id: the smallest question there is.
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff".replace(" ", ""))


class Side(NamedTuple):
    """One of those that take turns."""

    name: str
    port: int
    pid: int


MOCK = Side("mock", 0, 0)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all of its threads, to the nanosecond; 0.0 for the mock.

    Linux numbers the CPU clock of another process by its pid, as clock_getcpuclockid(3) would tell.
    """
    return time.clock_gettime((~pid << 3) | 2) if pid else 0.0


def rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]  # it is always there


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def answers(port: int) -> bool:
    """Does the broker on this port answer ApiVersions? False also while nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(API_VERSIONS)
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def environment(*, compiled: bool) -> dict[str, str]:
    """Which build of Ottla a process sees."""
    tree = COMPILED_TREE if compiled else ROOT
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(tree)}


def ottla_command(directory: Path | str, port: int = 0, *settings: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "start",
        "--port",
        str(port),
        "--data-dir",
        str(directory),
    ]
    for setting in settings:
        command += ["--set", setting]
    return command


def has_compiled_broker() -> bool:
    return (COMPILED_TREE / "ottla" / "cli" / "start.py").exists()


@contextmanager
def started(name: str, command: Sequence[str], env: dict[str, str] | None = None) -> Iterator[Side]:
    """A process that prints a line with its port when it listens, until the block ends."""
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)", line):
                break
        else:
            raise RuntimeError(f"{name} did not start: {' '.join(command)}")
        yield Side(name, int(found[1]), process.pid)
    finally:
        stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Ask it to end, and insist after a while."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def ottla(directory: str, *, compiled: bool = False) -> AbstractContextManager[Side]:
    name = "compiled" if compiled else "pure"
    # Topics are deleted after each turn; pages of theirs that wait to be written would weigh on the next one.
    command = ottla_command(f"{directory}/{name}", 0, "log.segment.delete.delay.ms=1000")
    return started(name, command, environment(compiled=compiled))


def null_broker(directory: str) -> AbstractContextManager[Side]:
    os.makedirs(f"{directory}/null", exist_ok=True)
    return started("null", [sys.executable, "-m", "bench.null_broker", f"{directory}/null"])


def raw_server(directory: str) -> AbstractContextManager[Side]:
    os.makedirs(f"{directory}/raw", exist_ok=True)
    return started("raw", [sys.executable, "-m", "bench.raw_server", f"{directory}/raw"])


@contextmanager
def apache(directory: str) -> Iterator[Side]:
    from tests.oracles.apache_kafka import apache_kafka

    settings = {"log.segment.delete.delay.ms": "1000", "message.max.bytes": str(2 << 20)}
    with apache_kafka(settings, data_dir=Path(directory) / "apache") as broker:
        yield Side("apache", broker.port, broker.pid)


@contextmanager
def all_sides(*wanted: str) -> Iterator[list[Side]]:
    """Those of the named sides that can be had here, and a line about each that cannot."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-"))
        sides = []
        for name in wanted:
            if name == "mock":
                sides.append(MOCK)
            elif name == "compiled" and not has_compiled_broker():
                print("without the compiled build: there is none; `make compiled` makes it")
            else:
                try:
                    sides.append(stack.enter_context(opened(name, directory)))
                except Exception as error:  # a side that is missing leaves the others comparable
                    print(f"without {name}: {str(error).splitlines()[0] if str(error) else error!r}")
        yield sides


def opened(name: str, directory: str) -> AbstractContextManager[Side]:
    if name in ("pure", "compiled"):
        return ottla(directory, compiled=name == "compiled")
    return {"null": null_broker, "raw": raw_server, "apache": apache}[name](directory)
