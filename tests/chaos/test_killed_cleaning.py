"""`kill -9` of a broker, or of a worker, while logs are compacted: the newest of a key stays, and nothing comes back.

Segments are tiny and several logs are compacted at once, again and again, while clients write, delete and abort. Some
kills wait until a file of a compaction lies on the disk. What a reader saw gone must be gone for good, whatever the
start after a kill had to complete or to undo.

`make chaos` runs more rounds and writes tests/chaos/CLEANING.md.
"""

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ottla.broker.cleaning_worker import MODULE
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log_directory import LogDirectory
from tests.chaos.compacting import compact, create_topic, files_in, verify
from tests.chaos.keyed_check import Checks, read_all
from tests.chaos.keyed_load import PARTITIONS, TOPIC, KeyedLoad
from tests.chaos.processes import BrokerProcess

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4"))
RESULTS = Path(__file__).with_name("CLEANING.md")
SECONDS_MAX = 30.0
MOMENT_SECONDS_MAX = 3.0
SETTINGS = {
    "log.cleaner.threads": 3,
    "log.cleaner.backoff.ms": 5,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "replica.high.watermark.checkpoint.interval.ms": 200,
    "log.flush.offset.checkpoint.interval.ms": 200,
}
RATE = "log.cleaner.io.max.bytes.per.second"
SLOWLY, SLOWER = {RATE: 4 << 20}, {RATE: 1 << 20}
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": 16 << 10,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": 500,
    "file.delete.delay.ms": 100,
}
LEFT = (".cleaned", ".swap", ".deleted")


class Plan(NamedTuple):
    """What happens in a round: who is killed, and which file must lie there at that moment; any, if none is named."""

    victim: str
    moment: str
    pace: dict[str, int]


PLANS = [
    Plan("broker", ".cleaned", SLOWLY),
    Plan("broker", ".swap", {}),
    Plan("worker", ".cleaned", SLOWER),
    Plan("broker", "", SLOWLY),
]


class Round(NamedTuple):
    """What came of it."""

    plan: Plan
    files: Counter[str]
    acknowledged: int
    left: int
    start_s: float


def test_the_newest_of_each_key_outlives_kill_9_in_the_midst_of_compaction(tmp_path):
    data, source = tmp_path / "data", random.Random(5)
    rounds = []
    with BrokerProcess(data, SETTINGS | PLANS[0].pace) as broker:
        asyncio.run(create_topic(broker.port, TOPIC, PARTITIONS, TOPIC_SETTINGS))
        with KeyedLoad(broker.bootstrap_server, seed=5) as load:
            checks = Checks(load, data)
            for number in range(ROUNDS):
                plan = PLANS[number % len(PLANS)]
                broker.settings = SETTINGS | PLANS[(number + 1) % len(PLANS)].pace
                before = load.counts["acknowledged"]
                load.wait_for(source.randint(1_000, 4_000))
                files, start_s = strike(broker, data, plan)
                with load.pause():
                    checks.run(broker.bootstrap_server)
                    if plan.victim == "worker":
                        asyncio.run(compact(broker.port, TOPIC, PARTITIONS))
                acknowledged = load.counts["acknowledged"] - before
                rounds.append(Round(plan, files, acknowledged, checks.records_left, start_s))
                assert verify(data) == "", "while all of it goes on"
            with load.pause():
                asyncio.run(compact(broker.port, TOPIC, PARTITIONS))
                checks.run(broker.bootstrap_server)
                assert_nothing_is_superseded(broker.bootstrap_server)
        workers = workers_of(broker.pid)
        assert broker.terminate() == 0, broker.errors
        assert not any(map(is_running, workers))
        assert "a failure of ours" not in broker.errors
    assert not files_in(data, TOPIC, ".cleaned", ".swap")
    assert verify(data) == ""
    if "OTTLA_CHAOS_ROUNDS" in os.environ:
        RESULTS.write_text(table(rounds, load))


