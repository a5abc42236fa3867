"""`ottla group` and `ottla txn` show the same of Apache Kafka as of Ottla, and end the same things."""

import pytest

from ottla.testing import Broker
from tests.oracles.apache_kafka import Unavailable, apache_kafka
from tests.unit.cli.states import NO_VERIFICATION, Asked, now_ms, runner

HOUR_MS = 3_600_000
_TIMES = {
    "lag_seconds",
    "lag_seconds_read_committed",
    "last_timestamp",
    "age_ms",
    "duration_ms",
    "start_time_ms",
}
_CHOSEN = {"member_id", "producer_id", "coordinator"}


def comparable(value):
    """Without what differs from run to run: times become whether there is one, ids whether there is one."""
    if isinstance(value, dict):
        return {
            name: each is not None and each != 0 if name in _TIMES | _CHOSEN else comparable(each)
            for name, each in value.items()
        }
    return [comparable(each) for each in value] if isinstance(value, list) else value


def story(address, capsys):
    """What every command says, in turn."""
    ottla, asked = runner(capsys, address), Asked(address)
    asked.init()  # producer id 0 is spent on nobody: ids are there or not there
    asked.create("orders", 2)
    asked.create("modern")
    asked.produce("orders", 10, timestamp=now_ms() - HOUR_MS)
    asked.commit("billing", "orders", 4)
    asked.join("readers", "orders", [0, 1])
    asked.join_consumers("modern", "modern")
    owner, _ = asked.begin("done", "orders")
    asked.end("done", owner)
    owner, start = asked.begin("pay", "orders", 3)
    _, ghost = asked.hang("orders", 2, partition=1, timestamp=now_ms() - HOUR_MS)

    def run(*args):
        ran = ottla(*args, "--json")
        return (args, ran.code, comparable(ran.json) if ran.code == 0 else ran.err)

    yield run("group", "ls")
    yield run("group", "ls", "--state", "Empty")
    yield run("group", "ls", "--type", "consumer")
    yield run("group", "lag", "billing", "readers", "modern")
    yield run("group", "lag", "nobody")
    yield run("group", "describe", "readers")
    yield run("txn", "ls", "--state", "Ongoing")
    yield run("txn", "ls", "--pattern", "p.*")
    yield run("txn", "ls", "--state", "Sleeping")
    yield run("txn", "describe", "pay")
    yield run("txn", "describe", "nobody")
    yield run("txn", "producers", "orders:1")
    yield run("txn", "producers", "nowhere")
    yield run("txn", "find-hanging")
    yield run("txn", "abort", "orders:0", "--start-offset", str(start), "--yes")
    yield run("txn", "abort", "orders:1", "--start-offset", str(ghost), "--yes")
    yield run("txn", "find-hanging", "--max-age", "0")
    yield run("txn", "abort", "--transactional-id", "pay", "--yes")
    yield (asked.end("pay", owner), "the old producer is fenced")
    yield run("group", "lag", "billing")


def test_the_commands_say_the_same_of_both(capsys):
    try:
        with apache_kafka(NO_VERIFICATION) as kafka:
            theirs = list(story(kafka.bootstrap_server, capsys))
    except Unavailable as error:
        pytest.skip(str(error))
    with Broker(config=NO_VERIFICATION) as broker:
        ours = list(story(broker.bootstrap_server, capsys))
    for each, other in zip(ours, theirs, strict=True):
        assert each == other
