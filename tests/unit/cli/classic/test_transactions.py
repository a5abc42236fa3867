"""`kafka-transactions` on a broker of ours. What it prints is compared with Apache's own in tests/interop."""

import pytest

from ottla.cli.classic.running import KAFKA_VERSION
from ottla.cli.main import main
from ottla.testing import Broker
from tests.unit.cli.states import NO_VERIFICATION, Asked, Ran, now_ms

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def asked():
    with Broker(config=NO_VERIFICATION) as broker:
        made = Asked(broker.bootstrap_server)
        made.create("orders", 2)
        made.begin("open-one", "orders", 2)
        made.ghost, made.ghost_start = made.hang("orders", 2, partition=1, timestamp=now_ms() - HOUR_MS)
        yield made


@pytest.fixture
def run(asked, capsys):
    def run(*words):
        code = main(["kafka-transactions", "--bootstrap-server", asked.address, *words])
        return Ran(code, *capsys.readouterr())

    return run


def cells(ran):
    assert (ran.code, ran.err) == (0, "")
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in ran.out.splitlines()]


def test_columns_are_as_wide_as_their_widest_cell(run):
    assert run("list", "--transactional-id-pattern", "open-.*").out == (
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\n"
        "open-one       \t1          \t0         \tOngoing         \t\n"
    )
    assert len(cells(run("list", "--transactional-id-pattern", "none"))) == 1


def test_a_transaction_is_described(run):
    _, row = cells(run("describe", "--transactional-id", "open-one"))
    assert (row[0], row[1], row[4], row[8]) == ("1", "open-one", "Ongoing", "orders-0")
    ran = run("describe", "--transactional-id", "nope")
    assert (ran.code, ran.out) == (1, "")
    assert "failed because the ID could not be found" in ran.err


def test_a_partition_that_is_not_there_is_said_at_once(run):
    ran = run("describe-producers", "--topic", "orders", "--partition", "9")
    assert ran.code == 1
    assert ran.err == (
        "Failed to describe producers for partition orders-9 on leader: This server does not host this "
        "topic-partition.. Enable debug logging for additional detail.\n"
    )


def test_what_hangs_is_found_and_ended(run, asked):
    _, row = cells(run("find-hanging", "--broker-id", "1"))
    assert row[:3] == ["orders", "1", str(asked.ghost[0])]
    words = ("abort", "--topic", "orders", "--partition", "1", "--start-offset", str(asked.ghost_start))
    assert run(*words).code == 0
    assert len(cells(run("find-hanging", "--topic", "orders"))) == 1
    ran = run(*words)
    assert (ran.code, ran.err.startswith("Could not find any open transactions")) == (1, True)


def test_a_transaction_is_taken_away_from_its_producer(run, asked):
    asked.begin("forced", "orders")
    assert run("forceTerminateTransaction", "--transactionalId", "forced").code == 0
    _, row = cells(run("describe", "--transactional-id", "forced"))
    assert row[8] == ""


def test_what_is_missing_is_said_before_anybody_is_asked(capsys):
    assert main(["kafka-transactions", "list"]) == 1
    assert capsys.readouterr().err.endswith("error: argument --bootstrap-server is required\n")
    assert main(["kafka-transactions", "--bootstrap-server", "127.0.0.1:1", "find-hanging"]) == 1
    assert "requires either --topic or --broker-id" in capsys.readouterr().err


def test_its_version_is_that_of_the_other_tools(capsys):
    assert main(["kafka-transactions", "--version"]) == 0
    assert capsys.readouterr().out == f"{KAFKA_VERSION}\n"
