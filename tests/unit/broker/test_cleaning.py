"""Compaction as the broker runs it: which log, when, how fast, and what stays after a restart."""

import asyncio
import logging

import pytest
import uvloop

from ottla.broker import cleaning as cleaning_module
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage import checkpoints
from ottla.testing import Broker
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.compacting import ORDERS, SLOW, Topic, compacting, is_alive, until
from tests.unit.broker.handlers.coordinating import Client, scenario
from tests.unit.broker.test_coordination import GROUP, commit

FAST = "1e12"
OFTEN = {"log.cleaner.backoff.ms": 5}


# --- which log, and when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("memory", [False, True], ids=["process", "thread"])
def test_a_log_that_is_filthy_enough_is_compacted_by_itself(loop, memory):
    async def run():
        async with compacting(memory=memory, config=OFTEN) as topic:
            before = topic.fill().count
            await topic.cleaned()
            assert topic.find() == topic.newest
            assert topic.count < before
            assert topic.leftovers() == []
            assert topic.checkpoint == topic.status.first_dirty_offset > 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(run(), 60))


@scenario
async def test_a_log_that_is_not_filthy_enough_is_left_alone():
    async with compacting(min_cleanable_dirty_ratio=1) as topic:
        topic.fill()
        await topic.cleaning.look()
        assert (topic.status.state, topic.cleaning.workers) == ("idle", [])


@scenario
async def test_who_asks_for_it_has_the_active_segment_compacted_too():
    async with compacting(min_cleanable_dirty_ratio=1) as topic:
        topic.fill(rounds=3)
        topic.cleaning.request(ORDERS)
        assert topic.status.state == "waiting"
        await topic.cleaned()
        assert (topic.count, topic.find()) == (10, topic.newest)
        status = topic.status
        assert (status.state, status.first_dirty_offset, status.end_offset) == ("idle", 30, 30)
        assert (status.records_before, status.records_after) == (30, 10)
        assert status.bytes_before > status.bytes_after > 0
        assert status.last_run_ms > 0


@scenario
async def test_a_log_without_anything_new_is_not_compacted_again_though_asked_for():
    async with compacting() as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        topic.cleaning.request(ORDERS)
        await topic.cleaning.look()
        assert (topic.status.state, topic.status.runs) == ("idle", 1)


@scenario
async def test_only_what_can_be_compacted_can_be_asked_for():
    async with compacting() as topic:
        await topic.broker.create_topic("visits")
        with pytest.raises(KafkaError, match="does not name compact") as refused:
            topic.cleaning.request(TopicPartition("visits", 0))
        assert refused.value.code is ErrorCode.INVALID_CONFIG
        with pytest.raises(KafkaError) as absent:
            topic.cleaning.request(TopicPartition("orders", 7))
        assert absent.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic.node.config.update({"log.cleaner.enable": "false"})
        with pytest.raises(KafkaError, match=r"log\.cleaner\.enable is false"):
            topic.cleaning.request(ORDERS)
        topic.node.config.update({"log.cleaner.enable": "true", "log.cleaner.threads": "0"})
        with pytest.raises(KafkaError, match=r"log\.cleaner\.threads is 0"):
            topic.cleaning.request(ORDERS)


@scenario
async def test_the_filthiest_log_comes_first_and_one_that_was_asked_for_before_it():
    async with compacting(config={SLOW: 1}) as topic:
        await topic.broker.create_topic("visits", cleanup_policy="compact", segment_bytes=4096)
        visits = Topic(topic.broker, TopicPartition("visits", 0)).fill()
        topic.fill()
        directory = topic.node.replicas.directories[0]
        directory.note_cleaned(visits.place, visits.log.segments[1].base_offset)
        await topic.cleaning.look()
        assert (topic.status.state, visits.status.state) == ("mapping", "waiting")
        await topic.cleaning.end(ORDERS)
        topic.cleaning.request(visits.place)
        await until(lambda: visits.status.state == "mapping")
        assert topic.status.state == "waiting"


@scenario
async def test_as_many_logs_at_once_as_there_are_threads_and_they_share_the_rate():
    async with compacting(config={SLOW: 8, "log.cleaner.threads": 2}) as topic:
        topic.fill()
        places = [ORDERS]
        for name in ("visits", "clicks"):
            await topic.broker.create_topic(name, cleanup_policy="compact", segment_bytes=4096)
            places.append(Topic(topic.broker, TopicPartition(name, 0)).fill().place)
        await topic.cleaning.look()
        states = [topic.cleaning.status(place).state for place in places]
        assert sorted(states) == ["mapping", "mapping", "waiting"]
        await until(lambda: len(topic.cleaning.workers) == 2)
        assert [worker._rate for worker in topic.cleaning.workers] == [4, 4]


