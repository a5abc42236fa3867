"""`ottla cluster health` looks once, again and again, or until it is well."""

import io
import json
import threading

import pytest

from ottla.cli import cluster_health, tables
from ottla.cli.main import main
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import runner


@pytest.fixture
def several():
    with several_brokers(3) as running:
        running.create("orders", (0, 1, 2), (1, 2, 0), (2, 0, 1), min_insync_replicas=3)
        yield running


def health(capsys, several, *args):
    return runner(capsys, several.address)("cluster", "health", *args)


def test_a_cluster_that_is_well_is_healthy(several, capsys):
    ran = health(capsys, several, "--brokers", "3", "--json")
    told = ran.json
    assert told["is_healthy"]
    assert (told["brokers"], told["controller"]) == ([0, 1, 2], several.cluster.controller.node_id)
    assert (told["partitions"], told["worst"]) == (3, [])
    assert ran.err == ""


def test_in_a_pipe_it_is_a_line_for_each_thing_that_counts(several, capsys):
    rows = health(capsys, several).rows
    assert rows[:2] == [{"what": "state", "value": "healthy"}, {"what": "brokers", "value": "3"}]


def test_too_few_brokers_are_unhealthy(several, capsys):
    ran = health(capsys, several, "--brokers", "4")
    assert ran.code == 8
    assert ran.err == "ottla: 3 of 4 brokers are there\n"


def test_a_broker_that_died_is_missed_by_its_partitions(several, capsys):
    victim = next(iter(several.cluster.others)).node_id
    several.kill(victim)
    several.until_in_sync("orders")
    ran = health(capsys, several, "--json")
    assert ran.code == 8
    told = json.loads(ran.out)
    assert (told["under_replicated"], told["under_min_isr"], told["offline"]) == (3, 3, 0)
    assert told["brokers_missing"] == [victim]
    assert told["worst"][0]["min_isr"] == 3
    assert "3 partitions have fewer replicas in sync than acks=all needs" in ran.err
    assert f"broker {victim} has replicas, but is not alive" in ran.err


def test_a_partition_without_a_leader_is_the_worst_and_says_who_may_lead(several, capsys):
    victim = next(iter(several.cluster.others)).node_id
    several.create("lonely", (victim,))
    several.kill(victim)
    several.led_by("lonely", -1)
    ran = health(capsys, several)
    assert ran.code == 8
    assert "ottla: 1 partition has no leader\n" in ran.err
    line = next(line for line in ran.out.splitlines() if line.startswith("lonely"))
    assert line.split("\t")[1:4] == ["0", "-", str(victim)]
    assert line.split("\t")[6:] == [str(victim), "offline"], "it may lead as soon as it is back"


def test_waiting_ends_as_soon_as_it_is_healthy(several, capsys):
    victim = next(iter(several.cluster.others)).node_id
    several.kill(victim)
    several.until_in_sync("orders")
    seen = []

    def judged(heard):
        report = judge(heard)
        if not seen:
            seen.append(report.is_healthy)
            starting.start()
        return report

    judge = cluster_health.judge
    starting = threading.Thread(target=lambda: several.start(victim))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_health, "judge", judged)
        ran = health(capsys, several, "--wait", "--timeout", "60", "--json")
    starting.join()
    assert seen == [False]
    assert ran.json["is_healthy"]


def test_waiting_in_vain_fails_with_a_sentence(several, capsys):
    ran = health(capsys, several, "--wait", "--timeout", "0.5", "--brokers", "7")
    assert ran.code == 8
    assert "ottla: not healthy after 0.5 s\n" in ran.err
    assert "ottla: 3 of 7 brokers are there\n" in ran.err


def test_waiting_where_nobody_listens_fails_with_6(capsys):
    assert main(["cluster", "health", "--wait", "--timeout", "0.3", "-b", "127.0.0.1:1"]) == 6
    err = capsys.readouterr().err
    assert err.startswith("ottla: no broker answers after 0.3 s: cannot connect to 127.0.0.1:1")


def test_where_nobody_listens_one_look_fails_with_6(capsys):
    assert main(["cluster", "health", "-b", "127.0.0.1:1"]) == 6


def test_a_watch_looks_again_until_it_is_interrupted(several, capsys, monkeypatch):
    monkeypatch.setattr(cluster_health, "WATCH_SECONDS", 0.01)
    shown = []
    lines = cluster_health.lines

    def enough(rows, names, **how):
        lines(rows, names, **how)
        shown.append(rows)
        if len(shown) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(cluster_health, "lines", enough)
    ran = health(capsys, several, "--watch")
    assert ran.code == 130
    assert [row["state"] for row in ran.rows] == ["healthy"] * 3
    assert ran.out.count("time_ms") == 1


def test_a_watch_with_wait_ends_when_it_is_healthy(several, capsys):
    ran = health(capsys, several, "--watch", "--wait", "--json")
    assert ran.json["is_healthy"]
    assert ran.json["time_ms"] > 0


def test_on_a_terminal_it_fits_into_80_columns(several, capsys, monkeypatch):
    several.create("lonely", (0, 1))
    monkeypatch.setattr(tables, "is_for_people", lambda: True)
    several.kill(several.cluster.others[0].node_id)
    several.until_in_sync("orders")
    ran = health(capsys, several)
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 80


def test_a_live_screen_shows_the_same(several, monkeypatch):
    from rich.console import Console

    report = cluster_health.run(
        cluster_health.Watch(cluster_health.servers(several.address), None, False, 10.0).look()
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(cluster_health._for_people(report))
    assert "healthy" in console.file.getvalue()
