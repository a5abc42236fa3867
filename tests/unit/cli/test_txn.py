"""`ottla txn` against a broker with transactions in every state, and one that hangs."""

import pytest

from ottla.cli.main import main
from ottla.testing import Broker
from tests.unit.cli.states import NO_VERIFICATION, Asked, now_ms, runner

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker():
    with Broker(config=NO_VERIFICATION) as running:
        yield running


@pytest.fixture(scope="module")
def asked(broker):
    """orders:0 has a committed and an open transaction, orders:1 one that hangs."""
    made = Asked(broker.bootstrap_server)
    made.create("orders", 3)
    made.create("quiet")
    owner, _ = made.begin("done", "orders")
    assert made.end("done", owner) == 0
    made.open_owner, made.open_start = made.begin("pay", "orders", 2)
    made.ghost, made.ghost_start = made.hang("orders", 2, partition=1, timestamp=now_ms() - HOUR_MS)
    return made


@pytest.fixture
def ottla(asked, capsys):
    return runner(capsys, asked.address)


# --- ls, describe ---------------------------------------------------------------------------------------------------


def test_transactions_are_listed_with_state_and_coordinator(ottla, asked):
    rows = {row["transactional_id"]: row for row in ottla("txn", "ls").rows}
    assert rows["pay"] == {
        "transactional_id": "pay",
        "producer_id": str(asked.open_owner[0]),
        "state": "Ongoing",
        "coordinator": "1",
    }
    assert rows["done"]["state"] == "CompleteCommit"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--state", "Ongoing"], ["pay"]),
        (["--state", "Empty"], []),
        (["--pattern", "p.y"], ["pay"]),
        (["--pattern", "p"], []),
        (["--duration-ms", str(HOUR_MS)], []),
    ],
)
def test_a_list_is_filtered(ottla, options, shown):
    found = ottla("txn", "list", "--json", *options).json["transactions"]
    assert [each["transactional_id"] for each in found] == shown


def test_a_list_is_filtered_by_producer(ottla, asked):
    found = ottla("txn", "ls", "--producer-id", str(asked.open_owner[0]), "--json").json["transactions"]
    assert [each["transactional_id"] for each in found] == ["pay"]


def test_a_state_that_does_not_exist_is_a_usage_error(ottla):
    ran = ottla("txn", "ls", "--state", "Sleeping")
    assert (ran.code, ran.err) == (2, "ottla txn ls: no state is called Sleeping\n")


def test_a_transaction_is_described_with_owner_age_and_partitions(ottla, asked):
    found = ottla("txn", "describe", "pay", "--json").json
    assert found["duration_ms"] >= 0
    assert {
        "transactional_id": "pay",
        "coordinator": 1,
        "producer_id": asked.open_owner[0],
        "producer_epoch": asked.open_owner[1],
        "state": "Ongoing",
        "timeout_ms": 60_000,
        "partitions": ["orders:0"],
    }.items() <= found.items()
    (row,) = ottla("txn", "describe", "pay").rows
    assert (row["state"], row["partitions"]) == ("Ongoing", "orders:0")


def test_an_id_that_nobody_knows_is_not_found(ottla):
    ran = ottla("txn", "describe", "pya")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("ottla: TRANSACTIONAL_ID_NOT_FOUND: transactional id 'pya'")


# --- producers ------------------------------------------------------------------------------------------------------


def test_producers_are_shown_with_the_start_of_their_open_transactions(ottla, asked):
    found = ottla("txn", "producers", "orders", "--json").json["producers"]
    starts = {(each["partition"], each["producer_id"]): each["start_offset"] for each in found}
    assert starts[0, asked.open_owner[0]] == asked.open_start
    assert starts[1, asked.ghost[0]] == asked.ghost_start
    assert sorted(starts.values(), key=str) == [0, 2, None]


def test_one_partition_is_asked_alone(ottla, asked):
    (row,) = ottla("txn", "producers", "orders:1").rows
    assert (row["partition"], row["producer_id"], row["start_offset"]) == ("1", str(asked.ghost[0]), "0")


@pytest.mark.parametrize("place", ["nowhere", "orders:3"])
def test_a_topic_or_partition_that_does_not_exist_is_not_found(ottla, place):
    ran = ottla("txn", "producers", place)
    assert ran.code == 4
    assert f"UNKNOWN_TOPIC_OR_PARTITION: {place}" in ran.err


@pytest.mark.parametrize(
    "place", ["", "a b", "orders:", "orders:x", "orders:-1", "orders:²", "orders:99999999999"]
)
def test_what_names_no_partition_is_a_usage_error(capsys, place):
    assert main(["txn", "producers", place]) == 2
    assert "names no" in capsys.readouterr().err


def test_a_leader_that_fails_is_a_part_that_failed(ottla, broker):
    broker.fail_next("DescribeProducers", "NOT_LEADER_OR_FOLLOWER")
    ran = ottla("txn", "producers", "orders:1")
    assert (ran.code, ran.err) == (3, "ottla: orders-1: NOT_LEADER_OR_FOLLOWER\n")


# --- find-hanging ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [[], ["--topic", "orders"], ["--topic", "orders:1"]])
def test_a_transaction_that_no_coordinator_knows_is_found(ottla, asked, where):
    (found,) = ottla("txn", "find-hanging", "--json", *where).json["hanging"]
    assert found["age_ms"] >= HOUR_MS
    assert {
        "topic": "orders",
        "partition": 1,
        "producer_id": asked.ghost[0],
        "producer_epoch": asked.ghost[1],
        "start_offset": asked.ghost_start,
        "transactional_id": None,
    }.items() <= found.items()


@pytest.mark.parametrize(
    "where", [["--topic", "orders:0"], ["--topic", "quiet"], ["--max-age", str(2 * HOUR_MS)]]
)
def test_what_is_known_or_young_does_not_hang(ottla, where):
    ran = ottla("txn", "hanging", "--max-age", "0", *where)
    assert (ran.code, ran.rows) == (0, [])


def test_looking_where_there_is_no_topic_is_not_found(ottla):
    assert ottla("txn", "find-hanging", "--topic", "nowhere").code == 4


def test_nothing_is_called_hanging_while_a_coordinator_cannot_be_asked(ottla, broker):
    broker.fail_next("ListTransactions", "CLUSTER_AUTHORIZATION_FAILED")
    ran = ottla("txn", "find-hanging")
    assert (ran.code, ran.out) == (5, "")
