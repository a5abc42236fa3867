"""What the broker counts, and that the numbers of a topic go with it."""

import asyncio

import pytest

from ottla.broker.metrics import ApiMeter, BrokerMetrics, TopicMeters
from ottla.core.metrics import Registry
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.client import Caller, batch, fetch_frame, produce_frame


def test_a_topics_numbers_are_made_when_first_asked_for_and_gone_with_the_topic():
    metrics = BrokerMetrics()
    registry, meters = Registry(metrics), TopicMeters(metrics)
    assert 'topic="tea"' not in registry.expose()
    meters["tea"].bytes_in.value += 7
    meters["tea"].records_in.value += 1
    meters["milk"].bytes_out.value += 3
    assert meters["tea"] is meters["tea"]
    assert 'ottla_topic_bytes_in_total{topic="tea"} 7' in registry.expose()
    meters.forget("tea")
    meters.forget("never seen")
    assert 'topic="tea"' not in registry.expose()
    assert 'ottla_topic_bytes_out_total{topic="milk"} 3' in registry.expose()
    assert meters["tea"].bytes_in.value == 0


def test_two_versions_of_an_api_are_counted_together():
    metrics = BrokerMetrics()
    one, other = ApiMeter(metrics, "Fetch"), ApiMeter(metrics, "Fetch")
    one.requests.value += 1
    other.requests.value += 1
    other.request_ms.observe(3)
    assert one.requests.value == 2
    assert one.request_ms.count == 1


@pytest.mark.parametrize("is_short", [True, False])
def test_requests_are_counted_the_same_on_every_way(is_short):
    async def main():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("tea")
            caller, node = Caller(broker.node, keeps_shortcut=is_short), broker.node
            data = batch(3)
            for _ in range(4):
                await caller.ask(produce_frame(7, "tea", data))
            for _ in range(3):  # the same batch again and again is written once
                await caller.ask(produce_frame(7, "tea", batch(2, producer=(1, 0, 0))))
            await caller.ask(produce_frame(7, "tea", data[:-1] + b"?"))
            await caller.ask(fetch_frame("tea", 0))
            meter, metrics = node.topic_meters["tea"], node.metrics
            size = 4 * len(data) + len(batch(2))
            assert (meter.records_in.value, meter.bytes_in.value, meter.bytes_out.value) == (14, size, size)
            assert metrics.requests.labels("Produce").value == 8
            assert metrics.request_ms.labels("Produce").count == 8
            assert metrics.requests.labels("Fetch").value == 1
            assert "ottla_requests_total" in node.registry.expose()

    asyncio.run(main())


def test_a_deleted_topic_leaves_no_numbers_behind():
    async def main():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("tea")
            caller = Caller(broker.node)
            await caller.ask(produce_frame(7, "tea", batch()))
            assert 'topic="tea"' in broker.node.registry.expose()
            await broker.node.controller.delete_topics(["tea"])
            await caller.ask(produce_frame(7, "tea", batch()))
            assert 'topic="tea"' not in broker.node.registry.expose()

    asyncio.run(main())
