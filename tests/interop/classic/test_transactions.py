"""`kafka-transactions` and Apache's own print the same, on an Ottla broker and on Apache Kafka 4.3.

Where a topic or a partition is not there, Apache's tool looks for its leader until its minute is over; ours says so at
once, in other words, and that is not compared.
"""

import re
from collections.abc import Iterator

import pytest

from ottla.client import Admin
from tests.interop.classic.compare import Did, compare, lines, ours, running
from tests.oracles.apache_tools import ApacheTools
from tests.unit.cli.states import NO_VERIFICATION, Asked, now_ms

HOUR_MS = 3_600_000
NOBODY = "127.0.0.1:1"
COMPLAINTS = """
    kafka-transactions
    kafka-transactions --help
    kafka-transactions -hv
    kafka-transactions --bogus
    kafka-transactions -x
    kafka-transactions bogus
    kafka-transactions list
    kafka-transactions list --help
    kafka-transactions lis -h
    kafka-transactions list --bogus
    kafka-transactions describe --help
    kafka-transactions describe-producers --help
    kafka-transactions abort --help
    kafka-transactions find-hanging --help
    kafka-transactions forceTerminateTransaction --help
    kafka-transactions --bootstrap-server
    kafka-transactions --bootstrap-server nonsense list
    kafka-transactions --boot nonsense list
    kafka-transactions --command-config x
    kafka-transactions -B --command-config /no/such list
    kafka-transactions -B
    kafka-transactions -B bogus
    kafka-transactions -B list --running-longer-than-ms x
    kafka-transactions -B list --duration-filter x
    kafka-transactions -B list --duration-filter -x
    kafka-transactions -B list --duration -h
    kafka-transactions -B list --duration-filter 99999999999999999999
    kafka-transactions -B list extra
    kafka-transactions -B list "a b" c --d
    kafka-transactions -B list -- -x
    kafka-transactions -B describe
    kafka-transactions -B describe --transactional-id
    kafka-transactions -B describe --transactional-id a b
    kafka-transactions -B describe -t a b
    kafka-transactions -B describe-producers
    kafka-transactions -B describe-producers --t=1
    kafka-transactions -B describe-producers --partition 1
    kafka-transactions -B describe-producers --topic t --partition x
    kafka-transactions -B abort
    kafka-transactions -B abort --topic t
    kafka-transactions -B abort --topic t --partition 1
    kafka-transactions -B abort --topic t --partition 1 --producer-id 7
    kafka-transactions -B abort --topic t --partition 1 --producer-id 7 --producer-epoch 1
    kafka-transactions -B find-hanging
    kafka-transactions -B find-hanging --partition 1
    kafka-transactions -B find-hanging --broker-id 1 --partition 1
    kafka-transactions -B forceTerminateTransaction
"""
LOOK = """
    kafka-transactions -B list
    kafka-transactions -B list --duration-filter 0
    kafka-transactions -B list --duration-filter -1
    kafka-transactions -B list --duration-filter 99999999
    kafka-transactions -B list --transactional-id-pattern open.*
    kafka-transactions -B list --transactional-id-pattern nothing
    kafka-transactions -B list --transactional-id-pattern (
    kafka-transactions -B describe --transactional-id nope
    kafka-transactions -B describe-producers --topic orders --partition 0
    kafka-transactions -B describe-producers --topic orders --partition 1
    kafka-transactions -B describe-producers --topic orders --partition 1 --broker-id 1
    kafka-transactions -B describe-producers --topic other --partition 0
    kafka-transactions -B find-hanging --topic orders
    kafka-transactions -B find-hanging --topic orders --partition 0
    kafka-transactions -B find-hanging --topic orders --partition 1
    kafka-transactions -B find-hanging --broker-id 1
    kafka-transactions -B find-hanging --broker-id 1 --topic orders
    kafka-transactions -B find-hanging --broker-id 1 --max-transaction-timeout 100
    kafka-transactions -B find-hanging --topic nope
    kafka-transactions -B abort --topic orders --partition 1 --start-offset 77
"""
END = """
    kafka-transactions -B abort --topic hangs-% --partition 0 --start-offset 0
    kafka-transactions -B abort --topic hangs-% --partition 0 --start-offset 0
    kafka-transactions -B find-hanging --topic hangs-%
    kafka-transactions -B abort --topic hangs-% --partition 1 --producer-id 7 --producer-epoch 1 --coordinator-epoch 0
    kafka-transactions -B forceTerminateTransaction --transactionalId open-%
    kafka-transactions -B forceTerminateTransaction --transactionalId new-%
"""


@pytest.fixture(scope="module", params=["ottla", "apache"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """orders-0 has transactions that are open and committed, orders-1 one that hangs."""
    with running(request.param, NO_VERIFICATION) as address:
        asked = Asked(address)
        for topic in ("orders", "hangs-a", "hangs-o"):
            asked.create(topic, 2)
        asked.create("other")
        owner, _ = asked.begin("done", "orders", 2)
        asked.end("done", owner)
        for name in ("open-one", "open-a", "open-o"):
            asked.begin(name, "orders")
        for topic, partition in (("orders", 1), ("hangs-a", 0), ("hangs-o", 0)):
            asked.hang(topic, 2, partition=partition, timestamp=now_ms() - HOUR_MS)
        yield address


def test_command_lines_are_read_alike(tools: ApacheTools, capfd):
    compare(COMPLAINTS, tools, capfd, NOBODY)


def test_transactions_and_producers_look_alike(tools: ApacheTools, server, capfd):
    compare(LOOK, tools, capfd, server)


def test_transactions_are_described_alike(tools: ApacheTools, server, capfd):
    for name, places in (("open-one", "orders-0"), ("done", "        ")):
        (words,) = lines(f"kafka-transactions -B describe --transactional-id {name}", server, "")
        told = [
            re.sub(rf"\t(?:\d+ +)(?=\t{places})", "\tms", did.out)
            for did in (Did(*tools.run(*words)), ours(words, capfd))
        ]
        assert told[0] == told[1]
        assert f"\tms\t{places}       \t\n" in told[0]


def test_transactions_are_ended_alike(tools: ApacheTools, server, capfd):
    compare(END, tools, capfd, server)
    with Admin(bootstrap_servers=server) as admin:
        found = admin.describe_transactions(["open-a", "open-o"])
    assert found["open-a"].state == found["open-o"].state
    assert found["open-a"].partitions == found["open-o"].partitions == frozenset()
