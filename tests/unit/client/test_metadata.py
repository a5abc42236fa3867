"""What clients know of the cluster: newer answers count, older ones do not, and a topic may be another one by now."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import ProtocolMismatch
from ottla.client.metadata import Metadata, Node
from ottla.core.errors import ErrorCode
from ottla.core.ids import NULL_ID, TopicPartition
from ottla.protocol.messages.metadata import MetadataResponse

ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
PLACE = TopicPartition("t", 0)


def answer(*topics: MetadataResponse.Topic, brokers: tuple[int, ...] = (1, 2, 3)) -> MetadataResponse:
    rows = [MetadataResponse.Broker(node_id=each, host=f"h{each}", port=9092) for each in brokers]
    return MetadataResponse(brokers=rows, controller_id=1, topics=list(topics))


def topic(
    *leaders: tuple[int, int], topic_id: uuid.UUID = ONE, error: int = 0, name: str = "t", start: int = 0
):
    """`leaders` are id and epoch of each partition's."""
    rows = [
        MetadataResponse.Topic.Partition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[],
            isr_nodes=[],
        )
        for number, (leader, epoch) in enumerate(leaders, start)
    ]
    return MetadataResponse.Topic(error_code=error, name=name, topic_id=topic_id, partitions=rows)


def leader(metadata: Metadata) -> int | None:
    node = metadata.leader(PLACE)
    return None if node is None else node.node_id


def test_an_answer_with_an_older_leader_epoch_does_not_count():
    metadata = Metadata()
    metadata.update(answer(topic((1, 5))), ["t"])
    metadata.update(answer(topic((2, 4))), ["t"])
    assert leader(metadata) == 1
    metadata.update(answer(topic((2, 5))), ["t"])
    assert leader(metadata) == 2
    metadata.update(answer(topic((3, -1))), ["t"])  # a broker that knows no epochs
    assert leader(metadata) == 3


def test_a_topic_that_was_made_anew_begins_anew():
    metadata = Metadata()
    metadata.update(answer(topic((1, 5), (1, 5))), ["t"])
    metadata.update(answer(topic((2, 0), topic_id=OTHER)), ["t"])
    assert leader(metadata) == 2
    assert len(metadata.topics["t"].partitions) == 1
    assert metadata.names == {OTHER: "t"}
    assert metadata.topic_id("t") == OTHER


def test_a_broker_that_is_behind_takes_no_partitions_away_and_leaves_gaps_without_a_leader():
    metadata = Metadata()
    metadata.update(answer(topic((1, 0), (2, 0), (3, 0))), ["t"])
    metadata.update(answer(topic((2, 1))), ["t"])
    assert [each.leader for each in metadata.topics["t"].partitions] == [2, 2, 3]
    metadata.update(answer(topic((2, 1), name="gap", start=2)), ["gap"])
    assert metadata.topics["gap"].available == [2]
    assert metadata.leader(TopicPartition("gap", 0)) is None


def test_a_leader_that_does_not_live_is_none():
    metadata = Metadata()
    metadata.update(answer(topic((9, 0))), ["t"])
    assert leader(metadata) is None
    metadata.learn_brokers([Node(9, "h9", 1)])
    assert leader(metadata) == 9
    assert metadata.leader(TopicPartition("t", 7)) is metadata.leader(TopicPartition("u", 0)) is None


def test_errors_are_kept_until_they_pass_and_a_topic_without_a_leader_is_none():
    metadata = Metadata()
    metadata.update(answer(topic((1, 0))), ["t"])
    metadata.update(answer(topic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), ["t"])
    assert "t" not in metadata.topics and not metadata.names
    assert metadata.errors["t"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata.update(answer(topic((-1, 1), error=ErrorCode.LEADER_NOT_AVAILABLE)), ["t"])
    assert not metadata.errors
    assert metadata.topics["t"].available == []


def test_an_answer_about_all_topics_makes_forget_the_others():
    metadata = Metadata()
    metadata.update(answer(topic((1, 0)), topic((1, 0), name="u", topic_id=OTHER)), ["t", "u"])
    metadata.update(answer(topic((1, 0))), ["t"])
    assert set(metadata.topics) == {"t", "u"}
    metadata.update(answer(topic((1, 0))), None)
    assert set(metadata.topics) == {"t"}


def test_a_leader_that_a_broker_names_counts_if_it_is_newer_and_known():
    metadata = Metadata()
    metadata.update(answer(topic((1, 5))), ["t"])
    assert not metadata.learn_leader(PLACE, 2, 5)
    assert not metadata.learn_leader(PLACE, 9, 6)
    assert not metadata.learn_leader(TopicPartition("u", 0), 2, 6)
    assert metadata.learn_leader(PLACE, 2, 6)
    assert leader(metadata) == 2


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1))
def test_whatever_the_order_of_the_answers_the_newest_epoch_leads(seen):
    metadata = Metadata()
    for row in seen:
        metadata.update(answer(topic(row, topic_id=NULL_ID)), ["t"])
    newest = max(epoch for _, epoch in seen)
    assert metadata.partition(PLACE).leader_epoch == newest
    assert (leader(metadata), newest) in seen


def test_a_partition_with_an_impossible_number_is_named_and_costs_nothing():
    with pytest.raises(ProtocolMismatch, match="topic t has a partition 2147483647"):
        Metadata().update(answer(topic((1, 0), start=(1 << 31) - 1)), ["t"])
