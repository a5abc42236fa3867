"""Several brokers, one store: who is elected, who is next, and who only believes that it still is."""

import asyncio
import functools
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import SessionState, StoreError, StoreUnavailable
from ottla.replication.state import NO_LEADER
from tests.unit.broker.controlled import Life, Wires, until


class Cluster:
    """Brokers on one store, each with a session of its own."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.wires = Wires()

    async def start(self, node_id: int, **more) -> Life:
        async def another() -> EmbeddedStore:
            return self.store.another_session()

        session = more.pop("store", None) or self.store.another_session()
        return await Life(session, node_id, wires=self.wires, open_session=another, **more).begin()


def cluster(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        async def inner() -> None:
            store = await EmbeddedStore.open(MEMORY)
            await test(Cluster(store))

        asyncio.run(inner())

    del run.__wrapped__
    return run


async def three(cluster: Cluster) -> list[Life]:
    lives = [await cluster.start(node_id) for node_id in (0, 1, 2)]
    await until(lambda: all(len(life.metadata.brokers) == 3 for life in lives))
    return lives


@cluster
async def test_the_first_is_controller_and_tells_the_others_of_each_other(cluster):
    lives = await three(cluster)
    assert [life.host.is_controller for life in lives] == [True, False, False]
    assert [life.metadata.controller_id for life in lives] == [0, 0, 0]
    answers = await lives[0].host.create_topics([NewTopic("t", 3, 3)])
    for life in lives:
        assert len(life.replicas.states) == 3
        assert life.metadata.topics["t"].partitions == answers["t"].partitions
    for other in lives[1:]:
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await other.host.create_topics([NewTopic("u")])


@cluster
async def test_when_the_controller_dies_another_takes_over_and_leaders_are_elected(cluster):
    first, second, third = await three(cluster)
    await first.host.create_topics([NewTopic("t", 3, 3)])
    await first.die()
    await until(lambda: second.host.is_controller or third.host.is_controller)
    alive = [second, third]
    await until(lambda: all(0 not in life.metadata.brokers for life in alive))
    (boss,) = [life for life in alive if life.host.is_controller]
    for life in alive:
        await until(lambda life=life: life.metadata.controller_id == boss.host.node_id)
        states = life.metadata.topics["t"].partitions
        assert all(s.leader in (1, 2) and set(s.isr) == {1, 2} for s in states)
        assert life.replicas.controller_epoch == 2
    assert not isinstance((await boss.host.create_topics([NewTopic("u", 1, 2)]))["u"], KafkaError)


@cluster
async def test_whoever_dies_is_missed_in_one_decision(cluster):
    boss, second, third = await three(cluster)
    await boss.host.create_topics([NewTopic(f"t{index}", 5, 3) for index in range(4)])
    cluster.wires.asked.clear()
    boss.calls.clear()
    await second.die()
    await third.die()
    await until(lambda: list(boss.metadata.brokers) == [0])
    assert all(s.leader == 0 and s.isr == (0,) for s in boss.replicas.states.values())
    assert boss.calls.count("leader_and_isr") <= 2, "each death is at most one order, with all partitions"


@cluster
async def test_a_broker_that_comes_back_is_told_everything(cluster):
    boss, second, _ = await three(cluster)
    await boss.host.create_topics([NewTopic("t", 2, 3)])
    await second.die()
    await until(lambda: 1 not in boss.metadata.brokers)
    again = await cluster.start(1)
    await until(lambda: "t" in again.metadata.topics)
    assert len(again.replicas.states) == 2
    assert again.host.broker_epoch > second.host.broker_epoch
    assert not any(1 in state.isr for state in again.replicas.states.values())


@cluster
async def test_a_restart_that_nobody_noticed_is_a_death(cluster):
    """The former session is still there: the new life waits for its end, and gets another epoch."""
    boss, second, _ = await three(cluster)
    await boss.host.create_topics([NewTopic("t", 1, 3)])
    second.host.abandon()
    before = boss.state("t").leader_epoch
    starting = asyncio.ensure_future(cluster.start(1, registration_timeout_ms=60_000))
    await until(lambda: len(cluster.wires.lives) == 3 and cluster.wires.lives[1] is not second)
    assert not starting.done()
    await second.host.store.expire()
    again = await starting
    await until(lambda: "t" in again.metadata.topics)
    state = again.state("t")
    assert again.host.broker_epoch > second.host.broker_epoch
    assert 1 not in state.isr and (state.leader != 1 or state.leader_epoch > before)


@cluster
async def test_two_brokers_with_one_id_are_one_too_many(cluster):
    await three(cluster)
    with pytest.raises(KafkaError, match=r"DUPLICATE_BROKER_REGISTRATION.*/brokers/ids/1"):
        await cluster.start(1, registration_timeout_ms=5)


@cluster
async def test_a_clean_shutdown_is_believed_and_another_is_not(cluster):
    boss, second, third = await three(cluster)
    resource = ConfigResource(ResourceType.TOPIC, "t")
    await boss.host.create_topics([NewTopic("t", 1, 3, configs={"min.insync.replicas": "3"})])
    assert boss.host.configs_of(*resource) == {"min.insync.replicas": "3"}
    await second.die()
    await third.die()
    await until(lambda: list(boss.metadata.brokers) == [0])
    again = await cluster.start(1, previous_epoch=second.host.broker_epoch)
    await until(lambda: "t" in again.metadata.topics)
    assert set(again.state("t").elr) == {1, 2}
    last = await cluster.start(2)
    await until(lambda: "t" in last.metadata.topics)
    assert last.state("t").elr == (1,)


class Flaky:
    """A store whose answers get lost."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.lost = 0
        self.happens = True

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def multi(self, ops):
        if self.lost > 0:
            self.lost -= 1
            if self.happens:
                await self._store.multi(ops)
            raise StoreUnavailable("no answer")
        return await self._store.multi(ops)


