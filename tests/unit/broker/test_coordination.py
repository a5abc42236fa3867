"""Coordinators, logs and metadata of one broker, tied together; and over restarts."""

import asyncio
import contextlib

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import JoinGroupRequest
from ottla.protocol.messages.offsets import OffsetCommitRequest
from tests.unit.broker.handlers.coordinating import Client, coordinating, scenario
from tests.unit.broker.handlers.test_txn_offsets import GROUP, Owner, fetched

MEMBER = {
    "group_id": GROUP,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "protocol_type": "consumer",
    "protocols": [JoinGroupRequest.Protocol(name="range", metadata=b"")],
}


async def commit(client, offset, topic="tea"):
    partition = OffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topics = [OffsetCommitRequest.Topic(name=topic, partitions=[partition])]
    response = await client.ask("OffsetCommit", 8, group_id=GROUP, topics=topics)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


async def ready(client):
    """Wait until everything is loaded."""
    while client.node.groups.is_loading or client.node.transactions.is_loading:
        await asyncio.sleep(0)


async def reborn(client, *, kill=False):
    """The same broker after a restart, and a new client of it."""
    await (client.broker.kill() if kill else client.broker.stop())
    await client.broker.start()
    again = Client(client.broker.node)
    again.broker = client.broker
    await ready(again)
    return again


@scenario
async def test_a_broker_that_coordinates_nothing_makes_no_coordinators():
    async with coordinating() as client:
        again = client.broker.node
        assert "coordination" in vars(again)
    from ottla.testing import AsyncBroker

    async with AsyncBroker(memory=True) as broker:
        assert "coordination" not in vars(broker.node)


@scenario
async def test_committed_offsets_outlive_a_restart_and_a_crash():
    async with coordinating("tea") as client:
        await commit(client, 5)
        client = await reborn(client)
        assert await fetched(client) == (5, ErrorCode.NONE)
        await commit(client, 6)
        client = await reborn(client, kill=True)
        assert await fetched(client) == (6, ErrorCode.NONE)


@scenario
async def test_offsets_of_a_deleted_topic_go_with_it():
    async with coordinating("tea") as client:
        await commit(client, 5)
        await client.broker.node.controller.delete_topics(["tea"])
        await client.broker.create_topic("tea", partitions=2)
        assert await fetched(client) == (-1, ErrorCode.NONE)
        client = await reborn(client)
        assert await fetched(client) == (-1, ErrorCode.NONE)


@scenario
async def test_a_topic_that_is_deleted_while_offsets_are_loaded_takes_them_along():
    async with coordinating("tea") as client:
        await commit(client, 5)
        groups = client.node.groups
        (index,) = [index for index, shard in groups.shards.items() if shard.machine.count]
        groups.reload(groups.shards[index], "for the test")
        assert groups.is_loading
        client.node.metadata.update(deleted=["tea"])
        await ready(client)
        assert list(groups.shards[index].machine.committed()) == []


@scenario
async def test_offsets_of_a_deleted_topic_go_with_the_next_start_if_a_crash_came_between():
    async with coordinating("tea", "rum") as client:
        await commit(client, 5)
        await commit(client, 6, topic="rum")
        client.node.metadata.on_update = lambda changed, deleted: None  # it dies before anybody is told
        await client.broker.node.controller.delete_topics(["tea"])
        client = await reborn(client, kill=True)
        await client.broker.create_topic("tea", partitions=2)
        assert await fetched(client) == (-1, ErrorCode.NONE)
        (kept,) = [each for shard in client.node.groups.shards.values() for each in shard.machine.committed()]
        assert kept == (GROUP, TopicPartition("rum", 0), 6)


@scenario
async def test_a_transaction_that_was_decided_is_ended_by_the_next_start():
    async with coordinating("tea") as client:
        owner = await Owner(client).init()
        await owner.announce()
        await owner.commit(3, ("tea", 0, 7))
        client.node.coordination._ender.carry_out = lambda effect: (
            None
        )  # it dies before any marker is written
        client.node.transactions.on_effect = lambda effect: None
        await owner.end()
        assert await fetched(client, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        client = await reborn(client, kill=True)
        while (await fetched(client, require_stable=True))[1]:
            await asyncio.sleep(0)
        assert await fetched(client) == (7, ErrorCode.NONE)


@scenario
async def test_who_watches_is_told_of_offsets_when_their_transaction_commits():
    class Witness:
        seen = []

        def appended(self, *what): ...

        def committed(self, group, place, offset):
            self.seen.append((group, place, offset))

    async with coordinating("tea") as client:
        client.node.observers.append(Witness())
        owner = await Owner(client).init()
        for is_commit, offset in (False, 3), (True, 7):
            await owner.announce()
            await owner.commit(3, ("tea", 0, offset))
            assert Witness.seen == []
            await owner.end(committed=is_commit)
        assert Witness.seen == [(GROUP, TopicPartition("tea", 0), 7)]


@scenario
async def test_a_member_that_waits_for_others_does_not_keep_the_broker_from_stopping():
    async with coordinating("tea", config={"group.initial.rebalance.delay.ms": 600_000}) as client:
        joining = asyncio.ensure_future(client.ask("JoinGroup", 3, **MEMBER, member_id=""))
        await asyncio.sleep(0)
        assert not joining.done()
        await client.broker.stop()
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR


@scenario
async def test_a_killed_broker_leaves_no_task_behind():
    async with coordinating("tea", config={"group.initial.rebalance.delay.ms": 600_000}) as client:
        joining = asyncio.ensure_future(client.ask("JoinGroup", 3, **MEMBER, member_id=""))
        await asyncio.sleep(0)
        await client.broker.kill()
        joining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await joining
        left = {task.get_name() for task in asyncio.all_tasks() if not task.done()}
        assert not left & {"expire offsets", "expire transactional ids", "measure lag"}


@scenario
async def test_what_is_old_is_forgotten_in_every_shard():
    async with coordinating("tea", config={"offsets.retention.minutes": 1}) as client:
        await commit(client, 5)
        coordination, clock = client.node.coordination, client.node.clock

        class Later:
            def now_ms(self):
                return clock.now_ms() + 61_000

        await coordination._expire(client.node.groups, Later())
        assert await fetched(client) == (-1, ErrorCode.NONE)


@scenario
async def test_metrics_tell_of_groups_and_transactional_ids():
    async with coordinating("tea") as client:
        await commit(client, 5)
        await Owner(client).init()
        shown = client.node.registry.expose()
        assert "ottla_groups 1\n" in shown and "ottla_transactional_ids 1\n" in shown
