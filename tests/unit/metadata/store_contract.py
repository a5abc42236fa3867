"""What every metadata store promises. A store joins by a subclass that can open sessions with it, see test_store.py."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import pytest

from ottla.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    MetadataStore,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    SessionState,
    Set,
    StoreError,
)

PATIENCE_S = 60


class World(Protocol):
    """One store, empty at first, with which sessions can be had."""

    async def session(self) -> MetadataStore: ...

    async def expire(self, session: MetadataStore) -> None:
        """Have the store end a session, whatever its owner thinks of it."""


class Calls:
    """Counts calls, and waits for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def __call__(self, *_: object) -> None:
        self.count += 1
        self._event.set()

    async def next(self) -> None:
        await asyncio.wait_for(self._event.wait(), PATIENCE_S)
        self._event.clear()


def in_world(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test of the contract with as many sessions as it has parameters, all with one store.

    A parameter called `world` is the world itself.
    """
    names = list(inspect.signature(test).parameters)[1:]

    @functools.wraps(test)
    def run(self: "StoreContract", tmp_path: object) -> None:
        async def scenario() -> None:
            world = self.world(tmp_path)
            sessions = {name: world if name == "world" else await world.session() for name in names}
            try:
                await test(self, **sessions)
            finally:
                for name in names:
                    if name != "world":
                        await sessions[name].close()

        self.run(scenario())

    del run.__wrapped__  # pytest would ask for the parameters of the test itself
    return run


class StoreContract:
    """The promises, as tests."""

    def world(self, tmp_path) -> World:
        raise AssertionError("a subclass says which store")

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Where time is not the real one, a subclass runs it."""
        asyncio.run(scenario)

    @in_world
    async def test_a_node_is_read_back_with_its_first_version(self, store):
        created = await store.create("/a", b"x")
        assert await store.get("/a") == (b"x", 0, created)

    @in_world
    async def test_data_may_be_any_bytes(self, store):
        await store.create("/a", bytes(range(256)) * 100)
        assert (await store.get("/a")).data == bytes(range(256)) * 100

    @in_world
    async def test_what_does_not_exist_cannot_be_read_changed_or_deleted(self, store):
        for attempt in (
            store.get("/a"), store.children("/a"), store.set("/a", b""), store.delete("/a"),
            store.create("/a/b"), store.multi([Check("/a", 0)]),
        ):  # fmt: skip
            with pytest.raises(NoNode, match="/a"):
                await attempt

    @in_world
    async def test_a_node_cannot_be_created_twice(self, store):
        await store.create("/a", b"first")
        with pytest.raises(NodeExists, match="/a"):
            await store.create("/a", b"second")
        assert (await store.get("/a")).data == b"first"

    @in_world
    async def test_a_change_counts_the_version_and_keeps_the_creation_id(self, store):
        created = await store.create("/a", b"0")
        assert await store.set("/a", b"1", 0) == 1
        assert await store.set("/a", b"2") == 2
        assert await store.get("/a") == (b"2", 2, created)

    @in_world
    async def test_of_two_who_read_the_same_version_one_writes(self, mine, other):
        await mine.create("/a", b"")
        await other.set("/a", b"other", 0)
        for attempt in (mine.set("/a", b"mine", 0), mine.delete("/a", 0), mine.multi([Check("/a", 0)])):
            with pytest.raises(BadVersion, match="/a"):
                await attempt
        assert (await mine.get("/a")).data == b"other"

    @in_world
    async def test_a_parent_outlives_its_children(self, store):
        await store.multi([Create("/a"), Create("/a/b"), Create("/a/b/c")])
        with pytest.raises(NotEmpty, match="/a"):
            await store.delete("/a")
        await store.multi([Delete("/a/b/c"), Delete("/a/b"), Delete("/a")])
        assert "a" not in await store.children("/")

    @in_world
    async def test_a_node_that_was_created_again_is_another_one(self, store):
        first = await store.create("/a", b"")
        await store.set("/a", b"")
        await store.delete("/a", 1)
        second = await store.create("/a", b"")
        assert second > first
        assert (await store.get("/a")).version == 0

    @in_world
    async def test_creation_ids_grow_with_every_change(self, store):
        before = await store.create("/a")
        await store.set("/a", b"")
        assert await store.create("/b") > before + 1

    @in_world
    async def test_children_are_names_in_order(self, store):
        await store.multi(
            [Create("/a"), *(Create(f"/a/{name}") for name in ("c", "a", "b")), Create("/a/b/deep")]
        )
        assert await store.children("/a") == ["a", "b", "c"]
        assert await store.children("/a/a") == []

    @in_world
    async def test_many_nodes_are_read_at_once_and_missing_ones_are_missing(self, store):
        await store.multi([Create("/a", b"1"), Create("/b", b"2")])
        found = await store.get_all(["/a", "/b", "/c"])
        assert {path: node.data for path, node in found.items()} == {"/a": b"1", "/b": b"2"}
        assert await store.get_all([]) == {}

    @in_world
    async def test_a_multi_happens_in_order(self, store):
        await store.create("/a", b"")
        results = await store.multi([
            Check("/a", 0), Set("/a", b"1", 0), Set("/a", b"2", 1), Create("/b"), Create("/b/c"), Delete("/b/c"),
        ])  # fmt: skip
        node = await store.get("/b")
        assert results == [0, 1, 2, node.created, node.created, 0]
        assert (await store.get("/a")).data == b"2"

    @in_world
    async def test_a_multi_happens_whole_or_not_at_all(self, store):
        await store.create("/a", b"before")
        for failing, error in [
            (Check("/a", 7), BadVersion),
            (Create("/a"), NodeExists),
            (Create("/x/y"), NoNode),
            (Set("/nowhere", b""), NoNode),
            (Delete("/a", 7), BadVersion),
        ]:
            with pytest.raises(error):
                await store.multi([Create("/new"), Set("/a", b"after"), failing])
            assert (await store.get("/a")).data == b"before"
            with pytest.raises(NoNode):
                await store.get("/new")

    @in_world
    async def test_an_ephemeral_node_goes_with_its_session(self, mine, other, world):
        await mine.create("/mine", b"", ephemeral=True)
        await other.create("/other", b"", ephemeral=True)
        third = await world.session()
        await third.create("/third", b"", ephemeral=True)
        await world.expire(mine)
        await third.close()
        found = await other.get_all(["/mine", "/other", "/third"])
        assert list(found) == ["/other"]

    @in_world
    async def test_an_ephemeral_node_has_no_children(self, store):
        await store.create("/a", b"", ephemeral=True)
        with pytest.raises(EphemeralParent):
            await store.create("/a/b")

    @in_world
    async def test_an_ephemeral_node_can_be_changed_and_deleted_by_anybody(self, mine, other):
        await mine.create("/a", b"", ephemeral=True)
        await other.set("/a", b"x", 0)
        assert (await mine.get("/a")).data == b"x"
        await other.delete("/a")
        await mine.create("/a", b"", ephemeral=True)

    @in_world
    async def test_a_session_that_is_over_serves_nobody_and_says_so(self, store, world):
        states = []
        store.on_session(states.append)
        assert store.session is SessionState.CONNECTED
        await world.expire(store)
        assert store.session is SessionState.LOST
        assert states[-1] is SessionState.LOST
        for attempt in (
            store.get("/"),
            store.get_all(["/"]),
            store.children("/"),
            store.create("/a"),
            store.multi([]),
        ):
            with pytest.raises(SessionLost):
                await attempt

    @in_world
    async def test_closing_twice_is_closing_once(self, store):
        await store.close()
        await store.close()

    @in_world
    async def test_a_watch_tells_of_creation_change_and_deletion_again_and_again(self, mine, other):
        calls = Calls()
        await mine.watch("/a", calls)
        for step in (other.create("/a"), other.set("/a", b"1"), mine.set("/a", b"2"), other.delete("/a")):
            await step
            await calls.next()

    @in_world
    async def test_a_watch_tells_of_children_that_come_and_go(self, mine, other):
        await mine.create("/a")
        calls = Calls()
        await mine.watch("/a", calls)
        await other.create("/a/b", b"", ephemeral=True)
        await calls.next()
        await other.close()
        await calls.next()
        assert await mine.children("/a") == []

    @in_world
    async def test_a_watch_that_was_ended_tells_nothing(self, store):
        ended, kept = Calls(), Calls()
        end = await store.watch("/a", ended)
        await store.watch("/a", kept)
        end()
        await store.create("/a")
        await kept.next()
        assert ended.count == 0

    @in_world
    async def test_a_change_that_failed_is_not_told(self, store):
        calls, marker = Calls(), Calls()
        await store.watch("/a", calls)
        await store.watch("/b", marker)
        with pytest.raises(StoreError):
            await store.multi([Create("/a"), Check("/nowhere", 0)])
        await store.create("/b")
        await marker.next()
        assert calls.count == 0

    @in_world
    async def test_who_is_told_can_read_what_changed(self, store):
        seen: list[asyncio.Task[object]] = []
        calls = Calls()

        def on_change() -> None:
            seen.append(asyncio.ensure_future(store.get("/a")))
            calls()

        await store.watch("/a", on_change)
        await store.create("/a", b"new")
        await calls.next()
        assert (await seen[0]).data == b"new"

    @in_world
    async def test_writers_at_the_same_time_do_not_lose_each_others_work(self, one, two):
        await one.create("/n", b"0")

        async def count(store: MetadataStore) -> None:
            done = 0
            while done < 10:
                node = await store.get("/n")
                try:
                    await store.set("/n", str(int(node.data) + 1).encode(), node.version)
                    done += 1
                except BadVersion:
                    pass

        await asyncio.gather(count(one), count(two), count(one))
        assert await one.get("/n") == (b"30", 30, (await two.get("/n")).created)
