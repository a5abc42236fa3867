"""A broker elects itself, and runs the cluster: over restarts, crashes, failures of the store, and against a rival."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition, parse_id
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import BadVersion, Check, Create, Op, StoreUnavailable
from ottla.replication.state import NO_LEADER
from tests.unit.broker.controlled import Life

TOPIC = ConfigResource(ResourceType.TOPIC, "t")


def scenario(test: Callable[[EmbeddedStore], Awaitable[None]]) -> Callable[[], None]:
    """Run with an empty store in memory."""

    def run() -> None:
        async def inner() -> None:
            store = await EmbeddedStore.open(MEMORY)
            await test(store)
            await store.close()

        asyncio.run(inner())

    run.__name__ = test.__name__
    return run


async def reborn(life: Life) -> Life:
    """The broker dies, and starts again with what the store holds."""
    store = life.store.another_session()
    await life.store.expire()
    return await Life(store).begin()


class Tripping:
    """A store that fails at the nth multi from now, before or after it is done."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.countdown = 0
        self.error: Exception = StoreUnavailable("the disk is full")
        self.does_it_first = False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def multi(self, ops: list[Op]):
        self.countdown -= 1
        if self.countdown == 0:
            if self.does_it_first:
                await self._store.multi(ops)
            raise self.error
        return await self._store.multi(ops)


@scenario
async def test_a_broker_registers_and_becomes_controller(store):
    life = await Life(store).begin()
    assert life.host.is_controller
    assert life.metadata.controller_id == 0
    (me,) = life.metadata.brokers.values()
    assert (me.epoch, me.rack, me.endpoints[0].port) == (life.host.broker_epoch, "r1", 9092)
    assert (await store.get("/brokers/ids/0")).created == life.host.broker_epoch
    assert (await store.get("/controller_epoch")).data == b"1"


@scenario
async def test_every_life_has_a_larger_broker_epoch_and_controller_epoch(store):
    life = await Life(store).begin()
    second = await reborn(life)
    assert second.host.broker_epoch > life.host.broker_epoch
    assert (await second.store.get("/controller_epoch")).data == b"2"


@scenario
async def test_a_new_store_gets_an_id_that_it_keeps(store):
    first = await Life(store).begin()
    assert parse_id(first.stored.cluster_id)
    assert first.metadata.cluster_id == first.stored.cluster_id
    assert (await reborn(first)).stored.cluster_id == first.stored.cluster_id


@scenario
async def test_a_topic_is_ready_when_its_creation_returns(store):
    life = await Life(store, partitions=3).begin()
    life.calls.clear()
    answers = await life.host.create_topics([NewTopic("t", configs={"retention.ms": "5"}), NewTopic("no/t")])
    assert life.calls == ["apply", "leader_and_isr", "update"], "settings, then logs, then who may know"
    assert answers["t"] == life.metadata.topics["t"]
    assert len(answers["t"].partitions) == 3
    assert life.state("t", 2).leader == 0
    assert life.state("t", 2).is_new
    assert life.configs.applied[TOPIC] == {"retention.ms": "5"}
    assert life.host.configs_of(ResourceType.TOPIC, "t") == {"retention.ms": "5"}
    assert answers["no/t"].code is ErrorCode.INVALID_TOPIC_EXCEPTION


@scenario
async def test_what_is_only_validated_leaves_no_trace(store):
    life = await Life(store).begin()
    await life.host.create_topics([NewTopic("there")])
    life.calls.clear()
    answers = await life.host.create_topics([NewTopic("t"), NewTopic("there")], validate_only=True)
    assert answers["t"].name == "t"
    assert answers["there"].code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert await life.host.create_partitions([Growth("there", 2)], validate_only=True) == {"there": None}
    resource = ConfigResource(ResourceType.TOPIC, "there")
    await life.host.alter_configs(resource, {"a": "1"}, validate_only=True)
    assert life.calls == []
    assert await store.children("/brokers/topics") == ["there"]