class Deaf(Flaky):
    """One that is told nothing."""

    async def watch(self, path, on_change):
        return lambda: None


@pytest.mark.parametrize("happens", [False, True])
def test_an_election_whose_answer_got_lost_is_known_again(happens):
    @cluster
    async def run(cluster):
        await (await cluster.start(9)).leave()
        store = Flaky(cluster.store.another_session())
        store.lost, store.happens = 1, happens
        life = await cluster.start(0, store=store)
        assert life.host.is_controller
        assert (await store.get("/brokers/ids/0")).created == life.host.broker_epoch
        assert life.host.controller_epoch == 2
        assert not isinstance((await life.host.create_topics([NewTopic("t")]))["t"], KafkaError)

    run()


@cluster
async def test_a_session_that_is_over_costs_the_office_and_another_begins(cluster):
    boss, second, third = await three(cluster)
    await boss.host.create_topics([NewTopic("t", 1, 3)])
    epochs: list[int] = []
    states: list[SessionState] = []
    boss.host.on_registered, boss.host.on_session = epochs.append, states.append
    old = boss.host.broker_epoch
    await boss.host.store.expire()
    assert not boss.host.is_controller and not boss.host.may_decide
    assert states == [SessionState.LOST]
    await until(lambda: epochs and boss.host.may_decide)
    assert boss.host.broker_epoch == epochs[0] > old
    await until(lambda: second.host.is_controller or third.host.is_controller or boss.host.is_controller)
    await until(lambda: all(len(life.metadata.brokers) == 3 for life in (boss, second, third)))
    await until(lambda: boss.replicas.controller_epoch >= 2)
    node = await cluster.store.get("/brokers/ids/0")
    assert f'"previous_epoch":"{old}"'.encode() in node.data, "its memory is what it was"


@cluster
async def test_who_does_not_get_back_in_at_once_tries_until_it_is_registered(cluster):
    life = await cluster.start(0)
    other = await cluster.start(1)
    reborn = cluster.store.another_session()
    watch, failures = reborn.watch, [StoreUnavailable("not now")]

    async def stumble(path, on_change):
        if failures:
            raise failures.pop()
        return await watch(path, on_change)

    reborn.watch = stumble

    async def open_session():
        return reborn

    life.host._office._open_session = open_session
    before = life.host.broker_epoch
    await life.host.store.close()
    await until(lambda: life.host.broker_epoch > before)
    await until(lambda: 0 in other.metadata.brokers and other.metadata.brokers[0].epoch > before)


