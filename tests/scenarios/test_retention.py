"""Retention as those see it who set it: at once, whoever set it where, and never because of a clock."""

import asyncio
import functools

import pytest

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.controller.commands import NewTopic
from ottla.core.clock import ManualClock
from ottla.core.errors import KafkaError
from ottla.network.peer import connect
from ottla.protocol.messages.configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.offsets import DeleteRecordsRequest
from ottla.storage.config import TINY
from ottla.storage.files import OsFiles
from tests.unit.storage.helpers import NOW, batch

MINUTE, HOUR, DAY, YEAR = 60_000, 3_600_000, 86_400_000, 365 * 86_400_000
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
COUNT = 30


def scenario(test):
    @functools.wraps(test)
    def inner(*args, **how):
        asyncio.run(asyncio.wait_for(test(*args, **how), 60))

    return inner


def broker_in(path, clock=None, **settings):
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(path),
        **{name.replace("_", "."): str(value) for name, value in settings.items()},
    }
    return Broker(BrokerConfig(config), files=OsFiles(syncs=False), clock=clock or ManualClock(NOW))


async def with_orders(broker, **settings):
    """Start it, with a topic of many small segments."""
    await broker.start()
    values = {**TINY, **{name.replace("_", "."): str(value) for name, value in settings.items()}}
    outcome = (await broker.controller.create_topics([NewTopic("orders", 1, 1, configs=values)]))["orders"]
    assert not isinstance(outcome, KafkaError), outcome
    write(broker)
    return log_of(broker)


def write(broker):
    now_ms = broker.clock.now_ms()
    for n in range(COUNT):
        broker.replicas.get("orders", 0).append(batch(b"%d" % n * 100, at_ms=now_ms), 1, now_ms)


def log_of(broker):
    return broker.replicas.get("orders", 0).log


async def alter(broker, name, value, resource=(TOPIC, "orders")):
    kind = IncrementalAlterConfigsRequest.Resource
    setting = kind.Setting(name=name, config_operation=DELETE if value is None else SET, value=value)
    asked = kind(resource_type=resource[0], resource_name=resource[1], configs=[setting])
    async with await connect("127.0.0.1", broker.port) as peer:
        answer = await peer.send(IncrementalAlterConfigsRequest(resources=[asked], validate_only=False))
    assert [each.error_code for each in answer.responses] == [0]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def deleted_files(log):
    return [name for name in log.files.names(log.directory) if name.endswith(".deleted")]


# --- at once -------------------------------------------------------------------------------------------------------


@scenario
async def test_a_shorter_time_is_effective_at_once(tmp_path):
    broker = broker_in(tmp_path)
    log = await with_orders(broker, retention_ms=DAY)
    broker.clock.advance(2 * HOUR)
    await alter(broker, "retention.ms", str(HOUR))
    await until(lambda: log.log_start_offset == COUNT)
    await broker.stop()


@pytest.mark.parametrize("resource", [(BROKER, ""), (BROKER, "1")])
@scenario
async def test_so_is_one_that_is_set_for_brokers(tmp_path, resource):
    broker = broker_in(tmp_path, node_id=1)
    log = await with_orders(broker)
    broker.clock.advance(2 * HOUR)
    await alter(broker, "log.retention.ms", str(HOUR), resource)
    await until(lambda: log.log_start_offset == COUNT)
    await broker.stop()


@scenario
async def test_so_is_a_smaller_size(tmp_path):
    broker = broker_in(tmp_path)
    log = await with_orders(broker)
    await alter(broker, "retention.bytes", "2048")
    await until(lambda: log.log_start_offset > 0)
    assert 2048 <= log.segments.size < 2048 + 1024
    await broker.stop()