@scenario
async def test_topics_settings_and_leadership_survive_a_restart_with_new_leader_epochs(store):
    life = await Life(store).begin()
    created = (await life.host.create_topics([NewTopic("t", 2, configs={"a": "1"})]))["t"]
    await life.host.alter_configs(ConfigResource(ResourceType.BROKER, ""), {"b": "2"})
    second = await reborn(life)
    assert second.stored.topics == {"t": created.topic_id}
    assert second.stored.configs == {TOPIC: {"a": "1"}, ConfigResource(ResourceType.BROKER, ""): {"b": "2"}}
    assert second.configs.applied == second.stored.configs
    assert second.calls == ["apply", "apply", "leader_and_isr", "update"], "everything in one call each"
    state = second.state("t", 1)
    assert (state.leader, state.leader_epoch, state.is_new, state.topic_id) == (0, 1, False, created.topic_id)
    assert second.metadata.topics["t"].partitions == tuple(second.replicas.states.values())
    assert second.replicas.controller_epoch == 2


@scenario
async def test_a_deleted_topic_is_gone_everywhere_when_its_deletion_returns(store):
    life = await Life(store).begin()
    first = (await life.host.create_topics([NewTopic("t", 2, configs={"a": "1"})]))["t"]
    life.calls.clear()
    answers = await life.host.delete_topics(["t", "nope"])
    assert answers["t"] is None
    assert answers["nope"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert life.calls == ["update", "stop_replicas", "forget_topic"]
    assert life.replicas.deleted == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert life.metadata.topics == life.configs.applied == {}
    for parent in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
        assert await store.children(parent) == []
    again = (await life.host.create_topics([NewTopic("t")]))["t"]
    assert again.topic_id != first.topic_id
    assert life.host.configs_of(ResourceType.TOPIC, "t") == {}


@pytest.mark.parametrize("survived", [1, 2, 3])
def test_a_deletion_that_a_crash_cut_short_is_finished_by_the_next_life(survived, monkeypatch):
    """The mark was written; of the removal, as much as `survived` says."""
    monkeypatch.setattr("ottla.broker.reign.WRITES_MAX", 3)

    @scenario
    async def run(store):
        tripping = Tripping(store)
        life = await Life(tripping).begin()
        await life.host.create_topics([NewTopic("t", 2), NewTopic("kept")])
        tripping.countdown = survived + 1
        with pytest.raises(KafkaError):
            await life.host.delete_topics(["t"])
        assert await store.children("/admin/delete_topics") == ["t"]
        assert "t" not in life.metadata.topics
        life.store = store
        second = await reborn(life)
        assert second.stored.doomed == {"t"}
        assert list(second.metadata.topics) == ["kept"]
        assert list(second.replicas.states) == [TopicPartition("kept", 0)]
        if "t" in second.stored.topics:
            assert second.replicas.deleted == {TopicPartition("t", 0), TopicPartition("t", 1)}
        assert await second.store.children("/admin/delete_topics") == []
        assert await second.store.children("/brokers/topics") == ["kept"]
        assert await second.store.children("/config/topics") == ["kept"]
        assert not isinstance((await second.host.create_topics([NewTopic("t")]))["t"], KafkaError)

    run()


@pytest.mark.parametrize("survived", range(4))
def test_a_creation_that_a_crash_cut_short_is_finished_or_never_was(survived, monkeypatch):
    monkeypatch.setattr("ottla.broker.reign.WRITES_MAX", 2)

    @scenario
    async def run(store):
        tripping = Tripping(store)
        life = await Life(tripping).begin()
        tripping.countdown = survived + 1
        with pytest.raises(KafkaError):
            await life.host.create_topics([NewTopic("t", 3, configs={"a": "1"})])
        assert life.metadata.topics == {}
        life.store = store
        second = await reborn(life)
        if survived > 1:  # the settings go before the topic
            assert [s.leader for s in second.metadata.topics["t"].partitions] == [0, 0, 0]
            assert len(second.replicas.states) == 3
        else:
            assert isinstance(await second.host.create_topics([NewTopic("t", 3)]), dict)
        assert second.host.configs_of(ResourceType.TOPIC, "t") == ({"a": "1"} if survived > 1 else {})

    run()


@pytest.mark.parametrize("does_it_first", [False, True])
def test_after_a_failed_write_the_controller_starts_again_from_what_is_stored(does_it_first):
    @scenario
    async def run(store):
        tripping = Tripping(store)
        life = await Life(tripping).begin()
        tripping.countdown, tripping.does_it_first = 1, does_it_first
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR: the disk is full"):
            await life.host.create_topics([NewTopic("t")])
        answers = await life.host.create_topics([NewTopic("t"), NewTopic("u")])
        assert isinstance(answers["t"], KafkaError) == does_it_first
        assert set(life.metadata.topics) == {"t", "u"}
        assert life.state("t").leader == 0

    run()


class Deaf:
    """A store that tells nobody of changes, as one that cannot be reached."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def watch(self, path, on_change):
        return lambda: None


@scenario
async def test_a_rival_takes_over_and_the_old_controller_changes_nothing_any_more(store):
    old = await Life(Deaf(store)).begin()
    await old.host.create_topics([NewTopic("t")])
    rival = Life(store.another_session(), node_id=1)
    # The old one's session has expired, but it does not know yet: its store still answers.
    for node in ("/controller", "/brokers/ids/0"):
        await store.delete(node)
    await rival.begin()
    assert rival.host.is_controller
    before = (await store.get("/brokers/topics/t")).version, await store.children("/brokers/topics")
    for attempt in (
        old.host.create_topics([NewTopic("mine")]),
        old.host.delete_topics(["t"]),
        old.host.allocate_producer_ids(),
    ):
        with pytest.raises(KafkaError) as refusal:
            await attempt
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    assert not old.host.is_controller
    assert ((await store.get("/brokers/topics/t")).version, await store.children("/brokers/topics")) == before
    assert not isinstance((await rival.host.create_topics([NewTopic("theirs")]))["theirs"], KafkaError)
    await rival.store.close()


@scenario
async def test_the_write_of_an_old_controller_fails_at_the_epoch(store):
    await Life(store).begin()
    epoch = (await store.get("/controller_epoch")).version
    await store.set("/controller_epoch", b"2")
    with pytest.raises(BadVersion, match="/controller_epoch"):
        await store.multi([Check("/controller_epoch", epoch), Create("/x")])


@scenario
async def test_a_second_broker_finds_the_controller_and_leaves_it_alone(store):
    first = await Life(store).begin()
    second = await Life(store.another_session(), node_id=1).begin()
    assert first.host.is_controller
    assert not second.host.is_controller
    assert second.metadata.controller_id == 0
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await second.host.create_topics([NewTopic("t")])
    await second.store.close()


@scenario
async def test_two_brokers_with_one_id_are_one_too_many(store):
    await Life(store).begin()
    other = store.another_session()
    with pytest.raises(KafkaError, match=r"DUPLICATE_BROKER_REGISTRATION.*/brokers/ids/0"):
        await Life(other).begin()
    await other.close()


@scenario
async def test_a_session_that_was_lost_costs_the_office(store):
    life = await Life(store.another_session()).begin()
    await life.store.expire()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await life.host.create_topics([NewTopic("t")])
    await life.store.close()


@scenario
async def test_who_resigned_decides_nothing(store):
    life = await Life(store).begin()
    await life.host.resign()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await life.host.delete_topics(["t"])


@scenario
async def test_a_topic_grows_and_the_new_partitions_are_ready(store):
    life = await Life(store).begin()
    before = (await life.host.create_topics([NewTopic("t")]))["t"]
    answers = await life.host.create_partitions([Growth("t", 3), Growth("nope", 3)])
    assert answers["t"] is None
    assert answers["nope"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    after = life.metadata.topics["t"]
    assert after.partitions[0] == before.partitions[0]
    assert [life.state("t", index).is_new for index in (1, 2)] == [True, True]
    second = await reborn(life)
    assert len(second.metadata.topics["t"].partitions) == 3


@scenario
async def test_settings_change_one_by_one_and_altogether(store):
    life = await Life(store).begin()
    await life.host.create_topics([NewTopic("t", configs={"a": "1", "b": "2"})])
    await life.host.alter_configs(TOPIC, {"b": None, "c": "3"}, replace=False)
    assert (
        life.configs.applied[TOPIC] == life.host.configs_of(ResourceType.TOPIC, "t") == {"a": "1", "c": "3"}
    )
    await life.host.alter_configs(TOPIC, {"d": "4"}, replace=True)
    assert life.configs.applied[TOPIC] == {"d": "4"}
    assert (await reborn(life)).host.configs_of(ResourceType.TOPIC, "t") == {"d": "4"}


@scenario
async def test_the_next_decision_goes_by_new_settings_though_our_own_broker_is_busy(store):
    life = await Life(store).begin()
    is_over = asyncio.Event()

    async def leader_and_isr(controller_epoch, states):
        await is_over.wait()
        return {}

    life.replicas.leader_and_isr = leader_and_isr
    everybody = ConfigResource(ResourceType.BROKER, "")
    creating = asyncio.ensure_future(life.host.create_topics([NewTopic("t")]))
    while "t" not in (life.host._reign.context.topics if life.host._reign.context else ()):
        await asyncio.sleep(0)
    await life.host.alter_configs(everybody, {"min.insync.replicas": "1"})
    assert life.configs.applied[everybody] == {"min.insync.replicas": "1"}
    assert not creating.done()
    is_over.set()
    await creating


@scenario
async def test_settings_that_cannot_be_are_refused_and_not_stored(store):
    life = await Life(store).begin()
    await life.host.create_topics([NewTopic("t")])
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        await life.host.alter_configs(TOPIC, {"bad": "1"})
    answers = await life.host.create_topics([NewTopic("u", configs={"bad": "1"})])
    assert answers["u"].code is ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await life.host.alter_configs(ConfigResource(ResourceType.TOPIC, "nope"), {"a": "1"})
    assert life.host.configs_of(ResourceType.TOPIC, "t") == {}


@scenario
async def test_producer_ids_are_never_given_twice_not_even_after_a_crash(store):
    life = await Life(store).begin()
    blocks = [await life.host.allocate_producer_ids(), await life.host.allocate_producer_ids()]
    second = await reborn(life)
    blocks.append(await second.host.allocate_producer_ids())
    assert blocks == [range(1000), range(1000, 2000), range(2000, 3000)]
    data = b'{"version":1,"broker":0,"block_start":"2000","block_end":"2999"}'
    assert (await second.store.get("/latest_producer_id_block")).data == data


@scenario
async def test_producer_ids_end_some_day(store):
    life = await Life(store).begin()
    last = (1 << 63) - 500
    data = f'{{"version":1,"broker":0,"block_start":"0","block_end":"{last}"}}'.encode()
    await store.create("/latest_producer_id_block", data)
    with pytest.raises(KafkaError, match="all producer ids"):
        await life.host.allocate_producer_ids()


@scenario
async def test_commands_at_the_same_time_are_carried_out_one_after_the_other(store):
    life = await Life(store).begin()
    answers = await asyncio.gather(
        *(life.host.create_topics([NewTopic("t"), NewTopic(f"t{index}")]) for index in range(10)),
        *(life.host.allocate_producer_ids() for _ in range(10)),
    )
    created = [answer for answer in answers[:10] if not isinstance(answer["t"], KafkaError)]
    assert len(created) == 1
    assert len(life.metadata.topics) == 11
    assert len({block.start for block in answers[10:]}) == 10


@scenario
async def test_a_command_whose_caller_goes_away_is_finished(store):
    life = await Life(store).begin()
    command = asyncio.ensure_future(life.host.create_topics([NewTopic("t")]))
    await asyncio.sleep(0)
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    answers = await life.host.create_topics([NewTopic("t")])
    assert answers["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert life.state("t").leader == 0


@scenario
async def test_a_disk_that_fails_leaves_its_partitions_without_a_leader_until_it_is_back(store):
    life = await Life(store).begin()
    await life.host.create_topics([NewTopic("t", 2)])
    await life.host.replicas_failed([TopicPartition("t", 1)])
    lost = life.metadata.topics["t"].partitions[1]
    assert (lost.leader, lost.isr, lost.offline) == (NO_LEADER, (), (0,))
    assert life.metadata.topics["t"].partitions[0].leader == 0
    second = await reborn(life)
    assert second.metadata.topics["t"].partitions[1].leader == 0


@scenario
async def test_a_disk_that_is_found_failed_at_the_start_is_no_place_to_lead(store):
    life = await Life(store).begin()
    await life.host.create_topics([NewTopic("t", 2)])
    session = store.another_session()
    await store.expire()
    second = Life(session)
    second.replicas.failing = {TopicPartition("t", 0)}
    await second.begin()
    assert [s.leader for s in second.metadata.topics["t"].partitions] == [NO_LEADER, 0]
    await session.close()


@scenario
async def test_two_thousand_partitions_come_back(store):
    life = await Life(store).begin()
    await life.host.create_topics([NewTopic(f"t{index}", 20) for index in range(100)])
    second = await reborn(life)
    assert second.calls.count("leader_and_isr") == 1
    assert len(second.replicas.states) == 2_000
    assert second.metadata.partition_count == 2_000
