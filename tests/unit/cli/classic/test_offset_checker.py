"""`kafka.tools.ConsumerOffsetChecker` finds offsets where groups keep them today, and where they kept them in 2013.

The ZooKeeper is a real one, in which a broker of ours is registered. Consumers of that age are gone, so what they left
in ZooKeeper is written by hand.
"""

import asyncio
import socket

import pytest

from ottla.cli.classic.offset_checker import TOOL
from ottla.cli.classic.running import run_tool
from ottla.cli.main import main
from ottla.metadata.store import Create
from ottla.testing import Broker, Cluster
from tests.unit.cli.states import Asked
from tests.unit.metadata.zookeepers import open_store, servers

NAME = "kafka.tools.ConsumerOffsetChecker"
HEADER = (
    "Group           Topic                          Pid Offset          logSize         Lag             Owner"
)


def run(capsys, *words):
    code = run_tool(TOOL, NAME, list(words))
    return code, *capsys.readouterr()


def _write(connect, nodes):
    """Nodes with their parents."""

    async def work():
        store = await open_store(connect)
        try:
            made = set()
            for path, data in nodes.items():
                parts = path.strip("/").split("/")
                for count in range(1, len(parts) + 1):
                    prefix = "/" + "/".join(parts[:count])
                    if prefix not in made and not await _exists(store, prefix):
                        await store.multi([Create(prefix, data if prefix == path else b"")])
                    made.add(prefix)
        finally:
            await store.close()

    asyncio.run(work())


async def _exists(store, path):
    return path in await store.get_all([path])


@pytest.fixture(scope="module")
def old():
    """A cluster with a ZooKeeper, two topics, and groups in one place, in the other, and in both."""
    with servers() as zookeeper, Cluster(1, zookeeper=zookeeper) as cluster:
        asked = Asked(cluster.bootstrap_servers)
        asked.create("orders", 3)
        asked.create("payments")
        asked.produce("orders", 10)
        asked.produce("orders", 5, partition=1)
        asked.produce("payments", 2)
        asked.commit("testGroup", "orders", 7)
        asked.commit("both", "orders", 9)
        _write(
            zookeeper.connect_string,
            {
                "/consumers/both/offsets/orders/0": b"1",
                "/consumers/both/offsets/orders/1": b"2",
                "/consumers/both/offsets/payments/0": b"0",
                "/consumers/both/owners/orders/1": b"both_host-1400000000000-abcd-0",
                "/consumers/ancient/offsets/orders/1": b"4",
                "/consumers/ancient/offsets/orders/2": b"not a number",
                "/consumers/ancient/offsets/deleted/0": b"4",
            },
        )
        yield zookeeper.connect_string


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        asked = Asked(broker.bootstrap_server)
        asked.create("orders", 2)
        asked.produce("orders", 10)
        asked.commit("testGroup", "orders", 7)
        yield broker.bootstrap_server


def test_the_command_line_of_the_old_instructions_works(old, capsys):
    code = main(["kafka-run-class.sh", NAME, "--zookeeper", old, "--group", "testGroup"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        HEADER,
        "testGroup       orders                         0   7               10              3               none",
        "testGroup       orders                         1   unknown         5               unknown         none",
        "testGroup       orders                         2   unknown         0               unknown         none",
    ]


def test_a_group_that_is_in_both_places_has_the_coordinators_offsets_first(old, capsys):
    code, out, _ = run(capsys, "--zookeeper", old, "--group", "both")
    assert code == 0
    assert out.splitlines() == [
        HEADER,
        "both            orders                         0   9               10              1               none",
        "both            orders                         1   2               5               3               "
        "both_host-1400000000000-abcd-0",
        "both            orders                         2   unknown         0               unknown         none",
        "both            payments                       0   0               2               2               none",
    ]


def test_a_group_that_only_zookeeper_knows_is_found(old, capsys):
    code, out, _ = run(capsys, "--zookeeper", old, "--group", "ancient")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert (code, [row[1:6] for row in rows]) == (
        0,
        [
            ["orders", "0", "unknown", "10", "unknown"],
            ["orders", "1", "4", "5", "1"],
            ["orders", "2", "unknown", "0", "unknown"],
        ],
    )


def test_topics_are_chosen_and_brokers_named(old, capsys):
    code, out, _ = run(
        capsys, "--zookeeper", old, "--group", "both", "--topic", "payments,orders", "--broker-info"
    )
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[1:5]] == ["payments", "orders", "orders", "orders"]
    title, line = out.splitlines()[5:]
    assert (title, line.startswith("1 -> ")) == ("BROKER INFO", True)


def test_nobody_knows_the_group(old, capsys):
    for group in ("nope", "no/pe", ".."):
        code, out, err = run(capsys, "--zookeeper", old, "--group", group)
        assert (code, out) == (1, "")
        assert err == f"Exiting due to: nobody knows a group {group}, neither the brokers nor ZooKeeper\n"


def test_with_a_broker_there_is_only_the_first_place(server, capsys):
    code, out, _ = run(
        capsys,
        *("--bootstrap-server", server, "--group", "testGroup"),
        *("--retry.backoff.ms", "100", "--socket.timeout.ms", "10000"),
    )
    assert (code, len(out.splitlines())) == (0, 3)
    code, _, err = run(capsys, "--broker-list", server, "--group", "testGroup", "--topic", "orders,nope")
    assert (code, err) == (1, "Exiting due to: there is no topic nope\n")


def test_members_that_live_are_the_owners(server, capsys):
    Asked(server).join("busy", "orders", [1])
    _, out, _ = run(capsys, "--bootstrap-server", server, "--group", "busy")
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ["none", "ottla_/127.0.0.1"]


def test_without_a_zookeeper_that_is_said(capsys, monkeypatch):
    monkeypatch.setattr("ottla.cli.classic.zookeeper._CONNECTION_MS", 500)
    with socket.socket() as listening:  # bound, but nobody listens
        listening.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{listening.getsockname()[1]}"
        code, out, err = run(capsys, "--zookeeper", where, "--group", "g")
    assert (code, out) == (1, "")
    assert err.startswith("Exiting due to: ")
    assert where in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Check the offset of your consumers."),
        (["--help"], "Check the offset of your consumers."),
        (["--zookeeper", "zk:2181"], 'Missing required argument "[group]"'),
        (["--group", "g", "--bogus"], "Exiting due to: bogus is not a recognized option"),
        (["--group", "g", "--socket.timeout.ms", "soon"], 'Exiting due to: For input string: "soon"'),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, words, sentence):
    code, out, err = run(capsys, *words)
    assert (code, out, err.splitlines()[0]) == (1, "", sentence)
