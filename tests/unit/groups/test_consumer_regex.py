"""Patterns: which topics they match."""

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


def test_what_is_no_pattern_is_refused():
    with pytest.raises(KafkaError) as caught:
        check_pattern("(")
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