@cluster
async def test_who_tries_often_to_register_watches_once(cluster):
    life = await cluster.start(0)
    reborn, watched, failures = cluster.store.another_session(), [], 3
    watch, get_all = reborn.watch, reborn.get_all

    async def note(path, on_change):
        watched.append(path)
        return await watch(path, on_change)

    async def stumble(paths):
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreUnavailable("not now")
        return await get_all(paths)

    async def open_session():
        return reborn

    reborn.watch, reborn.get_all = note, stumble
    life.host._office._open_session = open_session
    before = life.host.broker_epoch
    await life.host.store.close()
    await until(lambda: life.host.broker_epoch > before)
    assert len(watched) == len(set(watched)) == 3
    assert len(reborn._listeners) == 1


@cluster
async def test_a_session_that_ends_before_its_own_registration_is_answered_counts_for_nothing(cluster):
    life = await cluster.start(0)
    short = cluster.store.another_session()
    multi = short.multi

    async def outlived(ops):
        results = await multi(ops)
        await short.expire()
        return results

    short.multi = outlived
    sessions = [short]

    async def open_session():
        return sessions.pop() if sessions else cluster.store.another_session()

    life.host._office._open_session = open_session
    await life.host.store.close()
    await until(lambda: not sessions and life.host.is_controller)
    assert (await cluster.store.get("/brokers/ids/0")).created == life.host.broker_epoch


@cluster
async def test_an_office_that_was_taken_by_an_attempt_that_failed_is_known_by_the_next(cluster):
    life = await cluster.start(0)
    reborn = cluster.store.another_session()
    multi, get_all, failures = reborn.multi, reborn.get_all, [StoreUnavailable("not now")]

    async def unheard(ops):
        reborn.multi, reborn.get_all = multi, stumble
        await multi(ops)
        raise StoreUnavailable("nobody knows")

    async def stumble(wanted):
        if failures:
            raise failures.pop()
        return await get_all(wanted)

    reborn.multi = unheard

    async def open_session():
        return reborn

    life.host._office._open_session = open_session
    await life.host.store.close()
    await until(lambda: not failures and life.host.is_controller)
    assert await life.host.create_topics([NewTopic("t", 1, 1)])


@cluster
async def test_a_topic_that_could_not_be_buried_is_buried_when_the_store_is_back(cluster):
    boss, _, _ = await three(cluster)
    await boss.host.create_topics([NewTopic("t", 1, 3)])
    reign, failures = boss.host._reign, [KafkaError(ErrorCode.NOT_CONTROLLER, "cut off from the store")]
    bury = reign._bury

    async def stumble(context, names):
        if failures:
            raise failures.pop()
        await bury(context, names)

    reign._bury = stumble
    with pytest.raises(KafkaError):
        await boss.host.delete_topics(["t"])
    await until(lambda: reign.context is not None and not reign.context.doomed)
    assert await cluster.store.children("/brokers/topics") == []


@cluster
async def test_a_controller_that_was_replaced_without_knowing_is_refused_by_store_and_brokers(cluster):
    zombie = await cluster.start(0, store=Deaf(cluster.store.another_session()))
    second = await cluster.start(1)
    session = zombie.host.store
    await zombie.host._reign.follow_brokers()
    await until(lambda: len(second.metadata.brokers) == 2)
    for node in ("/controller", "/brokers/ids/0"):
        await session.delete(node)
    await until(lambda: second.host.is_controller)
    await until(lambda: second.replicas.controller_epoch == 2 or list(second.metadata.brokers) == [1])
    order = next(order for node_id, order in cluster.wires.asked if node_id == 1)
    with pytest.raises(KafkaError) as refusal:
        await second.host.orders.follow(order)
    assert refusal.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await zombie.host.create_topics([NewTopic("t")])
    assert "t" not in await cluster.store.children("/brokers/topics")


@cluster
async def test_settings_reach_every_broker(cluster):
    boss, second, third = await three(cluster)
    await boss.host.create_topics([NewTopic("t", 1, 1, configs={"a": "1"})])
    resource = ConfigResource(ResourceType.TOPIC, "t")
    await until(lambda: all(life.configs.applied.get(resource) == {"a": "1"} for life in (second, third)))
    await boss.host.alter_configs(resource, {"a": "2"})
    await until(lambda: all(life.configs.applied[resource] == {"a": "2"} for life in (second, third)))


