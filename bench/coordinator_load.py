"""How long does a coordinator load what it knows? A start with 100,000 committed offsets beside one with a few.

All offsets lie in one partition of `__consumer_offsets`. A start lasts from the birth of the process, as the kernel
noted it, until the offsets of the last group are answered: until then the answer is COORDINATOR_LOAD_IN_PROGRESS. The
same broker with one offset in it is what is taken off.
"""

import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.coordinator_client import check_commit, commit_frame, ready
from bench.coordinator_sides import broker, names_here
from bench.processes import IS_QUICK, Side, cpu_seconds
from bench.table import Aim, Figure, Seen, alternate, show
from bench.wire import create_topic, exchange, frame_of
from ottla.protocol.framing import decode_response
from ottla.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchResponse

TOPIC, PARTITIONS = "loaded", 100
GROUPS = {"full": 100 if IS_QUICK else 1000, "empty": 1}
OFFSET_FETCH = (9, 8)
STARTS = 2 if IS_QUICK else 5
POLL_SECONDS = 0.002
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


def group_id(number: int) -> str:
    return f"loaded-{number}"


def fill(port: int, groups: int) -> None:
    """Every group commits an offset for every partition, in one request."""
    create_topic(port, TOPIC, PARTITIONS)
    ready(port, [group_id(0)])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for number in range(groups):
            check_commit(exchange(connection, commit_frame(group_id(number), TOPIC, range(PARTITIONS), 1000)))


def seconds_until_loaded(side: Side, groups: int) -> float:
    """Ask for the last group until it is answered, with all of its offsets."""
    wanted = OffsetFetchRequest.Group(group_id=group_id(groups - 1), topics=None)
    frame = frame_of(OFFSET_FETCH, OffsetFetchRequest(groups=[wanted]))
    with socket.create_connection(("127.0.0.1", side.port), timeout=60) as connection:
        while True:
            reply = bytes(exchange(connection, frame))
            found = decode_response(OffsetFetchResponse, reply, OFFSET_FETCH[1])[1].groups[0]
            if found.error_code == 0:
                break
            time.sleep(POLL_SECONDS)
    age = age_of(side.pid)
    count = sum(len(topic.partitions) for topic in found.topics)
    assert count == PARTITIONS, f"{count} offsets instead of {PARTITIONS}"
    return age


def age_of(pid: int) -> float:
    """Seconds since the process began, to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def peak_rss(pid: int) -> float:
    """Megabytes."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1000  # type: ignore[index]  # it is always there


@contextmanager
def ended_cleanly(name: str, directory: str) -> Iterator[Side]:
    """A broker that may close its logs: else it would also have to check them at its next start."""
    with broker(name, directory, ONE_PARTITION) as side:
        yield side
        os.kill(side.pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while is_running(side.pid) and time.monotonic() < deadline:
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether it is there, and not only waited for."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def load(base: str, name: str) -> Seen:
    """One start of each kind; the difference is the loading."""
    seen: Seen = {}
    for kind, groups in GROUPS.items():
        with ended_cleanly(name, f"{base}/{name}-{kind}") as side:
            seen[f"{kind}_seconds"] = seconds_until_loaded(side, groups)
            seen[f"{kind}_cpu"] = cpu_seconds(side.pid)
            seen[f"{kind}_rss"] = peak_rss(side.pid)
    return {
        "seconds": seen["full_seconds"] - seen["empty_seconds"],
        "cpu": seen["full_cpu"] - seen["empty_cpu"],
        "rss": seen["full_rss"] - seen["empty_rss"],
        "start_seconds": seen["full_seconds"],
        "peak_rss": seen["full_rss"],
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as base:
        sides = []
        for name in names_here():
            for kind, groups in GROUPS.items():
                with ended_cleanly(name, f"{base}/{name}-{kind}") as side:
                    fill(side.port, groups)
            sides.append(Side(name, 0, 0))
        series = alternate(sides, lambda side, _: load(base, side.name), STARTS)
    show(
        f"loading {GROUPS['full'] * PARTITIONS:,} offsets",
        series,
        Figure("seconds", "seconds", (Aim(at_most=3),)),
        Figure("cpu", "seconds of CPU time"),
        Figure("start_seconds", "seconds, the start included"),
        Figure("rss", "MB more at the peak"),
        Figure("peak_rss", "MB of RSS at the peak"),
    )


if __name__ == "__main__":
    main()
