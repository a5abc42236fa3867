"""A controller's decisions are written, remembered and told: whatever fails in between, nothing is left half done."""

import asyncio

import pytest

from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import DeleteTopicNode
from ottla.metadata.store import SessionState, StoreUnavailable
from tests.unit.broker.controlled import Life, until
from tests.unit.broker.test_office import cluster, three

WHERE = TopicPartition("t", 0)


def tell_session(life: Life, state: SessionState) -> None:
    store = life.host.store
    store._state = state  # type: ignore[attr-defined]  # an EmbeddedStore
    for listener in store._listeners:  # type: ignore[attr-defined]
        listener(state)


@cluster
async def test_a_deletion_goes_on_though_the_first_command_of_a_new_controller_is_refused(cluster):
    boss = await cluster.start(0)
    await boss.host.create_topics([NewTopic("t", 1, 1)])
    await boss.host.store.create(DeleteTopicNode.path("t"))  # as one leaves it that dies half-way
    boss.host._reign.forget()
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        await boss.host.alter_partitions(7, 7, [])
    await until(lambda: boss.host._reign.context is not None and not boss.host._reign.context.doomed)
    assert await cluster.store.children("/brokers/topics") == []


@cluster
async def test_a_failed_disk_that_is_told_while_the_session_is_interrupted_is_not_forgotten(cluster):
    boss, second, _ = await three(cluster)
    second.replicas.failing = {WHERE}
    answer, ask = asyncio.Event(), cluster.wires.ask

    async def slow(broker, order):
        answers = await ask(broker, order)
        if broker.node_id == 1 and answers:
            await answer.wait()
        return answers

    cluster.wires.ask = slow
    creating = asyncio.ensure_future(boss.host.create_topics([NewTopic("t", assignments={0: [1, 0]})]))
    await until(lambda: WHERE in second.replicas.states)
    tell_session(boss, SessionState.SUSPENDED)
    answer.set()
    await creating
    tell_session(boss, SessionState.CONNECTED)
    await until(lambda: boss.metadata.topics["t"].partitions[0].leader == 0)


@cluster
async def test_who_is_not_the_controller_says_so_at_once_also_while_it_waits_for_its_former_life(cluster):
    await cluster.start(0)
    second = await cluster.start(1)
    async with second.host._reign.turn:  # as somebody has it who registers
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await asyncio.wait_for(second.host.create_topics([NewTopic("t")]), 60)


@cluster
async def test_what_is_written_is_told_though_our_own_broker_stumbles_over_a_setting(cluster):
    boss, second, third = await three(cluster)

    def stumble(resource, values):
        boss.configs.apply = apply
        raise RuntimeError("nobody has thought of this")

    apply, boss.configs.apply = boss.configs.apply, stumble
    with pytest.raises(RuntimeError):
        await boss.host.create_topics([NewTopic("t", 1, 3, configs={"a": "1"})])
    await until(lambda: all("t" in life.metadata.topics for life in (boss, second, third)))
    assert boss.configs.applied[ConfigResource(ResourceType.TOPIC, "t")] == {"a": "1"}
    answers = await boss.host.create_topics([NewTopic("t", 1, 3)])
    assert isinstance(answers["t"], KafkaError) and answers["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS


@cluster
async def test_what_a_former_life_has_said_of_its_disk_does_not_hold_for_the_next(cluster):
    boss, second, _ = await three(cluster)
    second.replicas.failing = {WHERE}
    answer, ask = asyncio.Event(), cluster.wires.ask

    async def slow(broker, order):
        answers = await ask(broker, order)
        if broker.epoch == second.host.broker_epoch and answers:
            await answer.wait()
        return answers

    cluster.wires.ask = slow
    creating = asyncio.ensure_future(boss.host.create_topics([NewTopic("t", assignments={0: [1]})]))
    await until(lambda: WHERE in second.replicas.states)
    async with boss.host._reign.turn:
        await second.die()
        again = await cluster.start(1)
        await until(lambda: boss.host._reign.turn._waiters)
        waiting = len(boss.host._reign.turn._waiters)
        answer.set()
        await until(lambda: len(boss.host._reign.turn._waiters) > waiting)
    await creating
    await until(lambda: WHERE in again.replicas.states)
    await boss.host.reassignments()  # behind everything else
    assert boss.host._reign.context.topics["t"].image.partitions[0].offline == ()


@cluster
async def test_who_is_not_registered_again_does_not_believe_that_all_is_well(cluster):
    life = await cluster.start(0)
    reborn, heard = cluster.store.another_session(), []
    gate, get_all = asyncio.Event(), reborn.get_all

    async def slow(paths):
        await gate.wait()
        return await get_all(paths)

    async def open_session():
        return reborn

    reborn.get_all = slow
    life.host._office._open_session = open_session
    life.host.on_session, life.host.on_registered = heard.append, heard.append
    await life.host.store.close()
    await until(lambda: reborn._listeners)
    tell_session(life, SessionState.SUSPENDED)
    tell_session(life, SessionState.CONNECTED)
    assert heard[0] is SessionState.LOST and SessionState.CONNECTED not in heard, "others lead what was ours"
    gate.set()
    await until(lambda: heard[-1] == life.host.broker_epoch)


@cluster
async def test_an_office_that_we_have_without_knowing_is_ours_also_if_we_stepped_back_in_between(cluster):
    session = cluster.store.another_session()

    async def deaf(path, on_change):
        return lambda: None

    session.watch = deaf
    life = await cluster.start(0, store=session)
    await session.delete("/controller")
    multi, get_all = session.multi, session.get_all

    async def unheard(ops):
        session.multi, session.get_all = multi, cut_off
        await multi(ops)
        raise StoreUnavailable("nobody knows")

    async def cut_off(wanted):
        session.get_all = get_all
        raise StoreUnavailable("not now")

    session.multi = unheard
    with pytest.raises(StoreUnavailable):
        await life.host._office.stand()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await life.host.create_topics([NewTopic("t")])
    await until(lambda: life.host.is_controller)
    assert life.host.controller_epoch == 2
    assert not isinstance((await life.host.create_topics([NewTopic("t", 1, 1)]))["t"], KafkaError)


@cluster
async def test_an_office_whose_nodes_are_read_at_two_moments_is_looked_at_again(cluster):
    life = await cluster.start(0)
    office, get_all = life.host._office, life.host.store.get_all

    async def torn(wanted):
        office.store.get_all = get_all
        found = await get_all(wanted)
        epoch = found["/controller_epoch"]
        return {**found, "/controller_epoch": epoch._replace(data=b"0", version=epoch.version - 1)}

    office.store.get_all = torn
    await office.stand()
    assert office.claim is not None
