"""The cluster as clients reach it: through whichever server answers, and with patience up to a limit."""

import asyncio
import gc
import socket

import pytest

from ottla.client.cluster import TRANSACTION, Cluster
from ottla.client.config import ClientConfig
from ottla.client.connections import DATA, GENERAL
from ottla.client.deadline import Deadline
from ottla.client.errors import KafkaTimeoutError, NoBrokersAvailable, UnknownTopicError
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker


def dead() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def cluster_at(*servers: str, **settings: object) -> Cluster:
    quick = {"retry.backoff.ms": 1, "reconnect.backoff.ms": 1}
    return Cluster(ClientConfig({"bootstrap.servers": list(servers), **quick, **settings}))


def test_of_many_servers_one_that_lives_is_enough():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t", 2)
            cluster = cluster_at(dead(), dead(), broker.bootstrap_server)
            info = await cluster.topic("t", Deadline(10_000))
            assert len(info.partitions) == 2
            assert (await cluster.leader(TopicPartition("t", 1))).port == broker.port
            with pytest.raises(StaleMetadataError, match="no t-9"):
                await cluster.leader(TopicPartition("t", 9))
            await cluster.close()

    asyncio.run(run())


def test_a_broker_that_comes_back_is_found_again():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            cluster = cluster_at(broker.bootstrap_server)
            await cluster.topic("t", Deadline(10_000))
            await broker.kill()
            with pytest.raises(NoBrokersAvailable):
                await cluster.patiently(lambda: cluster.refresh(["t"]), Deadline(50), "no news")
            await broker.start()
            await cluster.patiently(lambda: cluster.refresh(["t"]), Deadline(10_000), "no news")
            await cluster.close()

    asyncio.run(run())


def test_those_who_ask_the_same_at_once_share_a_connection_and_an_answer():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            cluster = cluster_at(broker.bootstrap_server)
            await asyncio.gather(*(cluster.topic("t", Deadline(10_000)) for _ in range(50)))
            assert cluster.metadata.version == 1
            here = Address("127.0.0.1", broker.port)
            peers = await asyncio.gather(*(cluster.connections.to(here, DATA) for _ in range(50)))
            assert len(set(peers)) == 1
            assert cluster.connections.existing(here, DATA) is peers[0]
            assert cluster.connections.existing(here, GENERAL) is not peers[0]
            cluster.connections.drop(here, DATA)
            assert cluster.connections.existing(here, DATA) is None
            await cluster.close()

    asyncio.run(run())


def test_one_that_stops_waiting_takes_nothing_away_from_the_others():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            cluster = cluster_at(broker.bootstrap_server)
            first, second = (asyncio.ensure_future(cluster.refresh([])) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            await second
            assert first.cancelled()
            await cluster.close()

    asyncio.run(run())


def test_what_fails_when_everybody_who_asked_has_gone_is_not_complained_about(caplog):
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            cluster = cluster_at(broker.bootstrap_server)
            broker.pause()
            asking = asyncio.ensure_future(cluster.refresh([]))
            while not cluster._refreshing or not cluster.connections.opening():
                await asyncio.sleep(0)
            asking.cancel()
            await broker.kill()
            while cluster._refreshing:
                await asyncio.sleep(0)
            await cluster.close()

    asyncio.run(run())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_patience_ends_with_the_last_error_and_what_cannot_pass_ends_it_at_once():
    async def run() -> None:
        cluster = cluster_at(dead())
        tries = 0

        async def fail() -> None:
            nonlocal tries
            tries += 1
            raise KafkaError.of(ErrorCode.NOT_CONTROLLER, f"try {tries}")

        with pytest.raises(
            KafkaTimeoutError, match=r"it failed within 30 ms: NOT_CONTROLLER: try \d"
        ) as caught:
            await cluster.patiently(fail, Deadline(30), "it failed")
        assert tries > 1
        assert isinstance(caught.value.__cause__, RetriableError)

        async def refuse() -> None:
            raise KafkaError.of(ErrorCode.INVALID_CONFIG, "no")

        with pytest.raises(KafkaError, match="INVALID_CONFIG"):
            await cluster.patiently(refuse, Deadline(-1), "it failed")
        with pytest.raises(KafkaTimeoutError, match=r"it failed within 10 ms$"):
            await cluster.patiently(lambda: asyncio.Event().wait(), Deadline(10), "it failed")

        async def own_timeout() -> None:
            raise TimeoutError("mine")

        with pytest.raises(TimeoutError, match="mine"):
            await cluster.patiently(own_timeout, Deadline(10_000), "it failed")
        await cluster.close()

    asyncio.run(run())


def test_topics_that_cannot_be_or_are_not_there():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            cluster = cluster_at(broker.bootstrap_server)
            await cluster.refresh([])
            with pytest.raises(UnknownTopicError, match="topic nowhere was not found within 20 ms"):
                await cluster.topic("nowhere", Deadline(20))
            with pytest.raises(KafkaError, match="INVALID_TOPIC"):
                await cluster.topic("a/b", Deadline(-1))
            await cluster.close()

    asyncio.run(run())


def test_coordinators_are_remembered_until_they_fail():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            cluster = cluster_at(broker.bootstrap_server)

            async def ask() -> int:
                return await cluster.coordinator(TRANSACTION, "me")

            found = await cluster.patiently(ask, Deadline(10_000), "no coordinator")
            broker.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE")
            assert await ask() == found
            cluster.forget_coordinator(TRANSACTION, "me")
            with pytest.raises(StaleMetadataError, match="coordinator of the transactional id 'me'"):
                await ask()
            await cluster.close()

    asyncio.run(run())
