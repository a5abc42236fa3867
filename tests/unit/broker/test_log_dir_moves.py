"""Moving replicas between directories: where to, how fast, and what ends it. A whole broker on a simulated disk."""

import asyncio
import errno
import logging
import os.path

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.cluster import cluster
from tests.unit.broker.handlers.serving import scenario
from tests.unit.storage.helpers import batch

ORDERS = TopicPartition("orders", 0)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
NEVER = 1  # bytes per second
PATHS = [os.path.abspath(f"memory-{name}") for name in ("a", "b", "c")]


def broker(**settings):
    config = {
        "log.dirs": ",".join(PATHS),
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    return AsyncBroker(memory=True, config=config)


def place_of(node):
    """Where the replica lies, and where it is to lie."""
    directories = node.replicas.directories
    (here,) = [each.path for each in directories if ORDERS in each.logs]
    futures = [each.path for each in directories if ORDERS in each.futures]
    return here, futures


def others(node):
    here, _ = place_of(node)
    return [path for path in PATHS if path != here]


def fill(node, count=20, size=1000):
    partition = node.replicas.partitions[ORDERS]
    for number in range(count):
        partition.append(bytearray(batch(b"%d" % number + b"x" * size)), 1, node.clock.now_ms())
    return partition


async def move(node, path, where=ORDERS):
    await node.log_dir_moves.move(where, path)


async def arrived(node):
    while node.log_dir_moves.under_way:
        await asyncio.wait([each.task for each in node.log_dir_moves.under_way.values()])


async def refused(node, path, where=ORDERS):
    with pytest.raises(KafkaError) as error:
        await move(node, path, where)
    return error.value.code


def directories_of(kit, path):
    return [name for name in kit.disk.names(path) if name.startswith("orders-0")]


@scenario
async def test_a_replica_moves_and_all_that_hold_it_go_on():
    async with broker() as kit:
        await kit.create_topic("orders")
        partition, target = fill(kit.node), others(kit.node)[0]
        log, commit = partition.log, kit.node.replicas.commit_of(partition.log)
        before = place_of(kit.node)[0]
        waiting = asyncio.create_task(partition.high_watermark.reach(21))
        await move(kit.node, target)
        await arrived(kit.node)
        assert place_of(kit.node) == (target, [])
        assert partition.log is log and kit.node.replicas.commit_of(log) is commit
        assert log.directory == f"{target}/orders-0"
        fill(kit.node, 1)
        await waiting
        await commit.reach(21)
        assert log.recovery_point == 21
        assert directories_of(kit, before)[0].endswith("-delete")
        await kit.restart()
        assert place_of(kit.node) == (target, [])
        assert len(await kit.records("orders")) == 21


@scenario
async def test_a_directory_that_is_not_ours_is_not_found():
    async with broker() as kit:
        await kit.create_topic("orders")
        assert await refused(kit.node, "/elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert await refused(kit.node, PATHS[0] + "/") is ErrorCode.LOG_DIR_NOT_FOUND


@scenario
async def test_a_directory_that_has_failed_takes_nothing_and_nothing_is_moved_then():
    async with broker() as kit:
        await kit.create_topic("orders")
        failed, other = others(kit.node)
        kit.node.replicas.directory_failed(failed, OSError(errno.EIO, "it is broken"))
        assert await refused(kit.node, failed) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await refused(kit.node, other) is ErrorCode.KAFKA_STORAGE_ERROR
        await move(kit.node, place_of(kit.node)[0])  # it is there already


@scenario
async def test_topics_that_do_not_exist_or_have_too_long_names_are_refused():
    async with broker() as kit:
        unknown = TopicPartition("nothing", 0)
        assert await refused(kit.node, PATHS[0], unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        long = TopicPartition("x" * 230, 0)
        assert await refused(kit.node, PATHS[0], long) is ErrorCode.INVALID_TOPIC_EXCEPTION


@scenario
async def test_a_replica_that_is_not_here_will_be_created_where_it_was_asked_for():
    async with broker() as kit:
        await kit.create_topic("orders")
        node, target = kit.node, others(kit.node)[1]
        state = node.replicas.partitions[ORDERS].state
        await node.replicas.stop_replicas(99, {ORDERS: True})
        assert await refused(node, target) is ErrorCode.REPLICA_NOT_AVAILABLE
        await node.replicas.leader_and_isr(99, [state])
        assert place_of(node) == (target, [])


@scenario
async def test_a_move_under_way_is_shown_replaced_and_cancelled():
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000)
        fill(kit.node, 100)
        here, (first, second) = place_of(kit.node)[0], others(kit.node)
        await move(kit.node, first)
        await move(kit.node, first)  # again, which changes nothing
        assert place_of(kit.node) == (here, [first])
        await move(kit.node, second)
        assert place_of(kit.node) == (here, [second])
        assert directories_of(kit, first) == []
        await move(kit.node, here)
        assert place_of(kit.node) == (here, [])
        assert directories_of(kit, second) == []
        assert len(await kit.records("orders")) == 100


@scenario
async def test_the_rate_can_be_raised_on_the_way():
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000)
        fill(kit.node, 100)
        target = others(kit.node)[0]
        await move(kit.node, target)
        assert kit.node.log_dir_moves.under_way
        kit.node.config.update({RATE: 2**63 - 1})
        await arrived(kit.node)
        assert place_of(kit.node) == (target, [])


@scenario
async def test_a_topic_that_is_deleted_on_the_way_leaves_nothing():
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000)
        fill(kit.node, 100)
        here, target = place_of(kit.node)[0], others(kit.node)[0]
        await move(kit.node, target)
        await kit.node.replicas.stop_replicas(99, {ORDERS: True})
        assert not kit.node.log_dir_moves.under_way
        assert directories_of(kit, target) == []
        assert [name.rpartition("-")[2] for name in directories_of(kit, here)] == ["delete"]