@scenario
async def test_records_that_waited_too_long_are_compacted_though_their_segment_is_the_active_one():
    async with compacting(
        min_cleanable_dirty_ratio=1, max_compaction_lag_ms=1, segment_bytes=1 << 20
    ) as topic:
        topic.fill(rounds=3)
        await asyncio.sleep(0.005)
        topic.cleaning.start()
        await topic.cleaned()
        assert (topic.count, len(topic.log.segments)) == (10, 2)


@scenario
async def test_records_that_come_late_do_not_have_the_log_compacted_over_and_over():
    """By their timestamps they have waited for a day; nothing waits for longer than its segment is there."""
    async with compacting(min_cleanable_dirty_ratio=1, max_compaction_lag_ms=3_600_000) as topic:
        for _ in range(2):
            topic.fill(rounds=1, late_ms=86_400_000)
            await topic.cleaning.look()
            await topic.cleaned()
            await topic.cleaning.look()
        assert (topic.status.state, topic.status.runs, len(topic.log.segments)) == ("idle", 1, 2)
        assert topic.log.segments.active.size > 0


@scenario
async def test_a_follower_compacts_its_log_too_and_a_new_leader_elsewhere_disturbs_nobody():
    async with compacting(config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        state = topic.node.replicas.get(*ORDERS).state
        elsewhere = state._replace(
            leader=99, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
        )
        await topic.node.replicas.leader_and_isr(2**31 - 1, [elsewhere])
        assert not topic.node.replicas.get(*ORDERS).is_leader
        topic.node.config.update({SLOW: FAST})
        await topic.cleaned()
        assert topic.cleaning.workers == [worker]
        topic.log.append_fetched(build([Record(topic.log.end_offset, 0, b"key 0", b"x" * 5000)]), 0)
        topic.log.roll()
        topic.log.advance_high_watermark(topic.log.end_offset)
        topic.log.config.update({"min.cleanable.dirty.ratio": "0.01"})
        await topic.cleaning.look()
        await topic.cleaned(2)


# --- pause, rate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [False, True], ids=["process", "thread"])
@scenario
async def test_the_cleaner_can_be_paused_and_goes_on_where_it_was(memory):
    async with compacting(memory=memory, config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        topic.node.config.update({"log.cleaner.enable": "false"})
        assert topic.status.state == "paused"
        topic.node.config.update({SLOW: FAST})
        assert worker._rate == 0
        topic.node.config.update({"log.cleaner.enable": "true"})
        await topic.cleaned()
        assert topic.cleaning.workers == [worker]
        assert topic.find() == topic.newest


@scenario
async def test_nothing_new_begins_while_the_cleaner_is_paused():
    async with compacting(config={"log.cleaner.enable": "false"}) as topic:
        topic.fill()
        await topic.cleaning.look()
        assert (topic.status.state, topic.cleaning.workers) == ("paused", [])
        topic.cleaning.start()
        topic.node.config.update({"log.cleaner.enable": "true"})
        await topic.cleaned()


@scenario
async def test_a_new_rate_takes_effect_at_once():
    async with compacting(config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        await topic.busy()
        topic.node.config.update({SLOW: FAST})
        await topic.cleaned()


@scenario
async def test_one_log_can_be_kept_from_being_compacted():
    async with compacting(config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        await topic.cleaning.pause(ORDERS)
        assert not is_alive(worker.pid)
        assert topic.status.state == "paused"
        await topic.cleaning.look()
        assert topic.cleaning.workers == []
        topic.node.config.update({SLOW: FAST})
        topic.cleaning.resume(ORDERS)
        await topic.cleaned()


# --- over restarts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
@scenario
async def test_how_far_a_log_is_compacted_outlives_a_restart(tmp_path, kill):
    async with compacting(tmp_path) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        reached = topic.checkpoint
        assert checkpoints.read_offsets(topic.log.files, f"{tmp_path}/{checkpoints.CLEANER}") == {
            ORDERS: reached
        }
        await (topic.broker.kill() if kill else topic.broker.stop())
        await topic.broker.start()
        assert topic.checkpoint == reached == 200
        assert topic.status.dirty_ratio == 0
        assert topic.find() == topic.newest
        topic.fill(first=20)
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        assert (topic.count, topic.find()) == (10, topic.newest)


@scenario
async def test_the_logs_of_coordinators_are_compacted_and_hold_the_same_groups_after_that(tmp_path):
    config = {"offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 2048}
    offsets = TopicPartition("__consumer_offsets", 0)
    async with AsyncBroker(data_dir=tmp_path, config=config) as broker:
        await broker.create_topic("tea")
        client = Client(broker.node)
        await client.ask("FindCoordinator", 3, key="any", key_type=0)
        await until(lambda: not broker.node.groups.is_loading)
        for offset in range(200):
            await commit(client, offset)
        log = broker.node.replicas.get(*offsets).log
        before = log.segments.size
        broker.node.cleaning.request(offsets)
        await until(lambda: broker.node.cleaning.status(offsets).runs == 1)
        assert log.segments.size < before / 10
        await broker.restart()
        client = Client(broker.node)
        await until(lambda: not broker.node.groups.is_loading)
        response = await client.ask("OffsetFetch", 5, group_id=GROUP, topics=None)
        assert response.topics[0].partitions[0].committed_offset == 199


# --- processes, and what a broker needs them for ------------------------------------------------------------------


@scenario
async def test_a_broker_that_has_nothing_to_compact_makes_no_cleaner():
    async with AsyncBroker(config=OFTEN) as broker:
        await broker.create_topic("orders")
        broker.node._clean_first()
        assert "cleaning" not in vars(broker.node)


@scenario
async def test_a_worker_that_has_nothing_to_do_goes(monkeypatch):
    monkeypatch.setattr(cleaning_module, "IDLE_S", 0.01)
    async with compacting() as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        await topic.cleaned()
        await until(lambda: not is_alive(worker.pid))
        assert topic.cleaning.workers == []


@scenario
async def test_a_worker_is_kept_for_the_next_log():
    async with compacting() as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        [worker] = topic.cleaning.workers
        topic.fill(first=20)
        topic.cleaning.request(ORDERS)
        await topic.cleaned(2)
        assert topic.cleaning.workers == [worker]


def test_a_broker_in_a_thread_has_workers_too():
    with Broker(config={**OFTEN, "log.segment.bytes": 2048}) as broker:
        broker.create_topic("orders", cleanup_policy="compact")
        topic = Topic(broker._inner, ORDERS)

        async def fill_and_wait():
            topic.fill()
            await topic.cleaned()
            assert topic.find() == topic.newest

        broker._run(asyncio.wait_for(fill_and_wait(), 60), 60)


@scenario
async def test_what_was_done_is_counted_and_logged(caplog):
    caplog.set_level(logging.INFO, cleaning_module.__name__)
    async with compacting() as topic:
        topic.fill()
        size = topic.log.segments.size
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        left = topic.log.segments.size
        [line] = [record.getMessage() for record in caplog.records if record.name == cleaning_module.__name__]
        assert line.startswith(
            f"compacted orders-0 up to offset 200: {left} of {size} bytes and 10 of 200 records are left, in "
        )
        shown = dict(
            line.rsplit(" ", 1)
            for line in topic.node.registry.expose().splitlines()
            if "ottla_cleaner" in line
        )
        assert shown["ottla_cleaner_runs_total"] == "1"
        assert shown["ottla_cleaner_records_read_total"] == "200"
        assert shown["ottla_cleaner_records_kept_total"] == "10"
        assert shown["ottla_cleaner_bytes_read_total"] == str(size)
        assert shown["ottla_cleaner_bytes_kept_total"] == str(left)
        assert shown["ottla_cleaner_uncleanable_partitions"] == "0"
        assert shown["ottla_cleaner_running"] == "0"
        assert 0 < float(shown["ottla_cleaner_map_utilization"]) < 1
        assert float(shown["ottla_cleaner_seconds_since_last_run"]) >= 0


@scenario
async def test_the_temporary_data_of_a_test_are_not_synced(tmp_path):
    async with compacting() as temporary, compacting(tmp_path) as lasting:
        for topic, syncs in ((temporary, False), (lasting, True)):
            topic.fill()
            topic.node.config.update({SLOW: "1"})
            topic.cleaning.request(ORDERS)
            await topic.busy()
            [(run, _)] = topic.cleaning._runs.values()
            assert run.job.syncs is syncs
