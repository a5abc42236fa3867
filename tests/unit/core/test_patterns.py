"""Patterns of strangers: what is refused, and that time stays linear."""

import sys

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.patterns import PATTERN_BYTES_MAX, compile_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "*",
        r"(a)\1",
        "(?=a)",
        "(?<name>",
        "((a{100}){100}){100}",
        "\ud800",
        "|".join(f"{at}[^x]{{900}}" for at in range(40)),
        "(a?){1000}b",
        "(a?){1000}" * 20 + "b",
        "a" * (PATTERN_BYTES_MAX + 1),
    ],
)
def test_what_cannot_be_matched_in_linear_time_and_little_space_is_refused(pattern):
    with pytest.raises(KafkaError) as caught:
        compile_pattern(pattern)
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(caught.value.detail) < 1_000


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"\p{L}+-[\w.-]+", "größe-v1.2"),
        (
            "|".join(f"team-{number}-orders-(eu|us|ap)-v[0-9]+" for number in range(20)),
            "team-7-orders-us-v12",
        ),
        ("|".join(f"{number * 7919:020x}" for number in range(100)), f"{99 * 7919:020x}"),
    ],
)
def test_what_people_write_is_not_too_large(pattern, name):
    assert compile_pattern(pattern).fullmatch(name)


def test_a_pattern_that_makes_others_backtrack_is_harmless():
    # With a backtracking engine this would outlive the test run.
    assert not any(compile_pattern("(a+)+b").fullmatch("a" * 249) for _ in range(100))


def test_without_the_engine_the_refusal_says_what_to_install(monkeypatch):
    compile_pattern.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match=r"pip install ottla\[regex\]") as caught:
        compile_pattern("orders")
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
