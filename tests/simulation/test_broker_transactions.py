"""Transactions over whole brokers in virtual time, and the bugs that would be found."""

from collections import Counter
from itertools import islice

import pytest

from ottla.broker.remote_markers import MarkerRouter
from ottla.broker.verification import Verifier
from ottla.core.errors import ErrorCode
from ottla.testing.simulation.brokers.outcomes import _whole
from ottla.testing.simulation.brokers.runner import run
from ottla.testing.simulation.brokers.transactions import Attempt
from ottla.testing.simulation.cluster.profiles import PROFILES
from ottla.testing.simulation.cluster.schedule import draw
from ottla.transactions.shard import TransactionShard
from ottla.transactions.states import State
from tests.simulation.seeds import first_violation


def simulate(profile, count):
    """The first seeds that write transactions."""
    kind = PROFILES[profile]
    busy = (
        seed for seed in range(1_000) if any(work.kind == "transactions" for work in draw(seed, kind).work)
    )
    seeds = list(islice(busy, count))
    return lambda number: run(seeds[number], profile)


def test_transactions_come_to_one_end_each_whoever_coordinates_them():
    counts: Counter[str] = Counter()
    one = simulate("moves", 6)
    for number in range(6):
        counts.update(one(number).counts)
    assert counts.keys() >= {
        "a transaction is committed",
        "a transaction is aborted",
        "a transaction is left open",
        "another broker vouches",
        "another broker writes markers",
    }


async def _believes_that_no_answer_means_success(router, leader, marker):
    codes = await honest_write_at(router, leader, marker)
    return dict.fromkeys(codes, ErrorCode.NONE)


honest_write_at = MarkerRouter._write_at


async def _vouches_for_everybody(verifier, transactional_id, producer, places, *, adds):
    return dict.fromkeys(places, ErrorCode.NONE)


def _leaves_to_others_what_was_decided(shard, now):
    for transaction in list(shard._transactions.values()):
        if transaction.state is State.ONGOING:
            shard._watch(transaction, now.monotonic_ms + transaction.timeout_ms)


def _lets_nobodys_time_run_out(shard, transaction, deadline_ms):
    return None


BUGS = {
    "a marker that gets no answer is not sent again": (
        "moves",
        MarkerRouter,
        "_write_at",
        _believes_that_no_answer_means_success,
    ),
    "a batch is written that its coordinator does not know of": (
        "default",
        Verifier,
        "_ask",
        _vouches_for_everybody,
    ),
    "the next coordinator gives no orders": (
        "default",
        TransactionShard,
        "activate",
        _leaves_to_others_what_was_decided,
    ),
    "nobody aborts what is left open": ("default", TransactionShard, "_watch", _lets_nobodys_time_run_out),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(monkeypatch, bug):
    profile, owner, name, replacement = BUGS[bug]
    assert hasattr(owner, name)
    monkeypatch.setattr(owner, name, replacement)
    assert first_violation(simulate(profile, 100), 100) is not None


def test_half_a_transaction_is_told_from_a_whole_one_and_from_none():
    attempt = Attempt(3, {0: "a", 1: "b"}, None)
    assert _whole(attempt, {"a", "b", "c"}) is None
    assert _whole(attempt, {"c"}) is None
    assert _whole(attempt, {"a"}) == "of transaction 3 only ['a'] are there"
    attempt.is_committed = True
    assert _whole(attempt, set()) == "transaction 3 was committed, but is not there"
    attempt.is_committed = False
    assert _whole(attempt, {"a", "b"}) == "transaction 3 was aborted, but is there"
