"""Followers copy their leaders: over real connections, between brokers that are told by hand who leads."""

import asyncio

import pytest

from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer
from ottla.protocol.messages.fetch import FetchRequest
from ottla.testing.disk import SimDisk
from tests.unit.broker.cluster import ALL, cluster, scenario, within

ORDERS = TopicPartition("orders", 0)


@scenario
async def test_a_follower_copies_what_its_leader_has_byte_for_byte():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        brokers.put(1, b"a", b"b")
        brokers.put(1, b"c")
        await brokers.has(2, 3)
        assert brokers.content(2) == brokers.content(1)


@scenario
async def test_records_are_committed_when_the_follower_asks_for_what_comes_next():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        brokers.put(1, b"a", acks=ALL)
        assert brokers.partition(1).high_watermark.value == 0
        await within(brokers.partition(1).high_watermark.reach(1))


@scenario
async def test_the_follower_hears_of_the_high_watermark_with_the_next_answer():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        brokers.put(1, b"a")
        await within(brokers.partition(1).high_watermark.reach(1))
        brokers.put(1, b"b")
        await within(brokers.partition(2).high_watermark.reach(1))


@scenario
async def test_where_consumers_read_from_followers_these_hear_of_it_at_once():
    async with cluster(replica_selector_class="RackAwareReplicaSelector") as brokers:
        await brokers.lead(1, 2)
        brokers.put(1, b"a")
        await within(brokers.partition(2).high_watermark.reach(1))


@scenario
async def test_a_partition_that_comes_while_the_leader_has_no_news_does_not_wait_for_any():
    async with cluster() as brokers:
        await brokers.lead(1, 2, topic="quiet")
        brokers.put(1, b"a", topic="quiet")
        await brokers.has(2, 1, topic="quiet")
        await brokers.lead(1, 2, topic="orders")
        brokers.put(1, b"a")
        await brokers.has(2, 1)


@scenario
async def test_partitions_that_keep_coming_do_not_keep_a_long_answer_from_arriving(monkeypatch):
    """Each of them has the connection dropped, to be asked about at once: but never for ever."""
    post = Peer.post

    async def slowly(peer, request, *args, **how):
        answer = await post(peer, request, *args, **how)
        if not isinstance(request, FetchRequest):
            return answer
        late = asyncio.get_running_loop().create_future()

        def give(_):
            if not late.done() and answer.exception() is None:
                late.set_result(answer.result())

        asyncio.get_running_loop().call_later(0.1, answer.add_done_callback, give)
        return late

    async with cluster(2) as brokers:
        await brokers.lead(1, 2)
        brokers.put(1, b"a")
        monkeypatch.setattr(Peer, "post", slowly)
        copied = asyncio.ensure_future(brokers.has(2, 1))
        while not copied.done():
            await brokers.lead(1, 2, topic="visits")
            await asyncio.sleep(0.005)
        await copied


@scenario
async def test_fetchers_share_the_partitions_of_a_leader_and_may_become_more():
    async with cluster() as brokers:
        for index in range(8):
            await brokers.lead(1, 2, index=index)
        fetching = brokers[2].replication.fetching
        assert len(fetching._fetchers) == 1
        brokers[2].config.update({"num.replica.fetchers": "3"})
        for index in range(8):
            brokers.put(1, b"a", index=index)
            await brokers.has(2, 1, index=index)
        assert set(fetching._fetchers) == {(1, 0), (1, 1), (1, 2)}


@scenario
async def test_a_leader_that_nobody_knows_yet_is_asked_when_it_comes():
    async with cluster(1) as brokers:
        await brokers.lead(2, 1, to=[1])
        await brokers.start(2)
        await brokers.lead(2, 1, new_epoch=False)
        brokers.put(2, b"a")
        await brokers.has(1, 1)


# --- leaders change -----------------------------------------------------------------------------------------------


@scenario
async def test_when_the_leader_changes_its_followers_turn_to_the_new_one():
    async with cluster(3) as brokers:
        await brokers.lead(1, 2, 3)
        brokers.put(1, b"a")
        await brokers.has(2, 1)
        await brokers.has(3, 1)
        await brokers.lead(2)
        brokers.put(2, b"b")
        await brokers.has(1, 2)
        await brokers.has(3, 2)
        assert brokers.content(1) == brokers.content(2) == brokers.content(3)


@scenario
async def test_a_leader_that_was_replaced_gives_up_what_only_it_had():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        brokers.put(1, b"a")
        await brokers.has(2, 1)
        await brokers.lead(2, to=[2])
        brokers.put(1, b"lost")
        brokers.put(1, b"lost too")
        brokers.put(2, b"kept")
        await brokers.lead(2, to=[1], new_epoch=False)
        await within(brokers.partition(2).high_watermark.reach(2))
        assert brokers.content(1) == brokers.content(2)


