"""Low watermarks: who counts, and who is told."""

import asyncio

import pytest

from ottla.broker.low_watermarks import LowWatermarks
from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import BrokerLife, FetchQuestion
from tests.unit.broker.cluster import LONG_MS, scenario
from tests.unit.broker.handlers.logs import EPOCH, led_partition


def tells(partition, replica, log_start):
    partition.follower_fetch(BrokerLife(replica), FetchQuestion(0, -1, EPOCH, log_start), 0)


def test_all_live_replicas_count():
    partition = led_partition(replicas=(1, 2, 3))
    alive = {1, 2}
    marks = LowWatermarks(lambda: alive)
    assert marks.of(partition) == -1, "nothing was heard of broker 2"
    tells(partition, 2, 0)
    assert marks.of(partition) == 0
    alive.add(3)
    assert marks.of(partition) == -1


def test_only_a_leader_knows():
    with pytest.raises(KafkaError) as refused:
        LowWatermarks(lambda: {1, 2}).of(led_partition(leader=2, replicas=(1, 2)))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@scenario
async def test_who_gives_up_leaves_nothing_behind():
    partition = led_partition(replicas=(1, 2))
    marks = LowWatermarks(lambda: {1, 2})
    waiting = asyncio.ensure_future(marks.reach(partition, 1, LONG_MS))
    await asyncio.sleep(0)
    assert len(marks) == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert len(marks) == 0
