"""The proxy between client and broker: what is planted strikes once, and everything else passes as it came."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from confluent_kafka.admin import AdminClient

from ottla.core.errors import ErrorCode
from ottla.core.loop_thread import LoopThread
from ottla.network.peer import PeerClosed, RequestTimedOut, connect
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    MetadataRequest,
)
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing import AsyncBroker
from ottla.testing.proxy import Proxy

NOBODY_WAITS_MS = 50


@asynccontextmanager
async def proxied():
    """A broker with a topic, and a proxy before it."""
    async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
        await broker.create_topic("t")
        yield broker, proxy


def produce(value: bytes) -> ProduceRequest:
    data = ProduceRequest.Topic.Partition(index=0, records=build([Record(0, 0, None, value, ())]))
    topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)


async def values(broker, count):
    return [each.value for each in await broker.records("t", at_least=count)]


def test_without_anything_planted_a_client_notices_nothing():
    async def run():
        async with proxied() as (broker, proxy), await connect("127.0.0.1", proxy.port) as peer:
            answer = await peer.send(produce(b"x"), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert await values(broker, 1) == [b"x"]

    asyncio.run(run())


def test_who_asks_for_brokers_is_sent_back_to_the_proxy():
    async def run():
        async with proxied() as (broker, proxy), await connect("127.0.0.1", proxy.port) as peer:
            for version in (0, 9, 13):
                (found,) = (await peer.send(MetadataRequest(topics=[]), version)).brokers
                assert (found.host, found.port) == ("127.0.0.1", proxy.port)
            asked = DescribeClusterRequest(include_cluster_authorized_operations=False)
            (found,) = (await peer.send(asked)).brokers
            assert found.port == proxy.port != broker.port

    asyncio.run(run())


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_coordinators_are_found_at_the_proxy(version):
    """In its old form the answer is one address, in its new one it has many."""

    async def ask(peer):
        asked = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
        answer = await peer.send(FindCoordinatorRequest(**asked), version)
        return answer if version < 4 else answer.coordinators[0]

    async def run():
        async with proxied() as (_, proxy), await connect("127.0.0.1", proxy.port) as peer:
            while (found := await ask(peer)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                await asyncio.sleep(0)  # its topic is being made
            assert (found.host, found.port) == ("127.0.0.1", proxy.port)

    asyncio.run(run())


def test_a_held_request_does_not_reach_the_broker_before_it_is_released():
    async def run():
        async with proxied() as (broker, proxy), await connect("127.0.0.1", proxy.port) as peer:
            held = proxy.hold("Produce")
            first, behind = await peer.post(produce(b"held"), 9), await peer.post(produce(b"behind"), 9)
            await held.arrived()
            async with await connect("127.0.0.1", proxy.port) as another:
                await another.send(produce(b"past it"), 9)
            assert await values(broker, 1) == [b"past it"]
            assert not first.done() and not behind.done()
            held.release()
            await asyncio.gather(first, behind)
            assert await values(broker, 3) == [b"past it", b"held", b"behind"]

    asyncio.run(run())


def test_a_held_request_reaches_the_broker_also_when_its_client_is_gone():
    async def run():
        async with proxied() as (broker, proxy):
            held = proxy.hold("Produce")
            peer = await connect("127.0.0.1", proxy.port)
            await peer.post(produce(b"late"), 9)
            await held.arrived()
            peer.abort()
            held.release()
            answer = await held.answer()
            assert answer.responses[0].partition_responses[0].base_offset == 0
            assert await values(broker, 1) == [b"late"]

    asyncio.run(run())


def test_a_held_answer_is_to_a_request_that_was_carried_out():
    async def run():
        async with proxied() as (broker, proxy), await connect("127.0.0.1", proxy.port) as peer:
            held = proxy.hold("Produce", "response")
            answer = await peer.post(produce(b"x"), 9)
            await held.arrived()
            assert await values(broker, 1) == [b"x"] and not answer.done()
            held.release()
            await answer

    asyncio.run(run())


def test_a_lost_request_takes_its_connection_along_and_the_broker_knows_nothing():
    async def run():
        async with proxied() as (broker, proxy):
            proxy.lose("Produce")
            peer = await connect("127.0.0.1", proxy.port)
            with pytest.raises(PeerClosed):
                await peer.send(produce(b"lost"), 9)
            async with await connect("127.0.0.1", proxy.port) as another:
                await another.send(produce(b"after"), 9)
            assert await values(broker, 1) == [b"after"]

    asyncio.run(run())


def test_when_an_answer_is_lost_the_request_has_been_carried_out():
    async def run():
        async with proxied() as (broker, proxy):
            proxy.lose("Produce", "response")
            peer = await connect("127.0.0.1", proxy.port)
            with pytest.raises(PeerClosed):
                await peer.send(produce(b"done"), 9)
            assert await values(broker, 1) == [b"done"]

    asyncio.run(run())


def test_a_repeated_request_is_carried_out_twice_and_answered_once():
    async def run():
        async with proxied() as (broker, proxy), await connect("127.0.0.1", proxy.port) as peer:
            proxy.repeat("Produce")
            await peer.send(produce(b"twice"), 9)
            await peer.send(produce(b"once"), 9)
            assert await values(broker, 3) == [b"twice", b"twice", b"once"]

    asyncio.run(run())


def test_a_delayed_request_comes_late_but_comes():
    async def run():
        async with proxied() as (broker, proxy), await connect("127.0.0.1", proxy.port) as peer:
            proxy.delay("Produce", 3600)
            with pytest.raises(RequestTimedOut):
                await peer.send(produce(b"an hour late"), 9, timeout_ms=NOBODY_WAITS_MS)
            async with await connect("127.0.0.1", proxy.port) as another:
                proxy.delay("Produce", 0.001)
                await another.send(produce(b"soon"), 9)
            assert await values(broker, 1) == [b"soon"]

    asyncio.run(run())


def test_what_is_planted_strikes_its_api_once():
    async def run():
        async with proxied() as (_, proxy), await connect("127.0.0.1", proxy.port) as peer:
            proxy.repeat("Produce")
            await peer.send(MetadataRequest(topics=None))
            assert proxy.pending == ["Produce"]
            await peer.send(produce(b"x"), 9)
            assert proxy.pending == []

    asyncio.run(run())


def test_a_slip_of_the_pen_is_told():
    with pytest.raises(ValueError, match="Prodcue"):
        Proxy("127.0.0.1", 1).lose("Prodcue")


def test_cut_connections_end_at_both_ends():
    async def run():
        async with proxied() as (_, proxy):
            peer = await connect("127.0.0.1", proxy.port)
            held = proxy.hold("Produce")
            waiting = await peer.post(produce(b"x"), 9)
            await held.arrived()
            proxy.cut()
            with pytest.raises(PeerClosed):
                await waiting
            async with await connect("127.0.0.1", proxy.port) as another:
                answer = await another.send(ApiVersionsRequest())
                assert isinstance(answer, ApiVersionsResponse)

    asyncio.run(run())


def test_a_request_whose_broker_died_is_answered_with_that():
    async def run():
        async with proxied() as (broker, proxy):
            peer = await connect("127.0.0.1", proxy.port)
            held = proxy.hold("Produce")
            await peer.post(produce(b"x"), 9)
            await held.arrived()
            await broker.kill()
            held.release()
            with pytest.raises(ConnectionError):
                await held.answer()
            peer.abort()

    asyncio.run(run())


def test_a_client_of_another_make_comes_through():
    thread, broker = LoopThread(), AsyncBroker(memory=True)
    try:
        thread.run(broker.start())
        proxy = Proxy("127.0.0.1", broker.port)
        thread.run(proxy.start())
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap_server})
        (found,) = admin.list_topics(timeout=20).brokers.values()
        assert found.port == proxy.port
        thread.run(proxy.close())
        thread.run(broker.close())
    finally:
        thread.end()
