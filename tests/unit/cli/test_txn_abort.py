"""`ottla txn abort` ends what hangs, fences what lives, and does neither without being sure."""

import itertools

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.cli.txn_abort import abort
from ottla.core.errors import ErrorCode
from ottla.testing import Broker
from tests.unit.cli.states import NO_VERIFICATION, Asked, runner

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker():
    with Broker(config=NO_VERIFICATION) as running:
        yield running


@pytest.fixture(scope="module")
def asked(broker):
    return Asked(broker.bootstrap_server)


@pytest.fixture
def topic(asked):
    return asked.create(f"orders-{next(_numbers)}", 2)


@pytest.fixture
def ottla(asked, capsys):
    return runner(capsys, asked.address)


def starts(ottla, topic):
    found = ottla("txn", "producers", topic, "--json").json["producers"]
    return [each["start_offset"] for each in found]


# --- in one partition -----------------------------------------------------------------------------------------------


def test_a_hanging_transaction_is_ended_by_its_start_offset(ottla, asked, topic):
    asked.produce(topic, 3)
    owner, start = asked.hang(topic, 2)
    asked.commit(topic, topic, 0)
    (lag,) = ottla("group", "lag", topic, "--json").json["groups"]
    assert (lag["total"]["lag"], lag["total"]["lag_read_committed"]) == (5, 3)
    ran = ottla("txn", "abort", f"{topic}:0", "--start-offset", str(start), "--yes")
    assert (ran.code, ran.out) == (0, f"aborted: the transaction of producer {owner[0]} in {topic}:0\n")
    assert starts(ottla, topic) == [None]
    (lag,) = ottla("group", "lag", topic, "--json").json["groups"]
    assert (lag["total"]["lag"], lag["total"]["lag_read_committed"]) == (6, 6), "readers of both kinds go on"


def test_a_hanging_transaction_is_ended_by_its_producer(ottla, asked, topic):
    (producer_id, epoch), _ = asked.hang(topic, partition=1)
    stamp = ["--producer-id", str(producer_id), "--producer-epoch", str(epoch), "--coordinator-epoch", "0"]
    ran = ottla("txn", "abort", f"{topic}:1", *stamp, "--yes", "--json")
    assert ran.json == {
        "topic": topic,
        "partition": 1,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "start_offset": None,
    }
    assert starts(ottla, topic) == [None]


def test_what_a_coordinator_knows_is_not_torn_unless_by_force(ottla, asked, topic):
    owner, start = asked.begin(f"pay-{topic}", topic)
    command = ["txn", "abort", f"{topic}:0", "--start-offset", str(start), "--yes"]
    ran = ottla(*command)
    assert ran.code == 1
    assert f"a coordinator knows that transaction, as pay-{topic}" in ran.err
    stamp = ["--producer-id", str(owner[0]), "--producer-epoch", str(owner[1])]
    assert ottla("txn", "abort", f"{topic}:0", *stamp, "--yes").code == 1
    assert starts(ottla, topic) == [start]
    assert ottla(*command, "--force").code == 0
    assert starts(ottla, topic) == [None]


def test_a_start_offset_where_nothing_starts_is_not_found(ottla, asked, topic):
    asked.hang(topic)
    ran = ottla("txn", "abort", f"{topic}:0", "--start-offset", "9", "--yes")
    assert ran.code == 4
    assert ran.err.endswith(f"no open transaction starts at offset 9 of {topic}:0; open ones start at: 0\n")
    assert ottla("txn", "abort", "nowhere:0", "--start-offset", "0", "--yes").code == 4
    assert starts(ottla, topic) == [0]


def test_an_old_epoch_ends_nothing(ottla, asked, topic):
    (producer_id, _), _ = asked.hang(topic)
    marked = ottla(
        "txn", "abort", f"{topic}:0", "--producer-id", str(producer_id), "--producer-epoch", "5", "--yes"
    )
    assert marked.code == 0  # a newer epoch ends it, and is remembered
    ran = ottla(
        "txn", "abort", f"{topic}:0", "--producer-id", str(producer_id), "--producer-epoch", "4", "--yes"
    )
    assert ran.code == 1
    assert "INVALID_PRODUCER_EPOCH" in ran.err


# --- by transactional id --------------------------------------------------------------------------------------------


def test_a_living_producer_is_fenced_and_its_transaction_aborted(ottla, asked, topic):
    name = f"live-{topic}"
    owner, _ = asked.begin(name, topic, 2)
    asked.begin(name, topic, 2, partition=1, owner=owner)
    ran = ottla("txn", "abort", "--transactional-id", name, "--yes")
    assert (ran.code, ran.out) == (0, f"fenced: '{name}'; its transaction is aborted\n")
    assert starts(ottla, topic) == [None, None]
    assert asked.end(name, owner) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    described = ottla("txn", "describe", name, "--json").json
    assert described["producer_epoch"] > owner[1]
    assert described["timeout_ms"] == 60_000, "the timeout is the producer's, not ours"


def test_a_producer_without_a_transaction_is_fenced_too(ottla, asked, topic):
    name = f"idle-{topic}"
    asked.init(name, timeout_ms=12_345)
    told = ottla("txn", "abort", "--transactional-id", name, "--yes", "--json").json
    assert (told["was"], told["producer_epoch"]) == ("Empty", 1)
    assert ottla("txn", "describe", name, "--json").json["timeout_ms"] == 12_345


def test_an_id_that_nobody_knows_is_not_made_by_aborting_it(ottla):
    assert ottla("txn", "abort", "--transactional-id", "nobody", "--yes").code == 4
    assert ottla("txn", "describe", "nobody").code == 4


# --- asking first ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "code"), [("y\n", 0), ("n\n", 1), ("", 2)])
def test_nothing_happens_before_somebody_says_yes(asked, topic, said, code):
    asked.hang(topic)
    args = [f"{topic}:0", "--start-offset", "0", "-b", asked.address]
    result = CliRunner().invoke(abort, args, input=said, standalone_mode=True)
    assert result.exit_code == code
    assert f"in {topic}:0? [y/N]" in result.output
    assert ("aborted: " in result.output) == (code == 0)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "name a partition as in orders:0"),
        (["orders"], "name one partition of orders"),
        (["orders:0"], "say --start-offset, or --producer-id and --producer-epoch"),
        (["orders:0", "--producer-id", "1"], "say --start-offset, or"),
        (
            ["orders:0", "--start-offset", "1", "--producer-id", "1", "--producer-epoch", "1"],
            "say --start-offset",
        ),
        (["orders:0", "--start-offset", "1", "--coordinator-epoch", "1"], "goes with --producer-id"),
        (["orders:0", "--transactional-id", "t"], "--transactional-id goes alone"),
        (["--transactional-id", "t", "--force"], "--transactional-id goes alone"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(capsys, args, sentence):
    assert main(["txn", "abort", *args]) == 2
    assert sentence in capsys.readouterr().err
