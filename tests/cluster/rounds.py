"""A fault from its first round to the verdict: under load, again and again, with the cluster whole in between."""

import os
import random
import time

from tests.cluster import table
from tests.cluster.cluster import FaultyCluster
from tests.cluster.faults import Fault, Scene
from tests.cluster.load import Load
from tests.cluster.table import Line

IS_LONG = "OTTLA_CHAOS_ROUNDS" in os.environ


def break_and_judge(fault: Fault, cluster: FaultyCluster) -> None:
    """Raises AssertionError if a promise was broken, or the cluster does not heal; its notes say where to look."""
    path = cluster.path / fault.name
    path.mkdir()
    load, line = Load(cluster.bootstrap_servers, fault.name), Line(fault.name)
    try:
        with load.running():
            _strike(fault, cluster, load, line)
        _judge(fault, load, line)
        load.delete_topics()
    except BaseException as failure:
        failure.add_note(f"{fault.name}: histories in {path}, what the brokers said in {cluster.path}")
        cluster.mend()
        raise
    finally:
        load.write(path)
    if IS_LONG:
        table.write(line)


def _strike(fault: Fault, cluster: FaultyCluster, load: Load, line: Line) -> None:
    scene = Scene(cluster, load, random.Random(fault.name), IS_LONG)
    for _ in range(fault.full if IS_LONG else fault.short):
        load.flow()
        before, since = cluster.wait_until_whole(), time.monotonic()
        fault.strike(scene)
        struck = time.monotonic()
        after = cluster.wait_until_whole()
        line.healing.append(time.monotonic() - struck)
        load.flow()
        line.rounds += 1
        line.gaps.append(load.pulse.longest_gap(since).seconds)
        line.isr_changes += sum(after.isr_changes_since(before).values())
        line.elections += after.elections_since(before)


def _judge(fault: Fault, load: Load, line: Line) -> None:
    reports = load.verdict()
    line.note_reports(reports)
    line.note_load(load)
    print(line, load.seen_errors() or "")
    assert all(report.is_valid for report in reports.values()), "\n".join(map(str, reports.values()))
    assert load.forgotten() == []
    assert not fault.is_gentle or not load.seen_errors(), load.seen_errors()
    assert line.transactions and line.commits, "a fault without transactions or commits says nothing of them"