@cluster
async def test_a_broker_that_cannot_be_reached_holds_up_nobody(cluster):
    boss, second, third = await three(cluster)
    cluster.wires.cut.add(2)
    creating = asyncio.ensure_future(boss.host.create_topics([NewTopic("t", 1, 3)]))
    await until(lambda: "t" in second.metadata.topics)
    assert len(await boss.host.allocate_producer_ids()) == 1000, "the controller goes on deciding"
    assert not creating.done()
    cluster.wires.cut.clear()
    await creating
    assert "t" in third.metadata.topics


@cluster
async def test_nobody_is_left_to_lead_and_the_last_one_does_again(cluster):
    boss, second, _ = await three(cluster)
    await boss.host.create_topics([NewTopic("t", assignments={0: [1]})])
    await second.die()
    await until(lambda: boss.metadata.topics["t"].partitions[0].leader == NO_LEADER)
    again = await cluster.start(1)
    await until(lambda: again.metadata.topics and again.state("t").leader == 1)


@cluster
async def test_who_is_cut_off_from_the_store_decides_nothing_until_it_is_back(cluster):
    boss, second, _ = await three(cluster)
    store = boss.host.store
    store._state = SessionState.SUSPENDED
    for listener in store._listeners:
        listener(SessionState.SUSPENDED)
    assert not boss.host.may_decide
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await boss.host.create_topics([NewTopic("t")])
    await second.die()
    store._state = SessionState.CONNECTED
    for listener in store._listeners:
        listener(SessionState.CONNECTED)
    assert boss.host.may_decide
    await until(lambda: 1 not in boss.metadata.brokers)
    assert boss.host.is_controller


@cluster
async def test_who_resigns_leaves_the_office_to_others_though_its_session_goes_on(cluster):
    first, second, third = await three(cluster)
    await first.host.resign()
    await until(lambda: second.host.is_controller or third.host.is_controller)
    assert first.host.store.session is SessionState.CONNECTED
    boss = second if second.host.is_controller else third
    assert 0 in boss.metadata.brokers, "it is still there, and says goodbye in its own time"
    assert boss.host.controller_epoch == 2


@cluster
async def test_who_was_replaced_unseen_leaves_the_office_of_its_successor_alone(cluster):
    zombie = await cluster.start(0, store=Deaf(cluster.store.another_session()))
    await cluster.store.delete("/controller")
    successor = await cluster.start(1)
    await until(lambda: successor.host.is_controller)
    await zombie.host.resign()
    assert successor.host.is_controller and await cluster.store.get("/controller")


@cluster
async def test_who_is_told_to_stop_at_the_moment_its_former_life_ends_stops(cluster):
    _, second, _ = await three(cluster)
    second.host.abandon()
    starting = asyncio.ensure_future(cluster.start(1, registration_timeout_ms=60_000))
    await until(lambda: cluster.wires.lives[1] is not second)
    office = cluster.wires.lives[1].host._office
    await until(lambda: office.bell._waiters)
    office.ring()
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled() and not office.is_registered


@pytest.mark.parametrize("is_another", [False, True])
def test_nobody_registers_in_a_store_that_has_lost_its_cluster(is_another, caplog):
    """The store's data were wiped, and perhaps another cluster has begun there: ours have no place in it."""

    async def scenario():
        cluster = Cluster(await EmbeddedStore.open(MEMORY))
        life = await cluster.start(0)
        wiped = await EmbeddedStore.open(MEMORY)
        if is_another:
            await Life(wiped.another_session(), 1).begin()

        async def open_session():
            return wiped.another_session()

        life.host._office._open_session = open_session
        await life.host.store.expire()
        await until(lambda: "is not that of cluster" in caplog.text)
        assert not life.host._office.is_registered
        assert "0" not in (await wiped.children("/brokers/ids") if is_another else [])
        assert not any(record.exc_info for record in caplog.records)
        await life.host.resign()

    asyncio.run(scenario())


@cluster
async def test_a_cluster_that_somebody_deletes_is_missed_in_a_sentence(cluster):
    life = await cluster.start(0)
    await cluster.store.delete("/controller_epoch")
    with pytest.raises(StoreError, match="/controller_epoch"):
        await life.host._office.stand()
