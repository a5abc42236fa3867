"""What an answer to a fetch means for each partition."""

import asyncio
import uuid

import pytest

from ottla.client.cluster import Cluster
from ottla.client.consumer.answers import Answers
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetched import Decoding
from ottla.client.consumer.lookup import EpochEnd
from ottla.client.consumer.session import Wanted
from ottla.client.consumer.subscription import Position, Subscription
from ottla.client.errors import OffsetOutOfRangeError
from ottla.client.metadata import Node, PartitionInfo, TopicInfo
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.fetch import FetchResponse
from ottla.records.builder import build
from ottla.records.record import Record

PARTITION, ID = TopicPartition("t", 0), uuid.UUID(int=1 << 64)
Row = FetchResponse.Topic.Partition


class Reading:
    """One partition at offset 10, and what became of an answer about it."""

    def __init__(self, *rows, reset="earliest", change=lambda state: None, version=17, nodes=()):
        self.refreshed = 0
        self.truncated = []
        asyncio.run(self._run(rows, reset, change, version, nodes))

    async def _run(self, found, reset, change, version, nodes):
        config = ConsumerConfig({"auto.offset.reset": reset})
        cluster, subscription = Cluster(config), Subscription()
        self.metadata = cluster.metadata
        self.metadata.topics["t"] = TopicInfo("t", ID, (PartitionInfo("t", 0, 1, 5),))
        self.metadata.learn_brokers([Node(1, "a", 1), Node(2, "b", 2)])
        subscription.assign_manually([PARTITION])
        self.state = state = subscription.state(PARTITION)
        state.seek(Position(10, 5))
        asked = {PARTITION: Wanted(10, 5, 5, ID, state.life)}
        change(state)
        self.answers = Answers(
            cluster,
            config,
            subscription,
            Decoding(),
            refresh=self._refresh,
            truncated=lambda state, end: self.truncated.append(end),
        )
        rows = [FetchResponse.Topic(topic="t", topic_id=ID, partitions=list(found))]
        answer = FetchResponse(session_id=0, responses=rows, node_endpoints=list(nodes))
        self.fetched = list(self.answers.read(answer, 1, asked, version))

    def _refresh(self):
        self.refreshed += 1


def row(**fields):
    return Row(**{"partition_index": 0, "error_code": 0, "high_watermark": 20, "records": b"", **fields})


def test_records_are_copied_out_and_watermarks_noted():
    data = build([Record(10, 0, None, b"v")])
    reading = Reading(row(records=memoryview(data), last_stable_offset=15, log_start_offset=3))
    (fetched,) = reading.fetched
    assert [record.value for record in fetched.take(9)] == [b"v"]
    state = reading.state
    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (20, 15, 3)
    assert reading.answers.bytes_count == len(data)


@pytest.mark.parametrize("version", [4, 17])
def test_topics_are_known_by_name_or_by_id(version):
    assert Reading(row(records=build([Record(10, 0, None, b"v")])), version=version).fetched


def test_an_answer_for_an_earlier_life_does_not_count():
    reading = Reading(
        row(records=build([Record(10, 0, None, b"v")])), change=lambda state: state.seek(Position(3))
    )
    assert reading.fetched == [] and reading.state.high_watermark == -1


def test_half_a_batch_means_that_there_was_no_room():
    assert Reading(row(records=build([Record(10, 0, None, b"v")])[:-1])).fetched == []
    assert Reading(row(records=build([Record(10, 0, None, b"v")])[:-1]), version=2).fetched


def test_a_broker_may_send_the_reader_to_a_replica_near_by():
    assert Reading(row(preferred_read_replica=2)).state.preferred_replica == 2


def test_a_replica_that_does_not_have_it_sends_the_reader_back():
    def prefer(state):
        state.preferred_replica = 1

    reading = Reading(row(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), change=prefer)
    assert reading.state.preferred_replica == -1 and reading.state.position == Position(10, 5)


def test_a_position_outside_the_log_is_reset_or_raised():
    out_of_range = row(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert Reading(out_of_range).state.needs_reset == "earliest"
    reading = Reading(out_of_range, reset="none")
    with pytest.raises(OffsetOutOfRangeError, match="offset 10 of t-0"):
        reading.answers.raise_error()
    reading.answers.raise_error()  # once


def test_logs_that_part_are_told():
    reading = Reading(row(diverging_epoch=Row.EpochEndOffset(epoch=4, end_offset=7)))
    assert reading.truncated == [EpochEnd(4, 7)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_what_fresh_metadata_may_cure_asks_for_them(code):
    reading = Reading(row(error_code=code))
    assert reading.refreshed == 1 and reading.state.retry_at > 0 and not reading.answers.errors


def test_a_new_leader_that_is_named_is_followed_at_once():
    leader = Row.Leader(leader_id=3, leader_epoch=6)
    node = FetchResponse.NodeEndpoint(node_id=3, host="c", port=3)
    reading = Reading(row(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader), nodes=[node])
    assert reading.refreshed == 0 and reading.state.retry_at == 0
    assert reading.metadata.leader(PARTITION) == Node(3, "c", 3)


def test_what_nobody_can_cure_is_kept_for_a_poll():
    reading = Reading(row(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="fetching t-0 at offset 10"):
        reading.answers.raise_error()


def test_a_partition_that_is_answered_twice_counts_once():
    data = row(records=build([Record(10, 0, None, b"v")]))
    assert len(Reading(data, data).fetched) == 1


def test_what_a_topic_has_that_took_the_name_of_another_is_not_what_comes_next():
    def read_before(state):
        state.topic_id = uuid.UUID(int=2 << 64)

    for answer in (
        row(records=build([Record(10, 0, None, b"v")])),
        row(diverging_epoch=Row.EpochEndOffset(epoch=4, end_offset=7)),
    ):
        reading = Reading(answer, change=read_before)
        assert (reading.fetched, reading.truncated, reading.state.needs_reset) == ([], [], "earliest")
    assert Reading(row()).state.topic_id == ID
