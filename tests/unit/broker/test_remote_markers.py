"""A transaction ends in all of its partitions, whoever leads them, and whoever coordinates it by then."""

import asyncio

import pytest

from ottla.broker import remote_markers
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import WriteTxnMarkersRequest
from ottla.transactions.states import State
from tests.unit.broker.several import cluster_of
from tests.unit.broker.spread import PLACES, SHARED, TRANSACTION, Client, Owner, scenario


def status(cluster, transactional_id="mine"):
    """How far its coordinator is, if there is one in charge."""
    for node in cluster.nodes.values():
        for shard in node.transactions.shards.values():
            found = shard.machine._transactions.get(transactional_id)
            if found is not None and not shard.is_retired and shard.partition.is_leader:
                return found.state
    return None


async def completed(cluster, state):
    while status(cluster) is not state:
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("is_newer", [True, False])
@scenario
async def test_a_transaction_over_partitions_of_several_brokers_commits_or_aborts_as_one(is_newer):
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        assert len({await client.leader(place) for place in PLACES}) == 3
        owner = await Owner(client, is_newer=is_newer).init()
        for value, is_commit in [("a", True), ("b", False), ("c", True)]:
            await owner.send(value, *PLACES)
            await owner.end(committed=is_commit)
            await completed(cluster, State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
        for place in PLACES:
            assert await client.visible(place) == ["a", "c"]


@scenario
async def test_offsets_of_a_group_that_another_broker_coordinates_are_part_of_it():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        for group, at in [("g0", 10), ("g1", 20), ("g2", 30)]:  # they hash to three partitions
            await owner.commit_offset(group, at)
        await owner.end()
        assert [await client.offset(group) for group in ("g0", "g1", "g2")] == [10, 20, 30]
        await owner.commit_offset("g0", 99)
        await owner.end(committed=False)
        assert await client.offset("g0") == 10


async def dies_at(step, cluster, client, owner, *, is_commit):
    """Have the coordinator die at that step of the end of a transaction."""
    who = await owner.coordinator()
    node = cluster.nodes[who]
    reached = asyncio.Event()
    if step == "before Prepare":
        await cluster.kill(who)
        return asyncio.ensure_future(owner.end(committed=is_commit))
    if step == "after Prepare":
        node.transactions.on_effect = lambda effect: reached.set()
    elif step == "between markers":
        write = node.coordination._router._write_at

        async def only_the_first(leader, marker):
            if reached.is_set():
                await asyncio.Event().wait()
            codes = await write(leader, marker)
            reached.set()
            return codes

        node.coordination._router._write_at = only_the_first
    else:

        async def nobody_is_told(effect, done):
            reached.set()
            await asyncio.Event().wait()

        node.coordination._ender._marked = nobody_is_told
    ending = asyncio.ensure_future(owner.end(committed=is_commit))
    await reached.wait()
    await cluster.kill(who)
    return ending


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("step", ["before Prepare", "after Prepare", "between markers", "before Complete"])
@scenario
async def test_a_coordinator_that_dies_leaves_one_outcome(step, is_commit):
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        await owner.send("x", *PLACES)
        await owner.commit_offset("g0", 7)
        ending = await dies_at(step, cluster, client, owner, is_commit=is_commit)
        await ending
        await completed(cluster, State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
        for place in PLACES:
            assert await client.visible(place) == (["x"] if is_commit else [])
        assert await client.offset("g0") == (7 if is_commit else -1)
        await owner.send("y", *PLACES)
        await owner.end()
        for place in PLACES:
            assert await client.visible(place) == (["x", "y"] if is_commit else ["y"])


@scenario
async def test_a_leader_that_is_dead_gets_its_marker_from_whoever_leads_next():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        await owner.send("x", *PLACES)
        coordinator = await owner.coordinator()
        other = next(id for id in cluster.nodes if id != coordinator)
        cluster.nodes[other].markers.write = None  # whoever asks it gets no answer that helps
        await owner.end()
        await cluster.kill(other)
        await completed(cluster, State.COMPLETE_COMMIT)
        for place in PLACES:
            assert await client.visible(place) == ["x"]


@scenario
async def test_a_broker_without_the_metadata_of_a_deleted_topic_needs_no_marker():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        await client.create("rum")
        owner = await Owner(client).init()
        await owner.send("x", *PLACES, *(TopicPartition("rum", index) for index in range(3)))
        await cluster.controller.controller.delete_topics(["rum"])
        await owner.end()
        await completed(cluster, State.COMPLETE_COMMIT)
        assert [await client.visible(place) for place in PLACES] == [["x"]] * 3


@scenario
async def test_the_marker_of_a_coordinator_that_was_replaced_is_refused_and_it_stops():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client, is_newer=False).init()
        await owner.send("x", PLACES[0])
        await owner.end()
        await completed(cluster, State.COMPLETE_COMMIT)
        await owner.send("y", PLACES[0])
        id, epoch = owner.producer
        topics = [WriteTxnMarkersRequest.Marker.Topic(name="tea", partition_indexes=[0])]
        late = WriteTxnMarkersRequest.Marker(
            producer_id=id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=topics,
            coordinator_epoch=-1,
        )
        answer = await client.ask(await client.leader(PLACES[0]), "WriteTxnMarkers", 2, markers=[late])
        (told,) = answer.markers[0].topics[0].partitions
        assert told.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        await owner.end()
        assert await client.visible(PLACES[0]) == ["x", "y"]


@scenario
async def test_many_transactions_of_one_coordinator_end_at_once():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        names = await _coordinated_together(client, 6)
        owners = [await Owner(client, name).init() for name in names]
        for owner in owners:
            await owner.send(owner.id, *PLACES)
        await asyncio.gather(*(owner.end() for owner in owners))
        for place in PLACES:
            assert sorted(await client.visible(place)) == sorted(names)


async def _coordinated_together(client, count):
    """Transactional ids with one coordinator."""
    first = await client.coordinator("0", TRANSACTION)
    names = []
    for number in range(100):
        if len(names) < count and await client.coordinator(str(number), TRANSACTION) == first:
            names.append(str(number))
    return names


@scenario
async def test_an_order_that_is_somebody_elses_now_is_not_carried_out_any_longer():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        await owner.send("x", *PLACES)
        node = cluster.nodes[await owner.coordinator()]

        async def nobody_can_be_reached(leader, marker):
            return dict.fromkeys(remote_markers.places_of(marker), ErrorCode.NETWORK_EXCEPTION)

        node.coordination._router._write_at = nobody_can_be_reached
        node.coordination._router._leads = lambda place: False
        await owner.end()
        assert len(node.coordination._ender) == 1
        node.transactions.close()
        while len(node.coordination._ender):
            await asyncio.sleep(0.005)
        assert status(cluster) is None
