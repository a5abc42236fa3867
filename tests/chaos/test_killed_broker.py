"""`kill -9` of a broker under load: what it acknowledged is there, once, and in its place.

The producer is idempotent and lives through all rounds: it sends again what it got no answer for, with the numbers it
gave the first time, so a broker that forgot what it has would write records twice, or refuse them for ever. In every
other round the broker syncs before it acknowledges: then most kills find records that are written, but not answered.

`make chaos` runs more rounds and writes tests/chaos/RESULTS.md.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.chaos.load import Load
from tests.chaos.processes import BrokerProcess, values_in

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "3"))
RESULTS = Path(__file__).with_name("RESULTS.md")
SETTINGS = {
    "num.partitions": 4,
    "log.segment.bytes": 1 << 20,  # so that segments are rolled and synced while it is killed
    "replica.high.watermark.checkpoint.interval.ms": 200,
    "log.flush.offset.checkpoint.interval.ms": 200,
}
SYNCED = {"log.flush.interval.messages": 1}


class Round(NamedTuple):
    """One life of the broker."""

    is_synced: bool
    acknowledged: int
    served_s: float
    start_s: float


def test_nothing_acknowledged_is_lost_or_doubled_by_kill_9(tmp_path):
    source = random.Random(9)
    rounds = []
    with BrokerProcess(tmp_path / "data", SETTINGS | SYNCED) as broker:
        load = Load(broker.bootstrap_server)
        try:
            for number in range(ROUNDS):
                is_synced = number % 2 == 0
                began, before = time.monotonic(), load.count
                load.wait_for(source.randint(500, 2_000 if is_synced else 20_000))
                broker.kill()
                acknowledged, served_s = load.count - before, time.monotonic() - began
                broker.settings = SETTINGS if is_synced else SETTINGS | SYNCED
                rounds.append(Round(is_synced, acknowledged, served_s, broker.start()))
        finally:
            load.finish()
        assert broker.terminate() == 0, broker.errors
    lost, doubled = check(load, tmp_path / "data")
    if "OTTLA_CHAOS_ROUNDS" in os.environ:
        RESULTS.write_text(table(rounds, load.count, lost, doubled))
    assert (lost, doubled, load.refused) == (0, 0, {})


def check(load: Load, path: Path) -> tuple[int, int]:
    """How many acknowledged records are missing or different, and how many are there more than once."""
    found = values_in(path)
    lost = doubled = 0
    for partition, acknowledged in load.acknowledged.items():
        values = found[partition]
        assert list(values) == list(range(len(values))), f"{partition} has a hole"
        lost += sum(values.get(offset) != value for offset, value in acknowledged.items())
        doubled += sum(count - 1 for count in Counter(values.values()).values())
    return lost, doubled


def table(rounds: list[Round], total: int, lost: int, doubled: int) -> str:
    rows = []
    for number, each in enumerate(rounds, 1):
        columns = [str(number), "yes" if each.is_synced else "no", f"{each.acknowledged:,}"]
        rows.append(f"| {' | '.join(columns)} | {each.served_s:.2f} | {each.start_s:.2f} |")
    return "\n".join(
        [
            "# kill -9 under load",
            "",
            "Written by `make chaos`. One idempotent producer (librdkafka, acks=all, 4 partitions) writes through all",
            "rounds; the broker is killed at a random moment and started again on the same data.",
            "",
            f"**{len(rounds)} kills, {total:,} records acknowledged, {lost} lost, {doubled} twice.**",
            "",
            "| round | synced before acknowledged | acknowledged | served for, s | start with recovery, s |",
            "|---:|---|---:|---:|---:|",
            *rows,
            "",
        ]
    )
