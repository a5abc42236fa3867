"""Committed offsets: what is in force, what a transaction still holds back, and which record wins."""

import itertools
import tracemalloc

import pytest

from ottla.core.ids import TopicPartition
from ottla.groups.offsets import NO_EXPIRY, Offsets
from ottla.protocol.messages.coordinator_records import OffsetCommitValue

PRODUCER, OTHER = 7, 8


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, leader_epoch=3, metadata="note", commit_timestamp=1_000)


@pytest.fixture
def offsets() -> Offsets:
    return Offsets()


def put(offsets: Offsets, offset: int, producer_id: int | None = None, partition: int = 0) -> None:
    offsets.put("group", "orders", partition, value(offset), producer_id)


def current(offsets: Offsets, partition: int = 0) -> int | None:
    found = offsets.get("group", "orders", partition)
    return None if found is None else found.offset


def test_the_last_record_is_what_is_committed(offsets):
    put(offsets, 5)
    put(offsets, 3)
    found = offsets.get("group", "orders", 0)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (3, 3, "note")
    assert (found.commit_timestamp, found.expire_timestamp) == (1_000, NO_EXPIRY)


def test_nothing_is_committed_where_nobody_committed(offsets):
    put(offsets, 5)
    assert current(offsets, partition=1) is None
    assert offsets.get("group", "payments", 0) is None
    assert offsets.get("stranger", "orders", 0) is None
    assert not offsets.of_group("stranger")


def test_topics_are_those_that_somebody_committed_or_means_to(offsets):
    put(offsets, 5)
    offsets.put("other", "payments", 0, value(1), PRODUCER)
    assert offsets.topics() == {"orders", "payments"}
    offsets.end(PRODUCER, is_commit=False)
    offsets.remove("group", "orders", 0)
    assert offsets.topics() == set()


def test_a_tombstone_takes_an_offset_back(offsets):
    put(offsets, 5)
    put(offsets, 6, partition=1)
    offsets.remove("group", "orders", 0)
    assert current(offsets) is None
    assert current(offsets, partition=1) == 6
    offsets.remove("group", "orders", 1)
    assert offsets == Offsets(), "nothing is left of a group without offsets"


@pytest.mark.parametrize(
    "where", [("stranger", "orders", 0), ("group", "payments", 0), ("group", "orders", 9)]
)
def test_a_tombstone_for_what_is_not_there_changes_nothing(offsets, where):
    put(offsets, 5)
    offsets.remove(*where)
    assert list(offsets) == [("group", TopicPartition("orders", 0), 5)]


def test_an_offset_of_a_transaction_shows_once_it_is_committed(offsets):
    put(offsets, 1)
    put(offsets, 5, PRODUCER)
    assert current(offsets) == 1
    assert offsets.is_pending("group", "orders", 0)
    assert not offsets.is_pending("group", "orders", 1)
    offsets.end(PRODUCER, is_commit=True)
    assert current(offsets) == 5
    assert not offsets.is_pending("group", "orders", 0)
    assert not offsets.has_pending("group")


def test_an_offset_of_an_aborted_transaction_was_never_there(offsets):
    put(offsets, 1)
    put(offsets, 5, PRODUCER)
    offsets.end(PRODUCER, is_commit=False)
    assert current(offsets) == 1
    assert not offsets.is_pending("group", "orders", 0)


def test_a_transaction_that_commits_late_does_not_undo_a_newer_commit(offsets):
    put(offsets, 5, PRODUCER)
    put(offsets, 9)
    offsets.end(PRODUCER, is_commit=True)
    assert current(offsets) == 9


def test_of_two_transactions_the_later_record_wins_whichever_ends_first(offsets):
    for first, second in itertools.permutations((PRODUCER, OTHER)):
        offsets = Offsets()
        put(offsets, 5, PRODUCER)
        put(offsets, 6, OTHER)
        offsets.end(first, is_commit=True)
        assert offsets.is_pending("group", "orders", 0), "the other has yet to decide"
        offsets.end(second, is_commit=True)
        assert current(offsets) == 6


def test_the_last_word_of_a_transaction_counts(offsets):
    put(offsets, 5, PRODUCER)
    put(offsets, 4, PRODUCER)
    offsets.end(PRODUCER, is_commit=True)
    assert current(offsets) == 4


def test_a_tombstone_also_ends_what_transactions_had_in_mind(offsets):
    put(offsets, 5, PRODUCER)
    put(offsets, 6, OTHER)
    put(offsets, 7, OTHER, partition=1)
    offsets.remove("group", "orders", 0)
    assert not offsets.is_pending("group", "orders", 0)
    offsets.end(PRODUCER, is_commit=True)
    offsets.end(OTHER, is_commit=True)
    assert list(offsets) == [("group", TopicPartition("orders", 1), 7)]


def test_a_transaction_may_go_on_after_a_tombstone(offsets):
    put(offsets, 5, PRODUCER)
    offsets.remove("group", "orders", 0)
    put(offsets, 6, PRODUCER)
    offsets.end(PRODUCER, is_commit=True)
    assert current(offsets) == 6


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_of_a_transaction_without_offsets_changes_nothing(offsets, is_commit):
    put(offsets, 1)
    put(offsets, 5, PRODUCER)
    offsets.end(OTHER, is_commit)
    assert current(offsets) == 1
    assert offsets.is_pending("group", "orders", 0)


def test_ended_transactions_leave_nothing_behind(offsets):
    for group in ("group", "stranger"):
        offsets.put(group, "orders", 0, value(1), PRODUCER)
        offsets.put(group, "orders", 1, value(1), PRODUCER)
    offsets.end(PRODUCER, is_commit=False)
    assert offsets == Offsets()
    assert not list(offsets.pending_of_group("group"))


def test_the_offsets_of_a_topic_are_found_in_all_groups_each_once(offsets):
    put(offsets, 5)
    put(offsets, 6, PRODUCER)
    put(offsets, 6, PRODUCER, partition=1)
    offsets.put("group", "payments", 0, value(1), None)
    offsets.put("stranger", "orders", 2, value(1), None)
    assert sorted(offsets.of_topic("orders")) == [("group", 0), ("group", 1), ("stranger", 2)]


def test_an_offset_takes_little_memory(offsets):
    count = 10_000
    tracemalloc.start()
    for partition in range(count):
        offsets.put("group", "orders", partition, value(partition + 1_000_000), None)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 400, "bytes for each"