@scenario
async def test_a_move_that_the_end_of_the_broker_interrupts_begins_anew(caplog):
    caplog.set_level(logging.INFO)
    async with broker(**{RATE: NEVER}) as kit:
        for end in kit.stop, kit.kill:
            if "orders" not in kit.topics():
                await kit.create_topic("orders", segment_bytes=20_000)
            fill(kit.node, 100)
            target = others(kit.node)[0]
            if not kit.node.log_dir_moves.under_way:
                await move(kit.node, target)
            await end()
            await kit.start()
            (under_way,) = kit.node.log_dir_moves.under_way.values()
            await under_way.begun
            assert place_of(kit.node)[1] == [target]
            assert "begins anew" in caplog.text
            caplog.clear()
        kit.node.config.update({RATE: 2**63 - 1})
        await arrived(kit.node)
        assert place_of(kit.node) == (target, [])
        assert len(await kit.records("orders")) == 200


@scenario
async def test_a_full_disk_ends_a_move_and_nothing_else(caplog):
    async with broker() as kit:
        await kit.create_topic("orders")
        fill(kit.node, 100)
        here, target = place_of(kit.node)[0], others(kit.node)[0]
        kit.disk.capacity = kit.disk.used + 30_000
        await move(kit.node, target)
        await arrived(kit.node)
        assert "is given up" in caplog.text
        assert place_of(kit.node) == (here, []) and not kit.node.replicas.offline
        assert directories_of(kit, target) == []
        fill(kit.node, 5)
        kit.disk.capacity = None
        await move(kit.node, target)
        await arrived(kit.node)
        assert place_of(kit.node) == (target, [])
        assert len(await kit.records("orders")) == 105


@scenario
async def test_a_disk_that_fails_under_a_copy_goes_offline_and_the_log_serves_on(caplog):
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000)
        fill(kit.node, 100)
        here, target = place_of(kit.node)[0], others(kit.node)[0]
        await move(kit.node, target)
        (under_way,) = kit.node.log_dir_moves.under_way.values()
        under_way._future.log.failure = OSError(errno.EIO, "it is broken")
        kit.node.config.update({RATE: 2**63 - 1})
        await arrived(kit.node)
        assert list(kit.node.replicas.offline) == [target]
        assert "is given up" in caplog.text
        fill(kit.node, 5)
        assert place_of(kit.node) == (here, [])


@scenario
async def test_when_the_disk_of_the_log_fails_its_copy_is_kept():
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000)
        fill(kit.node, 100)
        here, target = place_of(kit.node)[0], others(kit.node)[0]
        await move(kit.node, target)
        kit.node.replicas.directory_failed(here, OSError(errno.EIO, "it is broken"))
        await arrived(kit.node)
        assert [name.rpartition("-")[2] for name in directories_of(kit, target)] == ["future"]