def strike(broker: BrokerProcess, data: Path, plan: Plan) -> tuple[Counter[str], float]:
    """Kill somebody at that moment. What lay there when it was over, and how long a start took."""
    wait_for_moment(data, plan.moment, lambda: plan.victim == "broker" or bool(workers_of(broker.pid)))
    workers = workers_of(broker.pid)
    if plan.victim == "worker":
        files, killed_ns = files_in(data, TOPIC, *LEFT), time.time_ns()
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: not is_running(workers[0]), "it outlives kill -9")
        wait_until(
            lambda: not older_than(files_in(data, TOPIC, ".cleaned", ".swap"), killed_ns), "files stay"
        )
        return suffixes(files), 0.0
    broker.kill()
    wait_until(lambda: not any(map(is_running, workers)), "workers outlive their broker")
    files, killed_ns = files_in(data, TOPIC, *LEFT), time.time_ns()
    check_recovery(data)
    start_s = broker.start()
    assert not older_than(files_in(data, TOPIC, *LEFT), killed_ns), "a start leaves none of these"
    return suffixes(files), start_s


def wait_for_moment(data: Path, suffix: str, is_possible: Callable[[], bool]) -> None:
    """Not for ever: some moments are short."""
    deadline = time.monotonic() + MOMENT_SECONDS_MAX
    while time.monotonic() < deadline:
        if (not suffix or files_in(data, TOPIC, suffix)) and is_possible():
            return


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)


# --- files ----------------------------------------------------------------------------------------------------------


def suffixes(files: list[Path]) -> Counter[str]:
    return Counter(path.suffix for path in files)


def older_than(files: list[Path], moment_ns: int) -> list[Path]:
    """Those that nobody made or renamed since: the times that a file can be given are not asked."""
    found = []
    for path in files:
        try:
            found += [path] if path.stat().st_ctime_ns < moment_ns else []
        except FileNotFoundError:
            continue
    return found


def check_recovery(data: Path) -> None:
    """What a start makes of the files, before anything else is done to them; on a copy, since a broker goes on."""
    copy = data.with_name("copy")
    shutil.copytree(data, copy)
    directory = LogDirectory.open(
        OsFiles(), str(copy), lambda topic: TopicConfig({"cleanup.policy": "compact"})
    )
    assert not directory.damaged
    directory.close()
    assert not files_in(copy, TOPIC, *LEFT)
    assert verify(copy) == ""
    shutil.rmtree(copy)


# --- processes ------------------------------------------------------------------------------------------------------


def workers_of(broker: int) -> list[int]:
    """Those that have become one: between fork and exec a child looks like its parent."""
    return [pid for pid in children_of(broker) if is_running(pid)]


def children_of(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def is_running(worker: int) -> bool:
    """One that is dead and not yet buried has no command line."""
    try:
        return MODULE.encode() in Path(f"/proc/{worker}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_nothing_is_superseded(server: str) -> None:
    for read in read_all(server, "read_committed"):
        keys = Counter(found.key for found in read.records.values())
        assert set(keys.values()) == {1}, keys


# --- the table ------------------------------------------------------------------------------------------------------


def table(rounds: list[Round], load: KeyedLoad) -> str:
    rows = []
    for number, each in enumerate(rounds, 1):
        files = " | ".join(str(each.files[suffix]) for suffix in LEFT)
        start = f"{each.start_s:.2f}" if each.plan.victim == "broker" else ""
        columns = f"{each.plan.victim} | {files} | {each.acknowledged:,} | {each.left:,} | {start}"
        rows.append(f"| {number} | {columns} |")
    kills = Counter(each.plan.victim for each in rounds)
    transactions = {fate: load.counts[f"transactions {fate}"] for fate in ("written", "aborted", "unknown")}
    return "\n".join(
        [
            "# kill -9 while logs are compacted",
            "",
            f"Written by `make chaos`. An idempotent and a transactional producer (librdkafka) write to {PARTITIONS}"
            " compacted",
            "partitions of 16 KiB segments; the broker, or one of its workers, is killed, mostly while files of a",
            "compaction lie there. After each kill everything is read, committed and uncommitted, and verified.",
            "",
            f"**{kills['broker']} kills of the broker and {kills['worker']} of workers,"
            f" {load.counts['acknowledged']:,} records acknowledged and {transactions['written']:,} transactions",
            f"committed ({transactions['aborted']:,} aborted, {transactions['unknown']:,} unknown): the newest of each"
            " key is there, nothing came back.**",
            "",
            "| round | killed | .cleaned | .swap | .deleted | acknowledged | records left | start with recovery, s |",
            "|---:|---|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )
