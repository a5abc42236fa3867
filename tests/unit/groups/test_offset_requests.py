"""What requests about offsets become: records, rows, codes."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.groups import offset_requests
from ottla.groups.offsets import NO_EXPIRY, Offsets
from ottla.protocol.messages.coordinator_records import OffsetCommitValue
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, decode_value, encode_key, encode_value
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest

NOW = 1_700_000_000_000
LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)


def request(*metadata: str | None, **given: int) -> OffsetCommitRequest:
    """Commits offset 10 + n of partition n, with the n-th note."""
    partition = OffsetCommitRequest.Topic.Partition
    rows = [
        partition(partition_index=index, committed_offset=10 + index, committed_metadata=note)
        for index, note in enumerate(metadata)
    ]
    for row in rows:
        row.committed_leader_epoch = given.pop("leader_epoch", -1)
        row.commit_timestamp = given.pop("commit_timestamp", -1)
    return OffsetCommitRequest(
        group_id="group", topics=[OffsetCommitRequest.Topic(name="orders", partitions=rows)], **given
    )


def test_a_commit_becomes_one_record_for_each_partition():
    response, entries = offset_requests.commit(request("a", None, leader_epoch=4), 10, NOW)
    assert [(entry.key.group, entry.key.topic, entry.key.partition) for entry in entries] == [
        ("group", "orders", 0),
        ("group", "orders", 1),
    ]
    first, second = (entry.value for entry in entries)
    assert (first.offset, first.leader_epoch, first.metadata) == (10, 4, "a")
    assert (first.commit_timestamp, first.expire_timestamp) == (NOW, NO_EXPIRY)
    assert (second.offset, second.metadata) == (11, "")
    assert [row.error_code for row in response.topics[0].partitions] == [0, 0]


def test_a_note_that_is_too_long_is_refused_and_the_others_are_kept():
    response, entries = offset_requests.commit(request("ab", "abc", "a"), 2, NOW)
    assert [entry.key.partition for entry in entries] == [0, 2]
    assert [row.error_code for row in response.topics[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
    ]


@pytest.mark.parametrize(
    ("note", "fits"),
    [("", True), (None, True), ("abcd", True), ("abcde", False), ("äöüß", True), ("😀😀", True)],
)
def test_notes_are_measured_as_java_measures_strings(note, fits):
    _, entries = offset_requests.commit(request(note), 4, NOW)
    assert bool(entries) == fits
    assert not offset_requests.commit(request("😀😀😀"), 4, NOW)[1]


def test_a_client_may_say_how_long_an_offset_is_kept():
    _, entries = offset_requests.commit(request("", retention_time_ms=500), 10, NOW)
    assert entries[0].value.expire_timestamp == NOW + 500


@pytest.mark.parametrize("retention_ms", [0, 1, -2, LONG_MAX, LONG_MIN, -1 - NOW])
@pytest.mark.parametrize("leader_epoch", [-1, 4])
def test_whatever_retention_is_asked_for_the_record_says_what_its_bytes_say(retention_ms, leader_epoch):
    asked = request("note", retention_time_ms=retention_ms, leader_epoch=leader_epoch)
    [(key, value)] = offset_requests.commit(asked, 10, NOW)[1]
    assert decode_value(CONSUMER_OFFSETS, encode_key(key), encode_value(value)) == value


def test_the_first_clients_said_themselves_when_they_committed():
    _, entries = offset_requests.commit(request("", commit_timestamp=123), 10, NOW)
    assert entries[0].value.commit_timestamp == 123


def test_a_commit_in_a_transaction_is_judged_alike():
    partition = TxnOffsetCommitRequest.Topic.Partition
    rows = [
        partition(partition_index=0, committed_offset=5, committed_leader_epoch=2, committed_metadata=None),
        partition(partition_index=1, committed_offset=6, committed_metadata="too long"),
    ]
    asked = TxnOffsetCommitRequest(
        transactional_id="txn",
        group_id="group",
        producer_id=1,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequest.Topic(name="orders", partitions=rows)],
    )
    response, [entry] = offset_requests.commit_in_transaction(asked, 4, NOW)
    assert entry.value == OffsetCommitValue(offset=5, leader_epoch=2, metadata="", commit_timestamp=NOW)
    assert [row.error_code for row in response.topics[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]


@pytest.fixture
def offsets() -> Offsets:
    """orders-0 committed, orders-1 committed with a transaction about to change it, orders-2 only in a transaction."""
    offsets = Offsets()
    for partition, producer_id in ((0, None), (1, None), (1, 7), (2, 7)):
        value = OffsetCommitValue(offset=partition, leader_epoch=1, metadata="m", commit_timestamp=NOW)
        offsets.put("group", "orders", partition, value, producer_id)
    return offsets


def fetched(topics: list[offset_requests.FetchedTopic]) -> list[tuple[str, int, int, int, str, int]]:
    return [
        (
            topic.name,
            row.partition_index,
            row.committed_offset,
            row.committed_leader_epoch,
            row.metadata or "",
            row.error_code,
        )
        for topic in topics
        for row in topic.partitions
    ]


def ask(*partitions: int) -> OffsetFetchRequest.Group:
    topic = OffsetFetchRequest.Group.Topic(name="orders", partition_indexes=list(partitions))
    return OffsetFetchRequest.Group(group_id="group", topics=[topic])


def test_what_was_never_committed_is_minus_one_and_no_error(offsets):
    assert fetched(offset_requests.fetch(offsets, ask(0, 2, 9), require_stable=False)) == [
        ("orders", 0, 0, 1, "m", 0),
        ("orders", 2, -1, -1, "", 0),
        ("orders", 9, -1, -1, "", 0),
    ]


def test_who_wants_stable_offsets_is_told_where_there_are_none_yet(offsets):
    assert fetched(offset_requests.fetch(offsets, ask(0, 1, 2), require_stable=True)) == [
        ("orders", 0, 0, 1, "m", 0),
        ("orders", 1, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT),
        ("orders", 2, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ]


def test_who_names_no_topics_gets_all_that_is_committed(offsets):
    everything = OffsetFetchRequest.Group(group_id="group", topics=None)
    assert fetched(offset_requests.fetch(offsets, everything, require_stable=False)) == [
        ("orders", 0, 0, 1, "m", 0),
        ("orders", 1, 1, 1, "m", 0),
    ]
    assert fetched(offset_requests.fetch(offsets, everything, require_stable=True))[1][-1] == 88
    assert offset_requests.fetch_nothing(everything) == []


def test_a_group_that_is_not_there_has_committed_nothing():
    assert fetched(offset_requests.fetch_nothing(ask(0))) == [("orders", 0, -1, -1, "", 0)]


def test_only_what_is_there_gets_a_tombstone_and_only_once(offsets):
    rows = [OffsetDeleteRequest.Topic.Partition(partition_index=index) for index in (0, 2, 9, 0)]
    asked = OffsetDeleteRequest(
        group_id="group",
        topics=[
            OffsetDeleteRequest.Topic(name="orders", partitions=rows),
            OffsetDeleteRequest.Topic(name="read", partitions=rows[:1]),
        ],
    )
    response, entries = offset_requests.delete(offsets, asked, lambda topic: topic == "read")
    assert [(entry.key.partition, entry.value) for entry in entries] == [(0, None), (2, None)]
    assert [row.error_code for row in response.topics[0].partitions] == [0, 0, 0, 0]
    assert [row.error_code for row in response.topics[1].partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize(
    "erase",
    [
        lambda offsets: offset_requests.erase_group(offsets, "group"),
        lambda offsets: offset_requests.erase_topic(offsets, "orders"),
    ],
)
def test_erasing_reaches_open_transactions_too(offsets, erase):
    entries = list(erase(offsets))
    assert [entry.key.partition for entry in entries] == [0, 1, 2]
    for key, _ in entries:
        offsets.remove(key.group, key.topic, key.partition)
    offsets.end(7, is_commit=True)
    assert offsets == Offsets()
