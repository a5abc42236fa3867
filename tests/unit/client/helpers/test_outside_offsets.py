"""Offsets in a table, beside the results."""

import sqlite3
from collections.abc import Iterator

import pytest

from ottla.client.errors import CommitFailedError
from ottla.client.helpers.outside_offsets import SqliteOffsets
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def records(first: int, end: int) -> list[ConsumerRecord]:
    return [ConsumerRecord("t", 0, offset, 0, None, b"") for offset in range(first, end)]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE results (number INTEGER)")
    yield made
    made.close()


def test_offsets_are_loaded_for_what_is_known(connection):
    offsets = SqliteOffsets(connection, "g")
    assert offsets.load([ZERO, ONE]) == {}
    with offsets.transaction(records(5, 8)):
        pass
    assert offsets.load([ZERO, ONE]) == {ZERO: 8}
    assert SqliteOffsets(connection, "another").load([ZERO]) == {}


def test_results_and_offsets_are_there_together_or_not_at_all(connection):
    offsets = SqliteOffsets(connection, "g")
    with pytest.raises(ZeroDivisionError), offsets.transaction(records(0, 3)) as open_connection:
        open_connection.execute("INSERT INTO results VALUES (1)")
        raise ZeroDivisionError
    assert connection.execute("SELECT count(*) FROM results").fetchone() == (0,)
    assert offsets.load([ZERO]) == {}


def test_records_that_somebody_else_has_done_are_refused_with_their_results(connection):
    offsets = SqliteOffsets(connection, "g")
    with offsets.transaction(records(0, 5)):
        pass
    with pytest.raises(CommitFailedError, match="another reader"), offsets.transaction(records(3, 6)):
        connection.execute("INSERT INTO results VALUES (1)")
    assert connection.execute("SELECT count(*) FROM results").fetchone() == (0,)
    assert offsets.load([ZERO]) == {ZERO: 5}


def test_a_gap_in_the_log_is_no_obstacle(connection):
    offsets = SqliteOffsets(connection, "g")
    with offsets.transaction(records(0, 5)):
        pass
    with offsets.transaction(records(9, 10)):
        pass
    assert offsets.load([ZERO]) == {ZERO: 10}


def test_a_table_has_a_plain_name(connection):
    with pytest.raises(ConfigError, match="table"):
        SqliteOffsets(connection, "g", table='x"')
