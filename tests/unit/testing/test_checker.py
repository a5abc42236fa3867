"""The checker finds every kind of anomaly that is planted, and raises no alarm over what a correct log can do."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.testing.checker import ALLOWED, EXAMPLES_MAX, KINDS, check
from ottla.testing.history import Action, HistoryError, Operation, Outcome, Poll, Send
from tests.unit.testing.histories import MUTATIONS, CorrectLog

SEEDS = st.integers(0, 2**32)


def op(outcome, action, steps=(), process=0, **more):
    return Operation(0, Outcome(outcome), Action(action), process, 0, tuple(steps), **more)


def sent(key, value, offset, process=0):
    return op("ok", "send", [Send(key, value, offset)], process)


def polled(process=9, outcome="ok", **keys):
    return op(outcome, "poll", [Poll(keys)], process)


def txn(*steps, outcome="ok", process=0):
    return op(outcome, "txn", steps, process)


THREE = [sent("x", n, n) for n in range(3)]
ALL_THREE = polled(x=[(0, 0), (1, 1), (2, 2)])

PLANTED = {
    "nothing is wrong": ([*THREE, ALL_THREE], []),
    "a value in the middle is gone": (
        [*THREE, polled(x=[(0, 0), (2, 2)])], ["lost-write", "unseen", "internal-poll-skip"]
    ),
    "the last value is gone": ([*THREE, polled(x=[(0, 0), (1, 1)])], ["unseen"]),
    "a value is there twice": ([*THREE, ALL_THREE, polled(10, x=[(3, 1)])], ["duplicate"]),
    "two values at one offset": (
        [*THREE, sent("x", "other", 1, 1), ALL_THREE, polled(10, x=[(1, "other")])],
        ["inconsistent-offsets", "stale-offset"],
    ),
    "an aborted value is read": (
        [txn(Send("x", 1), outcome="fail"), polled(x=[(0, 1)])],
        ["aborted-read"],
    ),
    "a transaction reads itself": (
        [txn(Send("x", 1, 0), Poll({"x": [(0, 1)]}))],
        ["precommitted-read"],
    ),
    "half of a transaction that may have been done": (
        [txn(Send("x", 1), Send("y", 2), outcome="info"), polled(x=[(0, 1)])],
        ["torn-transaction"],
    ),
    "half of a transaction that was done": (
        [txn(Send("x", 1, 0), Send("y", 2, 0)), polled(x=[(0, 1)])],
        ["torn-transaction", "unseen"],
    ),
    "a value of nobody": ([*THREE, ALL_THREE, polled(10, x=[(7, "ghost")])], ["never-written"]),
    "a reader jumps": ([*THREE, ALL_THREE, polled(1, x=[(0, 0)]), polled(1, x=[(2, 2)])], ["poll-skip"]),
    "a reader goes back": (
        [*THREE, ALL_THREE, polled(1, x=[(0, 0), (1, 1)]), polled(1, x=[(0, 0), (1, 1), (2, 2)])],
        ["nonmonotonic-poll"],
    ),
    "a reader jumps within a poll": (
        [*THREE, ALL_THREE, polled(1, x=[(0, 0), (2, 2)])],
        ["internal-poll-skip"],
    ),
    "a reader goes back within a poll": (
        [*THREE, ALL_THREE, polled(1, x=[(1, 1), (0, 0)])],
        ["internal-nonmonotonic-poll"],
    ),
    "a later send lies before": (
        [sent("x", 1, 5), sent("x", 2, 3), polled(x=[(3, 2), (5, 1)])],
        ["nonmonotonic-send", "stale-offset"],
    ),
    "sends of one transaction are turned round": (
        [txn(Send("x", 1, 5), Send("x", 2, 3)), polled(x=[(3, 2), (5, 1)])],
        ["internal-nonmonotonic-send"],
    ),
    "an offset lower than one that was known before": (
        [sent("x", 1, 5, 1), op("invoke", "send", [Send("x", 2)], 2), sent("x", 2, 3, 2), polled(x=[(3, 2), (5, 1)])],
        ["stale-offset"],
    ),
    "transactions read from each other": (
        [txn(Send("x", 1, 0), Poll({"y": [(0, 2)]})), txn(Send("y", 2, 0), Poll({"x": [(0, 1)]}), process=1)],
        ["read-cycle"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_anomaly_is_found_and_nothing_else(name):
    history, expected = PLANTED[name]
    report = check(_invoked(history))
    assert report.broken == sorted(expected), str(report)
    assert report.is_valid == (not expected)


def _invoked(history):
    """Each operation is invoked right before it ends, unless the history says when."""
    for each in history:
        if each.outcome is not Outcome.INVOKE and each.process != 2:
            yield each._replace(outcome=Outcome.INVOKE)
        yield each


def test_every_kind_has_its_planted_anomaly():
    planted = {kind for _, kinds in PLANTED.values() for kind in kinds}
    assert planted == KINDS.keys() - ALLOWED


@pytest.mark.parametrize(
    ("kind", "history"),
    [
        ("group-poll-skip", [polled(1, x=[(0, 0)]), polled(1, x=[(2, 2)])]),
        ("group-nonmonotonic-poll", [polled(1, x=[(0, 0), (1, 1)]), polled(1, x=[(0, 0)])]),
    ],
)
def test_members_of_groups_are_moved_about(kind, history):
    subscribed = op("ok", "subscribe", keys=("x",), process=1)
    report = check([*THREE, ALL_THREE, subscribed, *history])
    assert report.is_valid and list(report.counts) == [kind]
    assert "which is allowed" in str(report)


def test_writes_of_transactions_are_not_kept_apart():
    one = txn(Send("x", 1, 0), Send("x", 2, 2), Send("y", 1, 1))
    other = txn(Send("x", 3, 1), Send("y", 2, 0), process=1)
    report = check([one, other, polled(x=[(0, 1), (1, 3), (2, 2)], y=[(0, 2), (1, 1)])])
    assert report.is_valid, str(report)
    assert report.counts == {"internal-send-skip": 1, "write-cycle": 1}


@pytest.mark.parametrize(
    "history",
    [
        [op("info", "send", [Send("x", 1)]), polled(x=[(0, 1)])],
        [op("info", "send", [Send("x", 1)]), polled(x=[])],
        [op("invoke", "send", [Send("x", 1)]), polled(x=[(0, 1)])],
        [op("fail", "send", [Send("x", 1)]), *THREE[2:], polled(x=[(2, 2)])],
        [*THREE, ALL_THREE, polled(1, x=[(0, 0)]), polled(1, "fail", x=[(1, 1)]), polled(1, x=[(1, 1)])],
        [*THREE, ALL_THREE, polled(1, x=[(2, 2)]), op("ok", "assign", process=1), polled(1, x=[(0, 0)])],
        # Sent first, but its outcome unknown: it may have arrived after what was sent later.
        [op("info", "send", [Send("x", "late")]), sent("x", 1, 0), polled(x=[(0, 1), (1, "late")])],
    ],
)
def test_what_nobody_knows_proves_nothing(history):
    report = check(history)
    assert report.is_valid, str(report)


def test_an_incomplete_history_leaves_open_what_was_not_read():
    history = [*THREE, polled(x=[(0, 0)]), txn(Send("y", 1), Send("z", 2)), polled(10, y=[(0, 1)])]
    assert check(history, is_complete=False).is_valid
    assert check(history).broken == ["torn-transaction", "unseen"]
    assert check([*THREE, polled(x=[(1, 1)])], is_complete=False).broken == ["lost-write"]


def test_keys_that_were_rebalanced_within_a_poll_may_jump():
    jump = polled(1, x=[(0, 0), (2, 2)])
    assert check([*THREE, ALL_THREE, jump._replace(rebalanced=frozenset("x"))]).is_valid
    assert not check([*THREE, ALL_THREE, jump]).is_valid


def test_values_must_be_unique():
    with pytest.raises(HistoryError, match="1 is sent to x twice"):
        check([sent("x", 1, 0), sent("x", 1, 1)])


def test_a_report_names_the_anomaly_its_values_and_operations_and_is_not_endless():
    report = check([*THREE, polled(x=[(0, 0), (2, 2)])])
    text = str(report)
    assert "wrong: internal-poll-skip, lost-write, unseen" in text
    assert "1 at 1 of x was read by nobody, but later ones were" in text
    assert "process 0 ok send x <- 1 at 1" in text
    many = check([sent("x", n, n) for n in range(5_000)])
    assert many.counts == {"unseen": 5_000} and len(many.examples["unseen"]) == EXAMPLES_MAX
    assert len(str(many).splitlines()) < 20


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_a_correct_log_never_raises_an_alarm(seed):
    history = CorrectLog(random.Random(seed)).run()
    report = check(history)
    assert report.is_valid, f"{report}\n" + "\n".join(map(str, history))


@pytest.mark.parametrize("kind", MUTATIONS)
@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_mutation_of_a_correct_history_is_found(kind, seed):
    chance = random.Random(seed)
    history = CorrectLog(chance).run()
    mutated = MUTATIONS[kind](history, chance)
    if mutated is not None:
        report = check(mutated)
        assert kind in report.counts, "\n".join(map(str, mutated))


def test_every_mutation_applies_to_most_histories():
    for kind, mutate in MUTATIONS.items():
        applied = 0
        for seed in range(40):
            chance = random.Random(seed)
            applied += mutate(CorrectLog(chance).run(), chance) is not None
        assert applied > 20, kind


def test_every_kind_that_must_not_be_has_a_mutation():
    assert MUTATIONS.keys() == KINDS.keys() - ALLOWED
