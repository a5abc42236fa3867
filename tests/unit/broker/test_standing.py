"""What a controller does of its own accord, and what brokers ask it for."""

import asyncio
import functools
from unittest.mock import patch

import pytest

from ottla.broker import reign
from ottla.broker.standing import Rebalancing
from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.controller.configs import MIN_INSYNC
from ottla.controller.preferred import ElectionType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import SessionState
from ottla.replication.exchange import BrokerLife, Proposal
from tests.unit.broker.controlled import Life, until
from tests.unit.broker.test_office import Cluster

WHERE = TopicPartition("t", 0)


def cluster(test):
    @functools.wraps(test)
    def run() -> None:
        async def inner() -> None:
            await test(Cluster(await EmbeddedStore.open(MEMORY)))

        asyncio.run(inner())

    del run.__wrapped__
    return run


def shown(life: Life):
    return life.metadata.topics["t"].partitions[0]


async def caught_up(boss: Life, *members: Life) -> None:
    """The leader proposes that all of these are in sync."""
    leader = next(life for life in members if life.host.node_id == shown(boss).leader)
    state = shown(boss)
    lives = tuple(BrokerLife(life.host.node_id, life.host.broker_epoch) for life in members)
    proposal = Proposal(WHERE, state.topic_id, state.leader_epoch, state.partition_epoch, lives)
    answers = await boss.host.alter_partitions(leader.host.node_id, leader.host.broker_epoch, [proposal])
    assert set(answers[WHERE].isr) == {life.host.node_id for life in members}
    await until(lambda: shown(boss) == answers[WHERE])


async def bounced(cluster: Cluster, **more) -> tuple[Life, Life]:
    """A partition whose preferred leader has been away, and is in sync again."""
    boss = await cluster.start(0, **more)
    other = await cluster.start(1)
    await until(lambda: len(boss.metadata.brokers) == len(other.metadata.brokers) == 2)
    await boss.host.create_topics([NewTopic("t", assignments={0: [1, 0]})])
    await other.die()
    await until(lambda: shown(boss).leader == 0)
    again = await cluster.start(1)
    await until(lambda: "t" in again.metadata.topics)
    await caught_up(boss, boss, again)
    return boss, again


@cluster
async def test_leadership_goes_back_to_where_it_should_be_in_its_time(cluster):
    looks = iter([None])
    boss, again = await bounced(cluster, rebalancing=Rebalancing(lambda: next(looks, 0.001), lambda: 0))
    await until(lambda: shown(boss).leader == 1)
    await until(lambda: again.state("t").leader == 1)


@cluster
async def test_leadership_goes_back_when_somebody_asks(cluster):
    boss, again = await bounced(cluster)
    assert shown(boss).leader == 0
    assert await boss.host.elect_leaders(ElectionType.PREFERRED, [WHERE]) == {WHERE: None}
    assert shown(boss).leader == again.state("t").leader == 1


@cluster
async def test_who_asks_in_the_name_of_a_former_life_changes_nothing(cluster):
    boss, again = await bounced(cluster)
    former = again.host.broker_epoch - 1
    for attempt in (
        boss.host.alter_partitions(1, former, []),
        boss.host.controlled_shutdown(1, former),
        boss.host.replicas_failed([WHERE], BrokerLife(1, former)),
    ):
        with pytest.raises(KafkaError) as refusal:
            await attempt
        assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert shown(boss).offline == ()


@cluster
async def test_a_member_that_was_counted_in_its_former_life_is_not_in_sync(cluster):
    boss = await cluster.start(0)
    other = await cluster.start(1)
    await until(lambda: len(other.metadata.brokers) == 2)
    await boss.host.create_topics([NewTopic("t", assignments={0: [0, 1]})])
    old = BrokerLife(1, other.host.broker_epoch)
    await other.die()
    again = await cluster.start(1)
    await until(lambda: "t" in again.metadata.topics and shown(boss).isr == (0,))
    state = shown(boss)
    mine = BrokerLife(0, boss.host.broker_epoch)
    proposal = Proposal(WHERE, state.topic_id, state.leader_epoch, state.partition_epoch, (mine, old))
    answers = await boss.host.alter_partitions(0, boss.host.broker_epoch, [proposal])
    assert answers[WHERE].code is ErrorCode.INELIGIBLE_REPLICA


@cluster
async def test_who_is_about_to_leave_leads_nothing_any_more(cluster):
    boss, again = await bounced(cluster)
    await boss.host.elect_leaders(ElectionType.PREFERRED, None)
    assert shown(boss).leader == 1
    assert await boss.host.controlled_shutdown(1, again.host.broker_epoch) == []
    assert (shown(boss).leader, shown(boss).isr) == (0, (0,))
    assert again.state("t").leader == 0


