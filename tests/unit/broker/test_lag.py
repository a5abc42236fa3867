"""Lag is what a group could still read, in offsets and in the age of the next record."""

import pytest

from ottla.broker.lag import LagMeter, timestamp_at
from ottla.broker.metrics import BrokerMetrics
from ottla.core.clock import ManualClock
from ottla.core.ids import TopicPartition
from ottla.core.metrics import Registry
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from tests.unit.broker.handlers import serving
from tests.unit.broker.handlers.logs import led_partition
from tests.unit.broker.handlers.serving import scenario
from tests.unit.storage.helpers import NOW, marker

ORDERS = TopicPartition("orders", 0)


def append(partition, count, *, first_ms=NOW, **how):
    """Records one second apart."""
    records = [Record(number, first_ms + number * 1000, None, b"v") for number in range(count)]
    partition.append(build(records, **how), -1, NOW)


def meter_of(*partitions, now_ms=NOW + 60_000):
    return LagMeter(serving.Replicas(partitions), BrokerMetrics(), ManualClock(now_ms))


async def lag_of(partition, committed, **how):
    (lag,) = await meter_of(partition, **how).update([("g", ORDERS, committed)])
    return lag


@scenario
async def test_lag_is_counted_up_to_the_high_watermark_and_aged_by_the_next_record():
    orders = led_partition()
    append(orders, 10)
    lag = await lag_of(orders, 4)
    assert (lag.offsets, lag.stable_offsets, lag.seconds) == (6, 6, 56.0)


@scenario
async def test_the_age_is_that_of_a_record_within_a_compressed_batch():
    orders = led_partition()
    append(orders, 10, codec=Codec.GZIP)
    assert (await lag_of(orders, 9)).seconds == 51.0


@scenario
async def test_who_has_read_everything_is_not_behind():
    orders = led_partition()
    append(orders, 10)
    lag = await lag_of(orders, 10)
    assert (lag.offsets, lag.stable_offsets, lag.seconds) == (0, 0, 0)


@scenario
async def test_an_open_transaction_is_no_lag_for_readers_of_committed_records():
    orders = led_partition()
    append(orders, 2)
    append(orders, 3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    lag = await lag_of(orders, 2)
    assert (lag.offsets, lag.stable_offsets, lag.stable_seconds) == (3, 0, 0)
    orders.append(marker(7, commit=True), -1, NOW, client=False)
    lag = await lag_of(orders, 2)
    assert (lag.offsets, lag.stable_offsets) == (4, 4)


@scenario
async def test_records_that_were_deleted_under_a_group_still_count_as_not_read():
    orders = led_partition()
    append(orders, 4)
    orders.log.roll()
    append(orders, 4, first_ms=NOW + 10_000)
    orders.log.advance_log_start(4)
    lag = await lag_of(orders, 1)
    assert (lag.offsets, lag.seconds) == (7, 50.0), "the next record is the first that is left"


@scenario
async def test_a_clock_that_is_behind_the_records_makes_no_negative_age():
    orders = led_partition()
    append(orders, 2, first_ms=NOW + 100_000)
    assert (await lag_of(orders, 0)).seconds == 0


@scenario
async def test_offsets_of_partitions_that_others_lead_are_left_to_them():
    followed = led_partition(leader=2, replicas=(1, 2))
    assert await meter_of(followed).update([("g", ORDERS, 0), ("g", TopicPartition("gone", 0), 0)]) == []


@scenario
async def test_the_numbers_are_shown_and_go_with_the_group():
    orders = led_partition()
    append(orders, 10)
    meter = meter_of(orders)
    await meter.update([("g", ORDERS, 4)])
    shown = Registry(meter._metrics).expose()
    labels = '{group="g",topic="orders",partition="0",isolation="read_committed"}'
    assert f"ottla_group_lag_offsets{labels} 6" in shown
    assert f"ottla_group_lag_seconds{labels} 56" in shown
    await meter.update([])
    assert 'group="g"' not in Registry(meter._metrics).expose()


@scenario
async def test_the_time_of_a_record_is_read_once_as_long_as_the_group_stands_still(monkeypatch):
    orders = led_partition()
    append(orders, 10)
    meter, reads = meter_of(orders), []

    async def counted(log, offset, limit):
        reads.append(offset)
        return await timestamp_at(log, offset, limit)

    monkeypatch.setattr("ottla.broker.lag.timestamp_at", counted)
    for committed in 4, 4, 5, 5:
        await meter.update([("g", ORDERS, committed)])
    assert reads == [4, 5]


@pytest.mark.parametrize(("offset", "limit"), [(10, 10), (12, 20)])
@scenario
async def test_where_there_is_no_record_there_is_no_time(offset, limit):
    orders = led_partition()
    append(orders, 10)
    assert await timestamp_at(orders.log, offset, limit) is None