@scenario
async def test_orders_that_reach_the_follower_first_are_no_harm():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        await brokers.lead(2)
        state = await brokers.lead(1, to=[2])
        await asyncio.sleep(0.05)  # let it be refused
        await brokers[1].replicas.leader_and_isr(100, [state])
        brokers.put(1, b"a")
        await brokers.has(2, 1)


@scenario
async def test_a_follower_that_is_told_of_no_leader_asks_nobody():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        await brokers.lead(-1)
        assert brokers.partition(2).question() is None
        await asyncio.sleep(0)
        assert brokers[2].replication.fetching._places == {}


@scenario
async def test_a_replica_that_is_stopped_is_fetched_no_more():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        await brokers.lead(1, 2, topic="visits")
        await brokers[2].replicas.stop_replicas(100, {ORDERS: True})
        brokers.put(1, b"a")
        brokers.put(1, b"a", topic="visits")
        await brokers.has(2, 1, topic="visits")
        assert ORDERS not in brokers[2].replicas.partitions


# --- logs that do not meet ----------------------------------------------------------------------------------------


@scenario
async def test_a_follower_that_is_too_far_behind_starts_where_its_leader_does():
    async with cluster() as brokers:
        await brokers.lead(1, 2, to=[1], isr=(1,))
        for _ in range(3):
            brokers.put(1, b"a")
        brokers.partition(1).log.advance_log_start(2)
        await brokers.lead(1, isr=(1,), to=[2], new_epoch=False)
        await brokers.has(2, 3)
        log = brokers.partition(2).log
        assert (log.log_start_offset, log.end_offset) == (2, 3)


@scenario
async def test_a_leaders_log_that_starts_inside_a_batch_can_be_followed():
    """Records were deleted up to the middle of a batch: the batch comes whole, and the log starts in its middle."""
    async with cluster() as brokers:
        await brokers.lead(1, 2, to=[1], isr=(1,))
        brokers.put(1, b"a", b"b", b"c")
        brokers.put(1, b"d")
        brokers.partition(1).log.advance_log_start(1)
        await brokers.lead(1, isr=(1,), to=[2], new_epoch=False)
        await brokers.has(2, 4)
        log = brokers.partition(2).log
        assert (log.log_start_offset, log.end_offset, log.segments[0].base_offset) == (1, 4, 0)
        assert brokers.content(2) == brokers.content(1)


@scenario
async def test_records_that_are_deleted_at_the_leader_go_at_the_follower_too():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        for _ in range(3):
            brokers.put(1, b"a")
        await within(brokers.partition(1).high_watermark.reach(3))
        brokers.partition(1).log.advance_log_start(2)
        brokers.put(1, b"b")
        await within(brokers.partition(2).high_watermark.reach(3))
        brokers.put(1, b"b")
        await brokers.has(2, 5)
        assert brokers.partition(2).log.log_start_offset == 2


@scenario
async def test_when_fewer_in_sync_are_enough_what_waited_for_more_is_committed_at_once():
    async with cluster(1, min_insync_replicas=2) as brokers:
        await brokers.lead(1, 2, isr=(1,))
        brokers.put(1, b"a")
        assert brokers.partition(1).high_watermark.value == 0
        orders = ConfigResource(ResourceType.TOPIC, "orders")
        brokers[1].configs.apply(orders, {"min.insync.replicas": "1"})
        assert brokers.partition(1).high_watermark.value == 1


# --- disks --------------------------------------------------------------------------------------------------------


@scenario
async def test_a_disk_that_fails_takes_its_own_partitions_along_only():
    async with cluster(1) as brokers:
        await brokers.start(2, directories=2)
        for topic in ("orders", "visits"):
            await brokers.lead(1, 2, topic=topic)
        broken = brokers.partition(2).log
        broken.failure = OSError("the disk is gone")
        brokers.put(1, b"a")
        brokers.put(1, b"a", topic="visits")
        await brokers.has(2, 1, topic="visits")
        brokers.put(1, b"b", topic="visits")
        await brokers.has(2, 2, topic="visits")
        assert ORDERS not in brokers[2].replicas.partitions
        assert brokers[2].replicas.offline


