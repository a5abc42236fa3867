"""What coordinators do with what no client should send. The numbers name rows of our table of bad inputs.

Everything goes through a real socket, is answered with the right code, and leaves groups, offsets and transactions as
they were.
"""

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from ottla.testing import Broker
from tests.scenarios.raw import Raw

TOPIC = "orders"
GROUP = "readers"
MIB = 1 << 20


@pytest.fixture
def broker():
    config = {"group.max.count": 40, "offsets.topic.num.partitions": 1}
    with Broker(memory=True, config=config) as broker:
        broker.create_topic(TOPIC)
        yield broker


@pytest.fixture
def raw(broker):
    with Raw(broker.port) as raw:
        for key_type in 0, 1:
            found = raw.ask(FindCoordinatorRequest(key="any", key_type=key_type), 3)
            assert found.error_code == ErrorCode.NONE
        yield raw


def joining(member_id="", metadata=b"", session_timeout_ms=30_000):
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    )


def join(raw, *what, **how):
    return raw.ask(joining(*what, **how), 3)


def settled(raw):
    """A group of one: its member and generation."""
    joined = join(raw)
    assert joined.error_code == ErrorCode.NONE
    assignments = [SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"all")]
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
    )
    assert raw.ask(request, 2).error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id


def commit(raw, offset=1, metadata="", group=GROUP, member_id="", generation=-1):
    partition = OffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequest.Topic(name=TOPIC, partitions=[partition])],
    )
    return raw.ask(request, 5).topics[0].partitions[0].error_code


def committed(raw, group=GROUP):
    topics = [OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[0])]
    found = raw.ask(OffsetFetchRequest(group_id=group, topics=topics), 5)
    return found.topics[0].partitions[0].committed_offset


def state(raw):
    """All there is to see of the group."""
    (group,) = raw.ask(DescribeGroupsRequest(groups=[GROUP]), 4).groups
    return group, committed(raw)


def test_b22_a_note_that_is_too_long_is_not_kept_and_neither_is_its_offset(raw):
    assert commit(raw, offset=5, metadata="x" * 4096) == ErrorCode.NONE
    assert commit(raw, offset=6, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert committed(raw) == 5


def test_b22_a_member_that_brings_megabytes_along_is_refused_and_forgotten(raw):
    before = raw.ask(ListGroupsRequest(), 2).groups
    assert join(raw, metadata=b"x" * (20 * MIB)).error_code == ErrorCode.INVALID_REQUEST
    assert raw.ask(ListGroupsRequest(), 2).groups == before


def test_b22_a_group_takes_no_more_members_than_it_may_have():
    with Broker(memory=True, config={"group.max.size": 1}) as broker, Raw(broker.port) as raw:
        raw.ask(FindCoordinatorRequest(key=GROUP, key_type=0), 3)
        member, generation = settled(raw)
        assert join(raw).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        beat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member)
        assert raw.ask(beat, 3).error_code == ErrorCode.NONE, "the group has not noticed"


def test_b22_strangers_cannot_make_a_broker_remember_any_number_of_groups(raw):
    codes = [commit(raw, group=f"group-{number}") for number in range(45)]
    assert codes == [ErrorCode.NONE] * 40 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 5
    assert commit(raw, offset=9, group="group-0") == ErrorCode.NONE, "those that are known go on"


@pytest.mark.parametrize("timeout_ms", [-1, 0, 5_999, 1_800_001, 2**31 - 1])
def test_a_session_that_is_absurdly_short_or_long_is_refused(raw, timeout_ms):
    assert join(raw, session_timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert raw.ask(ListGroupsRequest(), 2).groups == []


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001, 2**31 - 1])
def test_a_transaction_timeout_that_is_absurd_is_refused(raw, timeout_ms):
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=timeout_ms)
    assert raw.ask(request, 4).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    listed = raw.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
    assert listed.transaction_states == []


def test_who_is_no_member_changes_nothing(raw):
    _, generation = settled(raw)
    before = state(raw)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id="stranger", assignments=[])
    for request, version in (
        (HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id="stranger"), 3),
        (sync, 3),
        (LeaveGroupRequest(group_id=GROUP, member_id="stranger"), 2),
    ):
        assert raw.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert join(raw, "stranger").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(raw, member_id="stranger", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert state(raw) == before


@pytest.mark.parametrize("off", [-1, 1, 100])
def test_another_generation_changes_nothing(raw, off):
    member, generation = settled(raw)
    before, other = state(raw), generation + off
    beat = HeartbeatRequest(group_id=GROUP, generation_id=other, member_id=member)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=other, member_id=member, assignments=[])
    assert raw.ask(beat, 3).error_code == ErrorCode.ILLEGAL_GENERATION
    assert raw.ask(sync, 3).error_code == ErrorCode.ILLEGAL_GENERATION
    assert commit(raw, member_id=member, generation=other) == ErrorCode.ILLEGAL_GENERATION
    assert state(raw) == before


def test_who_names_no_generation_cannot_commit_over_the_heads_of_members(raw):
    settled(raw)
    assert commit(raw) == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(raw) == -1


@pytest.mark.parametrize("pattern", ["(", "(a+)+$" * 2000, "(a{1000}){1000}", "(?=a)"])
def test_b23_a_pattern_that_could_hold_a_broker_up_is_refused(raw, pattern):
    request = ConsumerGroupHeartbeatRequest(
        group_id="modern",
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[],
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    assert raw.ask(request, 1).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert raw.ask(ListGroupsRequest(), 2).groups == []


def test_b24_producer_ids_cost_nothing_until_somebody_writes(raw):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    ids = {raw.ask(request, 4).producer_id for _ in range(3_000)}
    assert len(ids) == 3_000
    topics = [DescribeProducersRequest.Topic(name=TOPIC, partition_indexes=[0])]
    (described,) = raw.ask(DescribeProducersRequest(topics=topics), 0).topics[0].partitions
    assert described.active_producers == []


def test_a_transaction_of_somebody_else_is_not_touched(raw):
    mine = raw.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=mine.producer_id + 1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[],
    )
    raw.ask(added, 3)
    for producer_id, epoch, code in (
        (mine.producer_id + 1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (mine.producer_id, 7, ErrorCode.PRODUCER_FENCED),
        (mine.producer_id, 0, ErrorCode.INVALID_TXN_STATE),
    ):
        request = EndTxnRequest(
            transactional_id="t", producer_id=producer_id, producer_epoch=epoch, committed=True
        )
        assert raw.ask(request, 3).error_code == code
    (listed,) = raw.ask(
        ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0
    ).transaction_states
    assert listed.transaction_state == "Empty"