@scenario
async def test_what_a_follower_cuts_off_is_cut_off_the_copy():
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000)
        partition, target = fill(kit.node, 100), others(kit.node)[0]
        await move(kit.node, target)
        partition.log.truncate_to(3)
        partition._show_log()
        fill(kit.node, 4)
        kit.node.config.update({RATE: 2**63 - 1})
        await arrived(kit.node)
        assert place_of(kit.node) == (target, [])
        assert [each.value[:1] for each in await kit.records("orders")] == [
            b"0",
            b"1",
            b"2",
            b"0",
            b"1",
            b"2",
            b"3",
        ]


@scenario
async def test_records_that_wait_for_a_sync_are_synced_wherever_the_log_is():
    async with broker() as kit:
        await kit.create_topic("orders", flush_messages=1)
        node = kit.node
        partition = fill(node, 1)
        for number in range(6):
            target = others(node)[0]
            await move(node, target)
            for _ in range(10):
                appended = partition.append(bytearray(batch(b"%d" % number)), -1, node.clock.now_ms())
                await node.replicas.commit_of(partition.log).settle(
                    appended.last_offset + 1, node.clock.now_ms()
                )
                assert partition.log.recovery_point > appended.last_offset
                assert partition.high_watermark.value > appended.last_offset
            await arrived(node)
            assert place_of(node) == (target, [])


@scenario
async def test_a_log_is_not_compacted_while_it_moves():
    async with broker(**{RATE: NEVER}) as kit:
        await kit.create_topic("orders", segment_bytes=20_000, cleanup_policy="compact")
        fill(kit.node, 100)
        await move(kit.node, others(kit.node)[0])
        assert kit.node.cleaning.status(ORDERS).state == "paused"
        await move(kit.node, place_of(kit.node)[0])
        assert kit.node.cleaning.status(ORDERS).state != "paused"


# --- leaders and followers --------------------------------------------------------------------------------------------


async def order(node, name):
    await node.log_dir_moves.move(ORDERS, os.path.abspath(name))


def lies_in(node, name):
    return [each.path for each in node.replicas.directories if ORDERS in each.logs] == [name]


@scenario
async def test_leader_and_follower_move_while_records_are_replicated():
    async with cluster(2, directories=2) as brokers:
        await brokers.lead(1, 2)
        for number in range(20):
            if number % 5 == 0:
                for id in 1, 2:
                    await order(brokers[id], f"d{id}-{(number // 5 + 1) % 2}")
            appended = brokers.put(1, b"%d" % number * 100, acks=-1)
            await brokers.partition(1).high_watermark.reach(appended.last_offset + 1)
        for id in 1, 2:
            await arrived(brokers[id])
            assert lies_in(brokers[id], f"d{id}-0")
        await brokers.has(2, 20)
        assert brokers.content(1) == brokers.content(2)


@scenario
async def test_leadership_changes_while_a_replica_moves_and_what_parted_is_cut():
    async with cluster(2, directories=2, **{RATE: NEVER}) as brokers:
        await brokers.lead(1, 2)
        for number in range(10):
            brokers.put(1, b"%d" % number * 100)
        await brokers.has(2, 10)
        await order(brokers[1], "d1-1")  # the first chunk, and no more
        (under_way,) = brokers[1].log_dir_moves.under_way.values()
        copied = brokers[1].replicas.directories[1].futures[ORDERS]
        while copied.end_offset < 10:
            await asyncio.sleep(0)
        await brokers.lead(2, to=[2])
        for number in range(3):
            brokers.put(1, b"lost %d" % number)  # it does not know yet
            brokers.put(2, b"kept %d" % number)
        await brokers.lead(2, new_epoch=False)
        await brokers.has(1, 13)
        brokers[1].config.update({RATE: 2**63 - 1})
        await asyncio.wait([under_way.task])
        assert lies_in(brokers[1], "d1-1")
        await brokers.lead(1)
        brokers.put(1, b"led again")
        await brokers.has(2, 14)
        assert b"kept 2" in brokers.content(1) and b"lost" not in brokers.content(1)
        assert brokers.content(1) == brokers.content(2)
