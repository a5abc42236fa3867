"""Patterns: what they match, what is refused, and that time stays linear."""

import sys

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_regex import check_pattern, matching

NAMES = ["orders", "orders-eu", "payments", "órdenes"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", {"orders"}),
        ("order", set()),
        ("orders.*", {"orders", "orders-eu"}),
        (".*", set(NAMES)),
        ("(orders|payments)", {"orders", "payments"}),
        ("ó.*", {"órdenes"}),
        (r"\p{L}+", {"orders", "payments", "órdenes"}),
    ],
)
def test_a_pattern_matches_whole_names(pattern, names):
    assert matching(pattern, NAMES) == names


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "*",
        r"(a)\1",
        "(?=a)",
        "((a{100}){100}){100}",
        "\ud800",
        "|".join(f"{at}[^x]{{900}}" for at in range(40)),
    ],
)
def test_what_cannot_be_matched_in_linear_time_and_little_space_is_refused(pattern):
    with pytest.raises(KafkaError) as caught:
        check_pattern(pattern)
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(caught.value.detail) < 1_000


def test_a_pattern_that_makes_others_backtrack_is_harmless():
    # With a backtracking engine this would outlive the test run.
    assert matching("(a+)+b", ["a" * 249] * 100) == set()


def test_without_the_engine_the_refusal_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match=r"pip install ottla\[regex\]") as caught:
        check_pattern("orders")
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
