"""The numbers of `ottla group lag` are those of the broker's own metrics, and hostile answers do no harm."""

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker import lag as broker_lag
from ottla.broker.metrics import BrokerMetrics
from ottla.cli.group_lag import Ends, GroupLag, LagMeter, PartitionLag, first_timestamp
from ottla.cli.group_members import Described, Member
from ottla.cli.remote import cluster
from ottla.core.clock import ManualClock
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.core.metrics import Registry
from ottla.protocol.messages.offsets import DeleteRecordsRequest
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.testing import Broker
from tests.unit.cli.states import Asked, now_ms

ORDERS = TopicPartition("orders", 0)
EXPOSED = re.compile(
    r'(ottla_group_lag_\w+)\{group="(.*?)",topic="(.*?)",partition="(.*?)",isolation="(.*?)"\} (.*)'
)


# --- agreement with the broker --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def asked(broker):
    """Everything that lag has to tell apart: old and new, open and ended transactions, deleted records."""
    made = Asked(broker.bootstrap_server)
    made.create("orders", 4)
    now = now_ms()
    for partition in range(4):
        made.produce("orders", 5, partition=partition, timestamp=now - 100_000)
        made.produce("orders", 5, partition=partition, timestamp=now - 50_000)
    made.begin("open", "orders", 4, partition=1, timestamp=now - 20_000)
    owner, _ = made.begin("ended", "orders", 4, partition=2, timestamp=now - 20_000)
    assert made.end("ended", owner) == 0
    wanted = DeleteRecordsRequest.Topic
    part = wanted.Partition(partition_index=3, offset=5)
    made.send(DeleteRecordsRequest(topics=[wanted(name="orders", partitions=[part])], timeout_ms=5000), 1)
    for number, offset in enumerate([0, 3, 5, 10, 14]):
        for partition in range(4):
            made.commit(f"g{number}", "orders", offset, partition=partition)
    return made


def exposed(broker, time_ms):
    """What the broker's own meter shows at that time, by name and labels."""

    async def work():
        node = broker._inner.node
        metrics = BrokerMetrics()
        shards = node.groups.shards.values()
        committed = [each for shard in shards for each in shard.machine.committed()]
        await broker_lag.LagMeter(node.replicas, metrics, ManualClock(time_ms)).update(committed)
        return Registry(metrics).expose()

    return {match[:5]: float(match[5]) for match in EXPOSED.findall(broker._run(work()))}


def measured(asked, groups, time_ms):
    async def work():
        host, _, port = asked.address.rpartition(":")
        async with cluster([Address(host, int(port))], 10_000) as connected:
            return await LagMeter(connected).measure(groups, time_ms)

    return asyncio.run(work())


def test_the_numbers_are_those_of_the_brokers_metrics(broker, asked):
    time_ms = now_ms() + 5000
    groups = [f"g{number}" for number in range(5)]
    shown = {}
    for name, group in measured(asked, groups, time_ms).items():
        for row in group.partitions:
            labels = name, row.place.topic, str(row.place.partition)
            shown["ottla_group_lag_offsets", *labels, "read_uncommitted"] = row.lag
            shown["ottla_group_lag_offsets", *labels, "read_committed"] = row.stable_lag
            shown["ottla_group_lag_seconds", *labels, "read_uncommitted"] = row.seconds
            shown["ottla_group_lag_seconds", *labels, "read_committed"] = row.stable_seconds
    assert len(shown) == 5 * 4 * 4
    assert None not in shown.values()
    assert shown == exposed(broker, time_ms)
    assert len(set(shown.values())) > 10, "they are not all alike"


def test_the_record_of_a_group_that_stands_still_is_fetched_once(asked, monkeypatch):
    async def work():
        host, _, port = asked.address.rpartition(":")
        async with cluster([Address(host, int(port))], 10_000) as connected:
            meter, fetched = LagMeter(connected), []
            fetch = meter._timestamp

            async def counted(leader, place, offset):
                fetched.append((place.partition, offset))
                return await fetch(leader, place, offset)

            monkeypatch.setattr(meter, "_timestamp", counted)
            for _ in range(3):
                found = await meter.measure(["g1"], now_ms())
                assert all(row.seconds is not None for row in found["g1"].partitions)
            return fetched

    assert sorted(asyncio.run(work())) == [(0, 3), (1, 3), (2, 3), (3, 5)]


# --- one row --------------------------------------------------------------------------------------------------------


def lag(committed, ends=(0, 8, 10), timestamp=1000, now=61_000):
    return PartitionLag(ORDERS, committed, ends and Ends(*ends), timestamp, now, None)


@pytest.mark.parametrize(
    ("row", "offsets", "stable", "seconds", "stable_seconds"),
    [
        (lag(4), 6, 4, 60.0, 60.0),
        (lag(8), 2, 0, 60.0, 0.0),
        (lag(10, timestamp=None), 0, 0, 0.0, 0.0),
        (lag(12), 0, 0, 0.0, 0.0),
        (lag(4, timestamp=None), 6, 4, None, None),
        (lag(4, now=0), 6, 4, 0.0, 0.0),
        (lag(None), None, None, None, None),
        (lag(4, ends=None), None, None, None, None),
    ],
)
def test_what_is_not_known_is_not_counted(row, offsets, stable, seconds, stable_seconds):
    assert (row.lag, row.stable_lag) == (offsets, stable)
    assert (row.seconds, row.stable_seconds) == (seconds, stable_seconds)


def test_a_total_adds_offsets_and_takes_the_oldest():
    member = Member("m", None, "c", "h", (ORDERS,))
    group = Described("g", "classic", "Stable", 1, "range", (member,))
    assert group.owners == {ORDERS: member}
    total = GroupLag(group, (lag(4), lag(9, timestamp=31_000), lag(None))).total()
    assert total == {
        "partitions": 3,
        "partitions_unknown": 1,
        "lag": 7,
        "lag_read_committed": 4,
        "lag_seconds": 60.0,
        "lag_seconds_read_committed": 60.0,
    }
    assert GroupLag(group, ()).total()["lag"] is None


# --- what a leader sends --------------------------------------------------------------------------------------------


def batch(**how):
    return build([Record(number, 1000 + number, None, b"v") for number in range(5)], **how)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_time_is_that_of_the_record_at_the_offset(codec):
    data = batch(codec=codec)
    assert [first_timestamp(data, offset) for offset in (0, 3, 4)] == [1000, 1003, 1004]
    assert first_timestamp(data, 5) is None


@given(data=st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_bytes_of_a_leader_upset_it(data):
    first_timestamp(data, 0)


@given(at=st.integers(0, 120), value=st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_no_damaged_batch_of_a_leader_upsets_it(at, value):
    data = bytearray(batch(codec=Codec.GZIP))
    data[at % len(data)] = value
    first_timestamp(bytes(data), 0)
