"""Offsets committed within a transaction: seen when it commits, and never without it."""

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.offsets import OffsetFetchRequest
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest
from ottla.replication.machine import Producer
from tests.unit.broker.handlers.coordinating import coordinating, scenario

GROUP = "readers"


class Owner:
    """A producer with a transactional id, which also commits what it has read."""

    def __init__(self, client):
        self.client = client
        self.me = {"transactional_id": "mine", "producer_id": -1, "producer_epoch": -1}

    async def init(self):
        given = await self.client.ask(
            "InitProducerId", 4, transactional_id="mine", transaction_timeout_ms=60_000
        )
        self.me |= {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
        return self

    async def announce(self):
        added = await self.client.ask("AddOffsetsToTxn", 3, **self.me, group_id=GROUP)
        assert added.error_code == ErrorCode.NONE

    async def commit(self, version, *places, group_id=GROUP, **how):
        topic = TxnOffsetCommitRequest.Topic
        topics = [
            topic(
                name=name,
                partitions=[
                    topic.Partition(partition_index=index, committed_offset=offset, committed_metadata=None)
                ],
            )
            for name, index, offset in places
        ]
        response = await self.client.ask(
            "TxnOffsetCommit", version, **self.me, group_id=group_id, topics=topics, **how
        )
        return [
            (each.name, part.partition_index, ErrorCode(part.error_code))
            for each in response.topics
            for part in each.partitions
        ]

    async def end(self, version=4, *, committed=True):
        ended = await self.client.ask("EndTxn", version, **self.me, committed=committed)
        assert ended.error_code == ErrorCode.NONE
        return ended


async def fetched(client, *, require_stable=False):
    """Offset and error of partition 0 of "tea"."""
    topic = OffsetFetchRequest.Topic(name="tea", partition_indexes=[0])
    response = await client.ask(
        "OffsetFetch", 7, group_id=GROUP, topics=[topic], require_stable=require_stable
    )
    (found,) = response.topics[0].partitions
    return found.committed_offset, ErrorCode(found.error_code)


@pytest.mark.parametrize("version", range(6))
@scenario
async def test_offsets_are_seen_when_the_transaction_commits(version):
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        if version < 5:
            await owner.announce()
        assert await owner.commit(version, ("tea", 0, 7)) == [("tea", 0, ErrorCode.NONE)]
        assert await fetched(client) == (-1, ErrorCode.NONE)
        assert await fetched(client, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await owner.end(5 if version == 5 else 4)
        assert await fetched(client, require_stable=True) == (7, ErrorCode.NONE)


@scenario
async def test_offsets_of_a_transaction_that_aborts_are_never_seen():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        await owner.commit(5, ("tea", 0, 7))
        await owner.end(5, committed=False)
        assert await fetched(client, require_stable=True) == (-1, ErrorCode.NONE)


@scenario
async def test_a_transaction_that_knows_nothing_of_the_group_cannot_commit_its_offsets():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        old, new = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE
        for version, code in [(0, old), (3, old), (4, new)]:
            assert await owner.commit(version, ("tea", 0, 7)) == [("tea", 0, code)]
        assert await fetched(client, require_stable=True) == (-1, ErrorCode.NONE)


@scenario
async def test_a_transaction_that_has_committed_here_is_not_asked_again():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        await owner.commit(5, ("tea", 0, 7))
        client.node.transactions.close()
        assert await owner.commit(5, ("tea", 1, 8)) == [("tea", 1, ErrorCode.NONE)]
        assert await owner.commit(3, ("tea", 1, 9)) == [("tea", 1, ErrorCode.NONE)]
        owner.me["producer_epoch"] += 1
        assert await owner.commit(5, ("tea", 1, 9)) == [("tea", 1, ErrorCode.NOT_COORDINATOR)]


@scenario
async def test_verification_can_be_turned_off():
    async with coordinating("tea", config={"transaction.partition.verification.enable": False}) as client:
        owner = await Owner(client).init()
        assert await owner.commit(3, ("tea", 0, 7)) == [("tea", 0, ErrorCode.NONE)]


@scenario
async def test_a_marker_that_comes_first_ends_the_transaction_of_the_commit():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        await owner.announce()
        node = client.node
        place = TopicPartition("__consumer_offsets", node.groups.partition_of(GROUP))
        read = node.transactions.read

        async def overtaken(*question):
            answer = await read(*question)
            producer = Producer(owner.me["producer_id"], owner.me["producer_epoch"])
            node.coordination.verifier.guards.end(place, producer)
            return answer

        node.transactions.read = overtaken
        assert await owner.commit(3, ("tea", 0, 7)) == [("tea", 0, ErrorCode.INVALID_TXN_STATE)]
        assert await owner.commit(4, ("tea", 0, 7)) == [("tea", 0, ErrorCode.TRANSACTION_ABORTABLE)]
        del node.transactions.read
        assert await owner.commit(4, ("tea", 0, 7)) == [("tea", 0, ErrorCode.NONE)]
        assert len(node.coordination.verifier.guards) == 0


@scenario
async def test_a_producer_that_was_replaced_commits_nothing():
    async with coordinating("tea") as client:
        late = await Owner(client).init()
        await Owner(client).init()
        for version in (3, 5):
            assert await late.commit(version, ("tea", 0, 7)) == [("tea", 0, ErrorCode.INVALID_PRODUCER_EPOCH)]


@scenario
async def test_who_is_of_no_generation_commits_nothing():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        member = {"generation_id": 4, "member_id": "ghost"}
        assert await owner.commit(5, ("tea", 0, 7), ("nowhere", 0, 1), **member) == [
            ("tea", 0, ErrorCode.ILLEGAL_GENERATION),
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]


@scenario
async def test_topics_that_are_refused_leave_the_others_alone():
    async with coordinating("tea", "gin") as client:
        owner = await Owner(client).init()
        client.node.authorizer.deny(Operation.READ, "gin")
        assert await owner.commit(5, ("nowhere", 0, 1), ("tea", 0, 7), ("gin", 0, 2), ("tea", 9, 3)) == [
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("tea", 0, ErrorCode.NONE),
            ("gin", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("tea", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]


@scenario
async def test_who_may_not_is_told_what_is_missing():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        assert await owner.commit(5, ("tea", 0, 7), group_id="") == [("tea", 0, ErrorCode.INVALID_GROUP_ID)]
        client.node.authorizer.deny(Operation.READ, GROUP)
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await owner.commit(5, ("tea", 0, 7)) == [("tea", 0, denied)]
        client.node.authorizer.deny(Operation.WRITE, "mine")
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await owner.commit(5, ("tea", 0, 7)) == [("tea", 0, denied)]


@scenario
async def test_producers_that_know_nothing_of_loading_are_told_that_nobody_is_there():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        await owner.announce()
        groups = client.node.groups
        groups.close()
        groups._loads = dict.fromkeys(range(3))
        for version, code in [
            (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ]:
            assert await owner.commit(version, ("tea", 0, 7)) == [("tea", 0, code)]
        groups._loads = {}
