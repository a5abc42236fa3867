"""What the headers of a failed record say, and what they cannot make us believe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.helpers.failures import Failure
from ottla.client.records import ConsumerRecord

NO_NUMBER = ValueError("no number")
HEADERS = (("trace", b"1"), ("trace", None), ("unit", b"\xff\x00"))


def record(headers: tuple = HEADERS, **more) -> ConsumerRecord:
    fields = {"topic": "orders", "partition": 3, "offset": 7, "timestamp": 1000, "key": b"k", "value": b"v"}
    return ConsumerRecord(**{**fields, "headers": headers, **more})


def failed(first: ConsumerRecord, error: Exception = NO_NUMBER, now_ms: int = 5000, **more):
    """The record as it lies in a retry topic."""
    failure = Failure.of(first).again(error, 1, now_ms, **more)
    return first._replace(
        topic="orders.retry.1", partition=0, offset=0, timestamp=now_ms, headers=tuple(failure.headers(first))
    )


def test_a_record_that_never_failed_is_where_it_is():
    assert Failure.of(record()) == Failure("orders", 3, 7, 1000)


def test_the_headers_say_where_from_how_often_when_and_why():
    found = Failure.of(failed(record(), pause_ms=100))
    assert found == Failure("orders", 3, 7, 1000, 1, "builtins.ValueError", "no number", 5000, 5000, 5100)


def test_the_record_comes_back_as_it_was():
    copy = failed(failed(record(), pause_ms=100))
    assert copy.headers[: len(HEADERS)] == HEADERS
    assert Failure.of(copy).original(copy) == record()


def test_a_second_failure_keeps_the_origin_and_the_first_moment():
    copy = failed(failed(record(), pause_ms=100), KeyError("x"), 9000)
    found = Failure.of(copy)
    assert (found.topic, found.offset, found.attempt) == ("orders", 7, 2)
    assert (found.first_failure_ms, found.last_failure_ms, found.due_ms) == (5000, 9000, -1)
    names = [key for key, _ in copy.headers]
    assert len(names) == len(set(names)) + 1  # `trace` was there twice


def test_long_sentences_are_cut():
    assert len(Failure.of(failed(record(), ValueError("x" * 100_000))).reason) == 2000


@pytest.mark.parametrize("text", [b"-1", b"1e9", "٣".encode(), b"9" * 50, b"", b"\xff", None])
def test_a_number_that_is_none_counts_as_missing(text):
    headers = (("x-original-topic", b"a"), ("x-original-partition", text), ("x-original-offset", b"1"))
    assert Failure.of(record(headers)) == Failure("orders", 3, 7, 1000)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x-original-topic", "ottla-retry-attempt", "ottla-retry-due"]),
            st.none() | st.binary(max_size=30),
        )
    )
)
def test_no_header_is_too_strange(headers):
    strange = record(tuple(headers))
    Failure.of(failed(strange)).original(strange)
