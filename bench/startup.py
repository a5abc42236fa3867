"""How long does one command take, from the shell's point of view? Against `python -c pass`, in turns.

Elapsed, since that is what somebody waits for, and CPU time, which other programs on the machine do not change. The
broker is in this process and answers from memory. The aims are 150 ms for the help and 350 ms for the list of topics.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from ottla.testing import Broker

REPETITIONS = 20
_RUN = "import sys; from ottla.cli.main import main; sys.exit(main())"


class Took(NamedTuple):
    """Seconds of one run."""

    elapsed: float
    cpu: float


def commands(server: str) -> dict[str, list[str]]:
    return {
        "python -c pass": ["-c", "pass"],
        "import click": ["-c", "import click"],
        "ottla --help": ["-c", _RUN, "--help"],
        "ottla topic ls --help": ["-c", _RUN, "topic", "ls", "--help"],
        "ottla topic ls": ["-c", _RUN, "topic", "ls", "-b", server],
        "ottla topic describe orders": ["-c", _RUN, "topic", "describe", "orders", "-b", server],
        "ottla kafka-topics --list": ["-c", _RUN, "kafka-topics", "--list", "--bootstrap-server", server],
    }


def run(words: list[str], environment: dict[str, str]) -> Took:
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    elapsed, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(elapsed, cpu)


def measure(repetitions: int = REPETITIONS) -> dict[str, list[Took]]:
    """All runs of each command. They take turns, so that a busy moment hits all of them."""
    with Broker() as broker, tempfile.TemporaryDirectory() as nothing:
        broker.create_topic("orders", partitions=6)
        environment = {**os.environ, "OTTLA_CONFIG_DIR": nothing}
        wanted = commands(broker.bootstrap_server)
        found: dict[str, list[Took]] = {name: [] for name in wanted}
        for _ in range(repetitions):
            for name, words in wanted.items():
                found[name].append(run(words, environment))
    return found


def main() -> None:
    found = measure()
    base = statistics.median(each.cpu for each in found["python -c pass"])
    print(f"{'':32}{'best':>8}{'median':>8}{'CPU':>8}{'CPU, against python -c pass':>30}")
    for name, runs in found.items():
        elapsed, cpu = [each.elapsed for each in runs], statistics.median(each.cpu for each in runs)
        print(
            f"{name:32}{min(elapsed) * 1000:5.0f} ms{statistics.median(elapsed) * 1000:5.0f} ms"
            f"{cpu * 1000:5.0f} ms{cpu / base:30.1f}"
        )


if __name__ == "__main__":
    main()
