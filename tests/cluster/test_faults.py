"""Histories of a cluster that is broken under load, judged by the checker: a test for each fault.

One cluster serves all faults, one after the other, in whatever order they come. `make chaos` strikes more often and
writes tests/chaos/CLUSTER.md. What fails says where its evidence lies: the histories, and all that the brokers said.
"""

import os
import random
import time
from collections.abc import Iterator

import pytest

from ottla.testing.zookeeper import Unavailable
from ottla.testing.zookeeper import ensure as ensure_zookeeper
from tests.cluster import hosts, table
from tests.cluster.cluster import FaultyCluster
from tests.cluster.faults import FAULTS, Fault, Scene
from tests.cluster.load import Load
from tests.cluster.table import Line

IS_LONG = "OTTLA_CHAOS_ROUNDS" in os.environ
RUN = [fault for fault in FAULTS if fault.short or IS_LONG]
pytestmark = pytest.mark.timeout(3600 if IS_LONG else 900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    hosts.ensure()
    try:
        ensure_zookeeper()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with FaultyCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.mark.parametrize("fault", RUN, ids=lambda fault: fault.name)
def test_a_fault_breaks_no_promise(fault: Fault, cluster: FaultyCluster) -> None:
    path = cluster.path / fault.name
    path.mkdir()
    load, line = Load(cluster.bootstrap_servers, fault.name), Line(fault.name)
    try:
        with load.running():
            strike(fault, cluster, load, line)
        judge(load, line)
        load.delete_topics()
    except BaseException as failure:
        load.write(path)
        failure.add_note(f"{fault.name}: histories in {path}, what the brokers said in {cluster.path}")
        cluster.mend()
        raise
    if IS_LONG:
        table.write(line)


def strike(fault: Fault, cluster: FaultyCluster, load: Load, line: Line) -> None:
    scene = Scene(cluster, load, random.Random(fault.name), IS_LONG)
    for _ in range(fault.full if IS_LONG else fault.short):
        load.flow()
        before, since = cluster.wait_until_whole(), time.monotonic()
        fault.strike(scene)
        after = cluster.wait_until_whole()
        load.flow()
        line.rounds += 1
        line.gaps.append(load.pulse.longest_gap(since).seconds)
        line.isr_changes += sum(after.isr_changes_since(before).values())
        line.elections += after.elections_since(before)


def judge(load: Load, line: Line) -> None:
    reports = load.verdict()
    line.note_reports(reports)
    line.acknowledged = load.acknowledged()
    line.transactions, line.commits = load.progress.counts["transactions"], load.progress.counts["commits"]
    print(line, {k: v for k, v in load.progress.counts.items() if k.startswith("transactions: ")})
    assert all(report.is_valid for report in reports.values()), "\n".join(map(str, reports.values()))
    assert load.forgotten() == []
