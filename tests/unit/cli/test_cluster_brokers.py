"""`ottla cluster brokers` lists who is there, and who is missed."""

import json

import pytest

from ottla.cli.cluster_brokers import rows_of
from ottla.cli.main import main
from tests.unit.cli.cluster_states import nodes, partition, snapshot_of
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import runner


@pytest.fixture(scope="module")
def several():
    with several_brokers(3) as running:
        running.create("orders", (0, 1, 2), (1, 2, 0), (2, 0, 1))
        running.create("notes", (1,))
        yield running


def test_every_broker_is_listed_with_what_it_leads_and_hosts(several, capsys):
    told = runner(capsys, several.address)("cluster", "brokers", "--json").json
    controller = several.cluster.controller.node_id
    assert told["controller"] == controller
    assert [row["broker"] for row in told["brokers"]] == [0, 1, 2]
    assert [row["controller"] for row in told["brokers"]] == [id == controller for id in range(3)]
    assert [(row["leads"], row["replicas"]) for row in told["brokers"]] == [(1, 3), (2, 4), (1, 3)]
    ports = [several.cluster.nodes[id].port for id in range(3)]
    assert [row["address"] for row in told["brokers"]] == [f"127.0.0.1:{port}" for port in ports]


def test_in_a_pipe_it_is_a_line_for_each_broker(several, capsys):
    rows = runner(capsys, several.address)("cluster", "brokers").rows
    assert [row["controller"] for row in rows].count("yes") == 1
    assert rows[1]["leads"] == "2"
    assert rows[1]["rack"] == "-"


def test_a_broker_that_is_missed_has_replicas_and_no_address():
    seen = snapshot_of(nodes(1, 2), partition("t", 0, 1, (3, 1), (1,)), partition("t", 1, -1, (3,), ()))
    rows = {row["broker"]: row for row in rows_of(seen)}
    assert list(rows) == [1, 2, 3]
    assert (rows[3]["address"], rows[3]["replicas"], rows[3]["in_sync"], rows[3]["preferred"]) == (
        None,
        2,
        0,
        2,
    )
    assert (rows[1]["leads"], rows[2]["replicas"]) == (1, 0)


def test_racks_are_shown():
    (row,) = rows_of(snapshot_of(nodes(1, rack="a")))
    assert row["rack"] == "a"
    json.dumps(row)


def test_where_nobody_listens_the_code_is_6(capsys):
    assert main(["cluster", "brokers", "-b", "127.0.0.1:1"]) == 6
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err
