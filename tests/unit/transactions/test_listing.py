"""Filters of ListTransactions."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.transactions.listing import Filters, matcher, unknown_states
from ottla.transactions.states import State
from ottla.transactions.transaction import Transaction

NOW_MS = 10_000
OPEN = Transaction("orders-1", 7, 3, 60_000, State.ONGOING, frozenset(), 0, start_ms=9_000)


def is_listed(transaction=OPEN, **filters):
    return matcher(Filters(**filters), NOW_MS)(transaction)


def test_without_filters_everything_is_listed():
    assert is_listed()


def test_states_are_kafkas_names_and_unknown_ones_match_nothing():
    assert is_listed(state_names=["Ongoing"])
    assert is_listed(state_names=["Empty", "Ongoing", "Nonsense"])
    assert not is_listed(state_names=["Empty"])
    assert not is_listed(state_names=["Nonsense"])
    assert not is_listed(state_names=["ongoing"]), "case counts, as in Kafka"
    assert unknown_states(["Ongoing", "ongoing", "Nonsense", "Nonsense"]) == ["ongoing", "Nonsense"]


def test_producer_ids():
    assert is_listed(producer_ids=[1, 7])
    assert not is_listed(producer_ids=[1])


def test_duration_counts_from_the_start_of_the_transaction():
    assert is_listed(duration_ms=999)
    assert not is_listed(duration_ms=1000)
    assert is_listed(duration_ms=-1)


def test_a_pattern_matches_the_whole_id():
    assert is_listed(pattern="orders-[0-9]+")
    assert not is_listed(pattern="orders")
    assert is_listed(pattern="")


def test_what_is_no_pattern_is_refused():
    with pytest.raises(KafkaError) as caught:
        is_listed(pattern="(")
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