@cluster
async def test_a_partition_moves_when_its_new_replica_is_in_sync(cluster):
    boss = await cluster.start(0)
    others = [await cluster.start(node_id) for node_id in (1, 2)]
    await until(lambda: len(boss.metadata.brokers) == 3)
    await boss.host.create_topics([NewTopic("t", assignments={0: [0, 1]})])
    assert await boss.host.reassign({WHERE: [0, 2]}) == {WHERE: None}
    moving = await boss.host.reassignments()
    assert (moving[WHERE].adding, moving[WHERE].removing) == ((2,), (1,))
    assert WHERE in others[1].replicas.states
    await until(lambda: shown(boss).replicas == moving[WHERE].replicas)
    state = moving[WHERE]
    lives = (boss, *others)
    members = tuple(BrokerLife(life.host.node_id, life.host.broker_epoch) for life in lives)
    proposal = Proposal(WHERE, state.topic_id, state.leader_epoch, state.partition_epoch, members)
    await boss.host.alter_partitions(0, boss.host.broker_epoch, [proposal])
    await until(lambda: set(shown(boss).replicas) == {0, 2})
    assert await boss.host.reassignments() == {}
    await until(lambda: others[0].replicas.deleted == {WHERE})
    await until(lambda: not cluster.store._shared.tree.children("/admin/deleted_replicas"))


@cluster
async def test_a_move_that_was_taken_back_is_over_when_the_settings_ask_for_fewer_in_sync(cluster):
    boss = await cluster.start(0)
    others = [await cluster.start(node_id) for node_id in (1, 2)]
    await until(lambda: len(boss.metadata.brokers) == 3)
    await boss.host.create_topics([NewTopic("t", assignments={0: [0, 1]}, configs={MIN_INSYNC: "2"})])
    await boss.host.reassign({WHERE: [0, 1, 2]})
    await until(lambda: shown(boss).replicas == (0, 1, 2))
    await caught_up(boss, boss, others[1])  # 1 lags behind
    await boss.host.reassign({WHERE: None})
    await until(lambda: shown(boss).removing == (2,))
    await boss.host.alter_configs(ConfigResource(ResourceType.TOPIC, "t"), {MIN_INSYNC: "1"})
    assert await boss.host.reassignments() == {}
    await until(lambda: shown(boss).replicas == (0, 1))


@cluster
async def test_a_failed_disk_is_reported_by_the_answer_to_an_order(cluster):
    boss = await cluster.start(0)
    other = await cluster.start(1)
    await until(lambda: len(boss.metadata.brokers) == 2)
    other.replicas.failing = {WHERE}
    await boss.host.create_topics([NewTopic("t", assignments={0: [1, 0]})])
    assert (shown(boss).leader, shown(boss).offline) == (0, (1,))


@cluster
async def test_a_replica_that_could_not_be_deleted_is_not_one_of_the_next_topic_of_that_name(cluster):
    boss = await cluster.start(0)
    other = await cluster.start(1)
    await until(lambda: len(boss.metadata.brokers) == 2)
    await boss.host.create_topics([NewTopic("t", assignments={0: [1]})])
    is_over = asyncio.Event()

    async def stop_replicas(controller_epoch, partitions):
        await is_over.wait()
        return dict.fromkeys(partitions, ErrorCode.KAFKA_STORAGE_ERROR)

    other.replicas.stop_replicas = stop_replicas
    with patch.object(reign, "FOLLOW_SECONDS", 0.001):
        await boss.host.delete_topics(["t"])
        await boss.host.create_topics([NewTopic("t", assignments={0: [1]})])
    is_over.set()
    await until(lambda: other.replicas.calls[-1] == "update" and not boss.host._reign._under_way)
    assert (shown(boss).leader, shown(boss).offline) == (1, ())


