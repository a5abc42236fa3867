"""Whatever the controller was doing when it died: what it had acknowledged holds, and the rest is whole or gone."""

import asyncio
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.core.errors import KafkaError
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import StoreUnavailable
from tests.unit.broker.controlled import Life

names = st.sampled_from(["a", "b", "a.b", "a_b"])
commands = st.one_of(
    st.tuples(st.just("create"), st.lists(names, min_size=1, max_size=2, unique=True), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.lists(names, min_size=1, max_size=2, unique=True), st.none()),
    st.tuples(st.just("grow"), names, st.integers(1, 5)),
    st.tuples(st.just("alter"), names, st.integers(0, 9)),
)
accidents = st.tuples(st.integers(1, 6), st.booleans(), st.booleans())
"""At which write it happens, whether that write still happens, and whether the process dies of it."""


class Accidental:
    """A session with the store in which one write goes wrong."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.left = 0
        self.happens = False

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def multi(self, ops):
        self.left -= 1
        if self.left != 0:
            return await self.store.multi(ops)
        if self.happens:
            await self.store.multi(ops)
        raise StoreUnavailable("an accident")


async def run(life: Life, command) -> None:
    kind, what, number = command
    if kind == "create":
        await life.host.create_topics([NewTopic(name, number, configs={"n": str(number)}) for name in what])
    elif kind == "delete":
        await life.host.delete_topics(what)
    elif kind == "grow":
        await life.host.create_partitions([Growth(what, number)])
    else:
        await life.host.alter_configs(ConfigResource(ResourceType.TOPIC, what), {"n": str(number)})


def picture(life: Life) -> dict[str, tuple[int, dict[str, str]]]:
    """Partitions and settings of every topic, as a client sees them."""
    return {
        name: (len(topic.partitions), life.host.configs_of(ResourceType.TOPIC, name))
        for name, topic in life.metadata.topics.items()
    }


async def rest(life: Life) -> None:
    """What was half-deleted goes when everybody was told once more."""
    doomed = True
    while doomed:
        await asyncio.sleep(0)
        doomed = await life.store.children("/admin/delete_topics") or (
            {resource.name for resource in life.configs.applied} - life.metadata.topics.keys()
        )


async def check(life: Life) -> None:
    """Store, metadata, replicas and settings say the same."""
    store = life.store
    assert (
        sorted(life.metadata.topics)
        == await store.children("/brokers/topics")
        == await store.children("/config/topics")
    )
    assert await store.children("/admin/delete_topics") == []
    shown = {s.topic_partition: s for t in life.metadata.topics.values() for s in t.partitions}
    assert {p: s._replace(is_new=False) for p, s in life.replicas.states.items()} == shown
    assert all(state.leader == 0 for state in shown.values())
    for partition, state in shown.items():
        node = await store.get(f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state")
        assert node.version == state.partition_epoch
    assert {r.name: v for r, v in life.configs.applied.items()} == {
        n: c for n, (_, c) in picture(life).items()
    }
    stored = {topic.topic_id for topic in life.metadata.topics.values()}
    assert stored == life.metadata.topic_of_id.keys()


@settings(deadline=None)
@example([(("create", ["a", "b"], 1), (3, True, False))])  # settings without their topic
@example(
    [(("create", ["a"], 1), None), (("delete", ["a"], None), (1, True, False))]
)  # a doomed topic still shown
@given(st.lists(st.tuples(commands, st.none() | accidents), max_size=8))
def test_the_next_controller_finds_or_makes_everything_whole(history):
    async def scenario() -> None:
        store = Accidental(await EmbeddedStore.open(MEMORY))
        life = await Life(store).begin()
        for command, accident in history:
            before = picture(life)
            store.left, store.happens, dies = accident or (0, False, False)
            failed = False
            try:
                await run(life, command)
            except KafkaError as error:
                failed = "an accident" in str(error)
            store.left = 0
            after = picture(life)
            if failed and dies:
                store = Accidental(life.store.store.another_session())
                await life.store.store.expire()
                life = await Life(store).begin()
            elif failed:
                await life.host.allocate_producer_ids()  # any command begins with what is stored
                await rest(life)
            await check(life)
            touched = command[1] if isinstance(command[1], list) else [command[1]]
            for name in set(before) | set(picture(life)):
                if name not in touched:
                    assert before[name] == picture(life)[name], "an accident hits only those who were there"
            if not failed:
                assert picture(life) == after

    with mock.patch("ottla.broker.reign.WRITES_MAX", 2):
        asyncio.run(scenario())