@scenario
async def test_so_is_a_policy_that_deletes(tmp_path):
    broker = broker_in(tmp_path)
    log = await with_orders(broker, retention_bytes=2048)
    await alter(broker, "cleanup.policy", "compact")
    await broker.upkeep.delete_old_segments()
    start = log.log_start_offset
    broker.clock.advance(8 * DAY)
    await broker.upkeep.delete_old_segments()
    assert log.log_start_offset == start
    await alter(broker, "cleanup.policy", "compact,delete")
    await until(lambda: log.log_start_offset == COUNT)
    await broker.stop()


@scenario
async def test_a_setting_that_is_taken_back_is_effective_at_once(tmp_path):
    broker = broker_in(tmp_path, log_retention_ms=HOUR)
    log = await with_orders(broker, retention_ms=-1)
    broker.clock.advance(2 * HOUR)
    await broker.upkeep.delete_old_segments()
    assert log.log_start_offset == 0
    await alter(broker, "retention.ms", None)
    await until(lambda: log.log_start_offset == COUNT)
    await broker.stop()


@scenario
async def test_deleted_records_take_their_segments_with_them_and_a_shorter_delay_the_files(tmp_path):
    broker = broker_in(tmp_path)
    log = await with_orders(broker, retention_ms=-1, file_delete_delay_ms=DAY)
    asked = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=COUNT - 5)
    topic = DeleteRecordsRequest.Topic(name="orders", partitions=[asked])
    async with await connect("127.0.0.1", broker.port) as peer:
        answer = await peer.send(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))
    assert answer.topics[0].partitions[0].low_watermark == COUNT - 5
    await until(lambda: log.segments[0].base_offset > 0)
    assert len(deleted_files(log)) > 0
    await alter(broker, "file.delete.delay.ms", "0")
    await until(lambda: not deleted_files(log))
    await broker.stop()


# --- clocks --------------------------------------------------------------------------------------------------------


async def restarted(broker, tmp_path, clock, *, kill=False):
    await (broker.kill() if kill else broker.stop())
    again = broker_in(tmp_path, clock)
    await again.start()
    await again.upkeep.run_once()
    return again


@pytest.mark.parametrize("kill", [False, True])
@scenario
async def test_a_restart_with_a_clock_that_is_a_year_ahead_deletes_nothing(tmp_path, kill):
    broker = broker_in(tmp_path)
    await with_orders(broker, retention_ms=DAY)
    await broker.upkeep.run_once()
    for _ in range(3):
        broker = await restarted(broker, tmp_path, ManualClock(NOW + YEAR), kill=kill)
        assert log_of(broker).log_start_offset == 0
    broker = await restarted(broker, tmp_path, ManualClock(NOW + MINUTE), kill=kill)
    write(broker)
    broker.clock.advance(DAY - MINUTE + 1)
    await broker.upkeep.run_once()
    assert 0 < log_of(broker).log_start_offset <= COUNT, "once the clock is right again, all goes its way"
    await broker.stop()


@scenario
async def test_a_broker_that_was_away_for_weeks_deletes_what_is_old_a_day_later(tmp_path):
    broker = broker_in(tmp_path)
    await with_orders(broker, retention_ms=7 * DAY)
    broker = await restarted(broker, tmp_path, ManualClock(NOW + 30 * DAY))
    assert log_of(broker).log_start_offset == 0
    broker.clock.advance(DAY)
    await broker.upkeep.run_once()
    assert log_of(broker).log_start_offset == COUNT
    await broker.stop()


@scenario
async def test_a_clock_that_went_back_is_no_obstacle(tmp_path):
    broker = broker_in(tmp_path)
    await with_orders(broker, retention_ms=DAY)
    broker = await restarted(broker, tmp_path, ManualClock(1000))
    write(broker)
    assert (log_of(broker).log_start_offset, log_of(broker).end_offset) == (0, 2 * COUNT)
    broker = await restarted(broker, tmp_path, ManualClock(NOW + HOUR))
    assert log_of(broker).log_start_offset == 0, "the records of now protect those of 1970 behind them"
    broker.clock.advance(DAY)
    await broker.upkeep.run_once()
    assert log_of(broker).log_start_offset == 2 * COUNT
    await broker.stop()
