"""A partition's leader asks the transaction's coordinator, wherever that is; in doubt the producer comes again."""

import asyncio

import pytest

from ottla.broker.verification import _told
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.replication.machine import Producer
from tests.unit.broker.several import cluster_of
from tests.unit.broker.spread import PLACES, SHARED, Client, Owner, scenario

ADD_PARTITIONS = 24
NOWHERE = TopicPartition("nowhere", 0)


async def asker(cluster, owner):
    """The verifier of a broker that does not coordinate the owner's transactions."""
    coordinator = await owner.coordinator()
    return next(node.verifier for id, node in sorted(cluster.nodes.items()) if id != coordinator)


@scenario
async def test_another_broker_adds_and_verifies_what_belongs_to_a_transaction():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        verifier, producer = await asker(cluster, owner), Producer(*owner.producer)
        asked = ("mine", producer, PLACES[:2])
        assert set((await verifier.ask(*asked, adds=False)).values()) == {ErrorCode.TRANSACTION_ABORTABLE}
        assert await verifier.ask(*asked, adds=True) == dict.fromkeys(PLACES[:2], ErrorCode.NONE)
        assert await verifier.ask(*asked, adds=False) == dict.fromkeys(PLACES[:2], ErrorCode.NONE)
        told = await verifier.ask("mine", producer, PLACES, adds=False)
        assert told == {
            **dict.fromkeys(PLACES[:2], ErrorCode.NONE),
            PLACES[2]: ErrorCode.TRANSACTION_ABORTABLE,
        }


@scenario
async def test_another_broker_fences_whom_the_coordinator_does_not_know_any_more():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        verifier, old = await asker(cluster, owner), Producer(*owner.producer)
        await owner.init()
        refused = await verifier.verify("mine", old, [PLACES[0]], 12)
        assert refused[PLACES[0]].code is ErrorCode.INVALID_PRODUCER_EPOCH
        stranger = await verifier.verify("mine", Producer(old.id + 999, 0), [PLACES[0]], 12)
        assert stranger[PLACES[0]].code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@scenario
async def test_a_topic_that_the_coordinator_has_not_heard_of_keeps_the_others_waiting():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        verifier = await asker(cluster, owner)
        told = await verifier.verify("mine", Producer(*owner.producer), [NOWHERE, PLACES[0]], 12)
        assert told[NOWHERE].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told[PLACES[0]].code is ErrorCode.NOT_ENOUGH_REPLICAS


@scenario
async def test_a_coordinator_that_dies_before_it_answers_is_not_waited_for():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        verifier, coordinator = await asker(cluster, owner), await owner.coordinator()
        producer, asked = Producer(*owner.producer), asyncio.Event()

        async def never():
            asked.set()
            await asyncio.Event().wait()

        faults = cluster.nodes[coordinator].dispatch.faults
        faults.append(lambda call, request: never() if call.api_key == ADD_PARTITIONS else None)
        asking = asyncio.ensure_future(verifier.verify("mine", producer, [PLACES[0]], 12))
        await asked.wait()
        await cluster.kill(coordinator)
        assert (await asking)[PLACES[0]].code is ErrorCode.NOT_ENOUGH_REPLICAS
        while refused := await verifier.verify(
            "mine", producer, [PLACES[0]], 12
        ):  # until it knows the next one
            assert refused[PLACES[0]].code is ErrorCode.NOT_ENOUGH_REPLICAS
            await asyncio.sleep(0.005)


@scenario
async def test_a_producer_that_was_replaced_is_refused_by_every_leader():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        old = await Owner(client).init()
        await old.send("x", *PLACES)
        await Owner(client).init()  # aborts what was open
        for place in PLACES:
            old._sequences.clear()
            assert await old.send_once("late", place) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await client.visible(place) == []


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.OPERATION_NOT_ATTEMPTED])
@pytest.mark.parametrize("version", [9, 11, 12])
def test_what_is_not_known_is_worth_another_try(code, version):
    assert _told(code, Producer(1, 0), version).code is ErrorCode.NOT_ENOUGH_REPLICAS
