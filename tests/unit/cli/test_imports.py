"""What a command does not import, it does not wait for: `ottla --help` and `ottla topic ls` are typed all day."""

import subprocess
import sys

import pytest

from ottla.cli.classic.names import CLASSIC
from ottla.cli.main import COMMANDS
from ottla.testing import Broker

RUN = """
import sys
from ottla.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(["imported:", *sys.modules]))
sys.exit(code)
"""
HEAVY = {"rich", "kazoo", "cramjam", "fastcrc", "uvloop", "sqlite3", "http", "email", "unittest", "pydoc"}
"""Nothing that lists or explains needs one of these."""


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        running.create_topic("orders")
        yield running


def imported(*words):
    """The modules that one command has imported, and those above them."""
    done = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = done.stderr.split("imported:\n")[1].splitlines()
    return set(names) | {name.partition(".")[0] for name in names}


def test_the_help_needs_click_and_nothing_else():
    found = imported("--help")
    assert not found & (HEAVY | {"asyncio", "ssl", "socket", "argparse", "logging"})
    assert {name for name in found if name.startswith("ottla.") and not name.startswith("ottla.cli")} == set()
    assert not any(name.startswith(("ottla.cli.topic", "ottla.cli.classic.topics")) for name in found)


@pytest.mark.parametrize(
    "name", ["topic", "cluster", "group", "txn", "config", "log", "bench", "profile", "completion", "shims"]
)
def test_the_help_of_a_group_needs_no_client(name):
    found = imported(name, "--help")
    assert not found & (HEAVY | {"asyncio"})
    assert not any(each.startswith(("ottla.client", "ottla.protocol")) for each in found)


def test_the_list_of_topics_needs_one_connection_and_the_metadata(broker):
    found = imported("topic", "ls", "-b", broker.bootstrap_server)
    assert not found & (HEAVY | {"argparse"})
    assert {name for name in found if name.startswith("ottla.protocol.messages.")} == {
        "ottla.protocol.messages.metadata"
    }
    for part in ("client.producer", "client.consumer", "client.admin", "client.sasl", "records", "broker"):
        assert not any(name == f"ottla.{part}" or name.startswith(f"ottla.{part}.") for name in found), part
    assert not any(name.startswith("ottla.cli.topic_") and name != "ottla.cli.topic_ls" for name in found)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_help_draws_anything(name):
    assert "rich" not in imported(name, "--help")


def test_classic_tools_do_without_click_commands_of_others(broker):
    found = imported("kafka-topics", "--list", "--bootstrap-server", broker.bootstrap_server)
    assert not found & HEAVY
    others = {CLASSIC[name].target.partition(":")[0] for name in CLASSIC if name != "kafka-topics"}
    assert not found & others