@cluster
async def test_a_broker_that_missed_a_deletion_gets_the_next_topic_of_that_name_from_the_next_controller(
    cluster,
):
    boss = await cluster.start(0)
    heir, other = [await cluster.start(node_id) for node_id in (1, 2)]
    await until(lambda: len(boss.metadata.brokers) == len(other.metadata.brokers) == 3)
    await boss.host.create_topics([NewTopic("t", assignments={0: [2]})])
    former = other.state("t").topic_id
    follow = other.replicas.leader_and_isr

    async def leader_and_isr(controller_epoch, states):
        had = other.replicas.states.get(WHERE)
        if had is not None and states and states[0].topic_id != had.topic_id:
            return {WHERE: ErrorCode.INCONSISTENT_TOPIC_ID}
        return await follow(controller_epoch, states)

    other.replicas.leader_and_isr = leader_and_isr
    cluster.wires.cut.add(2)  # from the controller, while its session lives on
    with patch.object(reign, "FOLLOW_SECONDS", 0.001):
        await boss.host.delete_topics(["t"])
    creating = asyncio.ensure_future(boss.host.create_topics([NewTopic("t", assignments={0: [2]})]))
    await until(lambda: shown(boss).topic_id != former if "t" in boss.metadata.topics else False)
    await boss.die()
    creating.cancel()
    cluster.wires.cut.clear()
    await until(lambda: WHERE in other.replicas.states and other.state("t").topic_id != former)
    assert heir.host.is_controller
    assert other.replicas.deleted == {WHERE}
    await until(lambda: not cluster.store._shared.tree.children("/admin/deleted_replicas"))


@cluster
async def test_commands_in_the_midst_of_a_failover_are_answered_by_somebody_or_refused(cluster):
    lives = [await cluster.start(node_id) for node_id in (0, 1, 2)]
    await until(lambda: all(len(life.metadata.brokers) == 3 for life in lives))
    commands = [
        asyncio.ensure_future(lives[0].host.create_topics([NewTopic(f"t{index}", 1, 2)]))
        for index in range(5)
    ]
    await until(lambda: commands[0].done())
    await lives[0].die()
    outcomes = await asyncio.gather(*commands, return_exceptions=True)
    await until(lambda: lives[1].host.is_controller or lives[2].host.is_controller)
    boss = lives[1] if lives[1].host.is_controller else lives[2]
    await until(lambda: 0 not in boss.metadata.brokers)
    for index, outcome in enumerate(outcomes):
        name = f"t{index}"
        if isinstance(outcome, KafkaError):
            assert outcome.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            assert name in boss.metadata.topics, "what was acknowledged is there"
    for image in boss.metadata.topics.values():
        assert all(state.leader in (1, 2) for state in image.partitions if set(state.replicas) != {0})


@cluster
async def test_the_settings_of_a_new_topic_are_not_read_from_a_server_that_is_behind(cluster):
    """The controller has written them by another server. A transaction makes ours catch up, and a read does not."""
    boss = await cluster.start(0)
    other = await cluster.start(1)
    await until(lambda: len(boss.metadata.brokers) == 2)
    store, is_behind = other.store, True
    multi, get_all = store.multi, store.get_all

    async def catch_up(ops):
        nonlocal is_behind
        is_behind = False
        return await multi(ops)

    async def late(paths):
        found = await get_all(paths)
        return {path: node for path, node in found.items() if not (is_behind and "/config/" in path)}

    store.multi, store.get_all = catch_up, late
    await boss.host.create_topics([NewTopic("t", assignments={0: [1]}, configs={MIN_INSYNC: "2"})])
    assert not is_behind
    assert other.configs.applied[ConfigResource(ResourceType.TOPIC, "t")] == {MIN_INSYNC: "2"}


def test_a_session_that_is_over_and_the_next_one_are_a_line_each(caplog):
    async def scenario():
        cluster = Cluster(await EmbeddedStore.open(MEMORY))
        life = await cluster.start(7)
        before = life.host.broker_epoch
        with caplog.at_level("INFO"):
            caplog.clear()
            await life.host.store.expire()
            await until(lambda: life.host.broker_epoch > before and life.host.is_controller)
        said = [record.getMessage() for record in caplog.records if record.name.endswith("standing")]
        assert said == [
            "the session of broker 7 with the metadata store is over: others may lead what it led",
            f"broker 7 is registered again, in epoch {life.host.broker_epoch}",
        ]

    asyncio.run(scenario())


def test_a_controller_whose_store_is_away_keeps_its_peace(caplog):
    """It is time to look at leadership again and again, but nothing can be done about it."""

    async def scenario():
        cluster = Cluster(await EmbeddedStore.open(MEMORY))
        looks: list[None] = []
        rebalancing = Rebalancing(lambda: 0.001, lambda: looks.append(None) or 0)
        boss = await cluster.start(0, rebalancing=rebalancing)
        await cluster.start(1)
        await until(lambda: len(boss.metadata.brokers) == 2 and looks)
        boss.store._state = SessionState.SUSPENDED
        boss.host._office.ring()
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not caplog.records

    asyncio.run(scenario())