@pytest.mark.parametrize("at", [-1, 14], ids=["a record", "the epoch"])
@scenario
async def test_a_leader_whose_disk_rots_spoils_no_follower(at):
    """No checksum covers the epoch of a batch. The other partitions of the same leader go on."""
    async with cluster(0) as brokers:
        await brokers.start(1, files=(disk := SimDisk()))
        await brokers.start(2)
        await brokers.lead(1, 2, to=(1,))
        brokers.put(1, b"a")
        path = f"{brokers.partition(1).log.directory}/{0:020}.log"
        file, size = disk.open(path), disk.size(path)
        file.write_at(at % size, bytes([file.read_at(at % size, 1)[0] ^ 4]))
        await brokers.lead(1, 2, new_epoch=False)
        await brokers.lead(1, 2, topic="visits")
        brokers.put(1, b"a", topic="visits")
        await brokers.has(2, 1, topic="visits")
        log = brokers.partition(2).log
        assert (log.end_offset, log.failure, log.epochs.entries) == (0, None, [])
        assert brokers.partition(1).high_watermark.value == 0


@scenario
async def test_where_records_are_synced_before_they_are_acknowledged_followers_sync_too():
    async with cluster(log_flush_interval_messages=1) as brokers:
        await brokers.lead(1, 2)
        log = brokers.partition(2).log
        seen = []
        brokers.partition(1).high_watermark.on_reach(2, lambda error: seen.append(log.recovery_point))
        brokers.put(1, b"a", acks=ALL)
        brokers.put(1, b"b", acks=ALL)
        await within(brokers.partition(1).high_watermark.reach(2))
        assert seen == [2]


@scenario
async def test_a_follower_whose_disk_does_not_sync_says_nothing_of_what_it_has():
    async with cluster(0) as brokers:
        await brokers.start(1, log_flush_interval_messages=1)
        await brokers.start(2, files=(disk := SimDisk()), directories=2, log_flush_interval_messages=1)
        for topic in ("orders", "visits"):
            await brokers.lead(1, 2, topic=topic)
        brokers.put(1, b"a", acks=ALL)
        await brokers[1].replicas.commit_of(brokers.partition(1).log).reach(1)
        await within(brokers.partition(1).high_watermark.reach(1))  # the epoch is on all disks by now
        disk.fail_next("sync")
        brokers.put(1, b"b", acks=ALL)
        while ORDERS in brokers[2].replicas.partitions:
            await asyncio.sleep(0)
        brokers.put(1, b"a", acks=ALL, topic="visits")
        await within(brokers.partition(2, "visits").log_end.reach(1))
        assert brokers.partition(1).high_watermark.value == 1
        assert brokers.partition(1).leading.followers[2].end_offset == 1


# --- quotas -------------------------------------------------------------------------------------------------------


@scenario
async def test_a_follower_over_its_rate_leaves_throttled_partitions_alone_until_it_has_caught_up():
    async with cluster(follower_replication_throttled_rate=1, replica_fetch_max_bytes=1) as brokers:
        await brokers.lead(1, 2, isr=(1,), to=(1,))
        await brokers.lead(1, 2, topic="visits")
        brokers.put(1, b"a")
        brokers.put(1, b"b")  # committed without the follower, which gets one batch at a time
        await brokers.lead(1, isr=(1,), new_epoch=False)
        brokers.partition(2).config.update({"follower.replication.throttled.replicas": "0:2"})
        await brokers.has(2, 1)
        brokers.put(1, b"b", topic="visits")
        await brokers.has(2, 1, topic="visits")
        assert brokers.partition(2).log.end_offset == 1
        brokers[2].config.update({"follower.replication.throttled.rate": str(2**63 - 1)})
        await brokers.has(2, 2)
        brokers[2].config.update({"follower.replication.throttled.rate": "1"})
        brokers.put(1, b"c")
        await brokers.has(2, 3)


@scenario
async def test_a_leader_over_its_rate_holds_back_who_is_not_in_sync():
    async with cluster(leader_replication_throttled_rate=1, replica_fetch_wait_max_ms=50) as brokers:
        await brokers.lead(1, 2, isr=(1,))
        brokers.partition(1).config.update({"leader.replication.throttled.replicas": "*"})
        brokers.put(1, b"a")
        await brokers.has(2, 1)
        brokers.put(1, b"b")
        await brokers.lead(1, 2, topic="visits")
        brokers.put(1, b"b", topic="visits")
        await brokers.has(2, 1, topic="visits")
        assert brokers.partition(2).log.end_offset == 1
        await brokers.lead(1, isr=(1, 2), new_epoch=False)
        await brokers.has(2, 2)


@scenario
async def test_a_broker_that_is_killed_is_not_heard_from_any_more():
    async with cluster() as brokers:
        await brokers.lead(1, 2)
        partition = brokers.partition(2)
        await brokers[2].kill()
        del brokers.nodes[2]
        brokers.put(1, b"a", acks=ALL)
        assert partition.log.end_offset == 0
        assert brokers.partition(1).check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS) is None
