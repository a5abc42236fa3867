"""What the contract does not say of ZooKeeper: outages, lost quorums, ends of sessions."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading

import pytest

from ottla.core.errors import ConfigError
from ottla.metadata import zookeeper_requests, zookeeper_session
from ottla.metadata.store import (
    Create,
    NodeExists,
    NoNode,
    SessionLost,
    SessionState,
    Set,
    StoreError,
    StoreUnavailable,
)
from tests.unit.metadata.store_contract import Calls
from tests.unit.metadata.zookeepers import (
    PATIENCE_S,
    expire,
    open_store,
    servers,
    until_state,
    zookeeper,  # noqa: F401  # a fixture
)

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST
LONG_MS = 40_000  # no session of these tests expires by itself, however slow the machine


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def own_server():
    with servers() as server:
        yield server


@pytest.fixture
def ensemble():
    with servers(3) as three:
        yield three


async def until(is_true):
    async with asyncio.timeout(PATIENCE_S):
        while not await is_true():
            await asyncio.sleep(0.02)


async def until_gone(store, path):
    async def is_gone():
        return path not in await store.get_all([path])

    await until(is_gone)


async def keep_trying(attempt):
    """What somebody does who must get something done."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await attempt()
            except StoreUnavailable:
                await asyncio.sleep(0.02)


class TestOutages:
    def test_the_session_outlives_a_restart_of_the_server(self, own_server):
        async def scenario():
            store = await open_store(f"{own_server.connect_string}/a", LONG_MS)
            states, calls = [], Calls()
            store.on_session(states.append)
            created = await store.create("/mine", b"x", ephemeral=True)
            await store.watch("/mine", calls)
            session_id = store.id
            own_server.kill(0)
            await until_state(store, SUSPENDED)
            for attempt in (
                store.get("/mine"),
                store.get_all(["/mine"]),
                store.create("/b"),
                store.multi([]),
            ):
                with pytest.raises(StoreUnavailable):
                    await attempt
            with pytest.raises(StoreUnavailable):
                await store.watch("/b", calls)
            own_server.start_server(0)
            own_server.wait_until_serving()
            await until_state(store, CONNECTED)
            await calls.next()  # something may have changed
            assert await store.get("/mine") == (b"x", 0, created)
            assert (store.id, states) == (session_id, [SUSPENDED, CONNECTED])
            await store.set("/mine", b"y")
            await calls.next()  # and it is watched again
            await store.close()
            assert states == [SUSPENDED, CONNECTED, LOST]

        asyncio.run(scenario())

    def test_who_asks_while_the_connection_breaks_is_told_that_nobody_knows(self, own_server):
        async def scenario():
            store = await open_store(own_server.connect_string, LONG_MS)
            own_server.pause(0)
            write = asyncio.ensure_future(store.create("/a"))
            await asyncio.sleep(0.01)
            own_server.kill(0)
            with pytest.raises(StoreUnavailable, match="nobody knows"):
                await write
            await until_state(store, SUSPENDED)
            await store.close()

        asyncio.run(scenario())

    def test_a_server_that_does_not_answer_is_not_waited_for_and_its_answers_are_taken_later(
        self, own_server, monkeypatch
    ):
        monkeypatch.setattr(zookeeper_session, "OPERATION_S", 0.2)

        async def scenario():
            store = await open_store(own_server.connect_string, LONG_MS)
            own_server.pause(0)
            with pytest.raises(StoreUnavailable, match="not answered within"):
                await store.create("/a")
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await store.get("/a")
            own_server.resume(0)
            node = await keep_trying(lambda: store.get("/a"))
            assert node.version == 0  # it did happen, which nobody could know
            assert store.session is CONNECTED
            await store.close()

        asyncio.run(scenario())

    def test_a_server_that_says_nothing_is_given_up_also_by_those_who_ask_all_the_time(self, own_server):
        async def scenario():
            store = await open_store(own_server.connect_string, 1_500)
            own_server.pause(0)
            asked = []
            async with asyncio.timeout(PATIENCE_S):
                while store.session is CONNECTED:
                    asked.append(asyncio.ensure_future(store.get("/")))
                    await asyncio.sleep(0.02)
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(each) for each in outcomes} == {StoreUnavailable}
            await store.close()

        asyncio.run(scenario())

    def test_closing_does_not_wait_for_a_server_that_does_not_answer(self, own_server, monkeypatch):
        monkeypatch.setattr(zookeeper_session, "_CLOSE_S", 0.1)

        async def scenario():
            store = await open_store(own_server.connect_string, LONG_MS)
            own_server.pause(0)
            await asyncio.wait_for(store.close(), PATIENCE_S / 2)
            assert store.session is LOST

        asyncio.run(scenario())

    def test_more_questions_than_kazoo_can_queue_at_once_do_not_block_the_loop(self, own_server, monkeypatch):
        monkeypatch.setattr(zookeeper_session, "OPERATION_S", 0.2)

        async def scenario():
            store = await open_store(own_server.connect_string, LONG_MS)
            own_server.pause(0)
            outcomes = await asyncio.gather(*(store.get("/") for _ in range(2_000)), return_exceptions=True)
            assert {type(each) for each in outcomes} == {StoreUnavailable}
            own_server.resume(0)
            await keep_trying(lambda: store.get("/"))
            await store.close()

        asyncio.run(scenario())

    def test_the_timeout_of_a_session_is_what_the_server_agrees_to(self, own_server):
        async def scenario():
            store = await open_store(own_server.connect_string, 2**31 - 1)
            limit = dict(line.split("=", 1) for line in own_server.ask(0, "conf").splitlines() if "=" in line)
            assert store.session_timeout_ms == int(limit["maxSessionTimeout"])
            await store.close()

        asyncio.run(scenario())


class TestEnsembles:
    def test_a_session_sees_what_was_written_before_it_began(self, ensemble, monkeypatch):
        """Its server may be behind the others: it is asked to catch up, before anything is read."""
        asked, sync = [], zookeeper_requests.sync
        monkeypatch.setattr(zookeeper_requests, "sync", lambda path: asked.append(path) or sync(path))

        async def scenario():
            stores = [await open_store(f"{ensemble.connect_string}/a") for _ in range(6)]
            await stores[0].create("/b")
            later = await open_store(f"{ensemble.connect_string}/a")
            assert asked == ["/a"] * 7 and "b" in await later.children("/")
            for store in [*stores, later]:
                await store.close()

        asyncio.run(scenario())

    def test_a_session_goes_on_when_the_leader_dies(self, ensemble):
        async def scenario():
            store = await open_store(ensemble.connect_string, LONG_MS)
            created = await store.create("/mine", b"", ephemeral=True)
            session_id, leader = store.id, ensemble.leader()
            ensemble.kill(leader)
            await keep_trying(lambda: store.set("/mine", b"after"))
            assert (store.id, (await store.get("/mine")).created) == (session_id, created)
            ensemble.start_server(leader)
            await asyncio.to_thread(ensemble.wait_until_serving)
            assert ensemble.leader() != leader
            await store.close()

        asyncio.run(scenario())

    def test_without_a_quorum_nothing_is_answered_and_no_session_ends(self, ensemble):
        async def scenario():
            store = await open_store(ensemble.connect_string, LONG_MS)
            states = []
            store.on_session(states.append)
            created = await store.create("/mine", b"", ephemeral=True)
            for index in (0, 1):
                ensemble.kill(index)

            async def has_noticed():  # the third, which may still have answered what it knew
                return "not currently serving" in await asyncio.to_thread(ensemble.ask, 2, "srvr")

            await until(has_noticed)
            await until_state(store, SUSPENDED)
            with pytest.raises(StoreUnavailable):
                await store.get("/mine")
            with pytest.raises(StoreUnavailable, match=r"nobody who listens.*has no quorum"):
                await open_store(ensemble.connect_string, LONG_MS, connection_timeout_ms=500)
            for index in (0, 1):
                ensemble.start_server(index)
            await until_state(store, CONNECTED)
            assert (await keep_trying(lambda: store.get("/mine"))).created == created
            assert LOST not in states
            await store.close()

        asyncio.run(scenario())

    def test_creation_ids_are_right_while_others_write(self, ensemble):
        async def write(store, who):
            for n in range(20):
                path = f"/{who}-{n}"
                results = await store.multi([Create(path), Create(f"{path}/a"), Set(path, b"x")])
                found = await store.get_all([path, f"{path}/a"])
                assert results == [found[path].created, found[f"{path}/a"].created, 1]

        async def scenario():
            stores = [await open_store(ensemble.connect_string, LONG_MS) for _ in range(3)]
            await asyncio.gather(*(write(store, f"{i}{k}") for i, store in enumerate(stores) for k in "abc"))
            for store in stores:
                await store.close()

        asyncio.run(scenario())


class TestEndsOfSessions:
    def test_after_the_end_there_is_no_other_session(self, own_server):
        async def scenario():
            store = await open_store(own_server.connect_string, LONG_MS)
            states, calls = [], Calls()
            store.on_session(states.append)
            await store.watch("/a", calls)
            await store.create("/mine", b"", ephemeral=True)
            await expire(store, own_server.connect_string)
            assert states[-1] is LOST and states.count(LOST) == 1
            with pytest.raises(SessionLost):
                await store.watch("/b", calls)
            await store.close()
            assert states[-1] is LOST and states.count(LOST) == 1
            other = await open_store(own_server.connect_string, LONG_MS)
            assert "mine" not in await other.children("/")
            await other.close()

        asyncio.run(scenario())
        sessions = [line for line in own_server.ask(0, "dump").splitlines() if line.startswith("0x")]
        assert sessions == []

    def test_a_process_that_stood_still_for_too_long_finds_its_session_over(self, own_server):
        script = """
import asyncio, json, sys
from ottla.metadata.store import SessionState
from ottla.metadata.zookeeper import ZooKeeperStore

async def main():
    store = await ZooKeeperStore.open(sys.argv[1], session_timeout_ms=1000, connection_timeout_ms=60000)
    states, over = [], asyncio.Event()
    def follow(state):
        states.append(state.name)
        if state is SessionState.LOST:
            over.set()
    store.on_session(follow)
    await store.create("/mine", b"", ephemeral=True)
    print("ready", flush=True)
    await over.wait()
    await store.close()
    print(json.dumps(states), flush=True)

asyncio.run(main())
"""
        command = [sys.executable, "-c", script, own_server.connect_string]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

        async def scenario():
            store = await open_store(own_server.connect_string, LONG_MS)
            process.send_signal(signal.SIGSTOP)
            await until_gone(store, "/mine")
            process.send_signal(signal.SIGCONT)
            await store.close()

        try:
            assert process.stdout.readline() == "ready\n"
            asyncio.run(scenario())
            output, _ = process.communicate(timeout=PATIENCE_S)
            assert json.loads(output)[-1] == "LOST"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_who_abandons_it_is_missed_only_after_a_while(self, zookeeper):  # noqa: F811  # the fixture
        async def scenario():
            connect = f"{zookeeper.connect_string}/abandoned"
            patient, hasty = await open_store(connect, LONG_MS), await open_store(connect, 1_000)
            states = []
            patient.on_session(states.append)
            await patient.create("/patient", b"", ephemeral=True)
            await hasty.create("/hasty", b"", ephemeral=True)
            patient.abandon()
            hasty.abandon()
            with pytest.raises(SessionLost):
                await patient.get("/patient")
            other = await open_store(connect, LONG_MS)
            await until_gone(other, "/hasty")
            assert await other.children("/") == ["patient"]
            assert states == []
            await patient.close()
            await other.close()

        asyncio.run(scenario())

    def test_a_session_that_was_replaced_behind_our_back_is_over(self, zookeeper):  # noqa: F811  # the fixture
        async def scenario():
            store = await open_store(zookeeper.connect_string, LONG_MS)
            store._session._hear(SUSPENDED, 0)
            store._session._hear(CONNECTED, store.id + 1)
            assert store.session is LOST
            await store.close()

        asyncio.run(scenario())


class TestBeginnings:
    @pytest.mark.parametrize(
        "connect, sentence",
        [
            ("127.0.0.1:1", r"within 300 ms: 127.0.0.1:1 has nobody who listens$"),
            ("zookeeper.invalid:2181", r"zookeeper.invalid:2181 has a host name that is not known$"),
            ("127.0.0.1:1,zookeeper.invalid", r"nobody who listens; zookeeper.invalid:2181 has a host name"),
        ],
    )
    def test_a_session_that_cannot_begin_says_why(self, connect, sentence):
        with pytest.raises(StoreUnavailable, match=sentence):
            asyncio.run(open_store(connect, connection_timeout_ms=300))

    def test_what_cannot_be_an_address_is_refused_at_once(self):
        with pytest.raises(ConfigError, match=r"zookeeper.connect"):
            asyncio.run(open_store("127.0.0.1:port"))

    def test_without_kazoo_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ottla.metadata.zookeeper_session", None)
        with pytest.raises(ConfigError, match=r"pip install 'ottla\[cluster\]'"):
            asyncio.run(open_store("127.0.0.1:1"))

    def test_a_server_that_says_nothing_does_not_keep_us_from_another(self, zookeeper):  # noqa: F811
        async def scenario():
            with socket.create_server(("127.0.0.1", 0)) as silent:
                port = silent.getsockname()[1]
                for _ in range(3):  # kazoo chooses by chance with whom it begins
                    store = await open_store(f"127.0.0.1:{port},{zookeeper.connect_string}", 2_000)
                    await store.close()

        asyncio.run(scenario())

    def test_the_path_is_made_by_many_at_once_and_kept(self, zookeeper):  # noqa: F811  # the fixture
        async def scenario():
            connect = f"{zookeeper.connect_string}/deep/er/still"
            stores = await asyncio.gather(*(open_store(connect, LONG_MS) for _ in range(3)))
            await stores[0].create("/a")
            assert [await store.children("/") for store in stores] == [["a"]] * 3
            top = await open_store(zookeeper.connect_string, LONG_MS)
            assert await top.children("/deep/er/still") == ["a"]
            for store in (*stores, top):
                await store.close()

        asyncio.run(scenario())


class TestSizes:
    def test_thousands_of_nodes_are_read_at_once(self, zookeeper):  # noqa: F811  # the fixture
        async def scenario():
            store = await open_store(f"{zookeeper.connect_string}/many", LONG_MS)
            names = [f"{n:04}" + "x" * 290 for n in range(2_000)]
            for first in (0, 1_000):  # as many as a controller writes at once, each as large as they come
                await store.multi([Create(f"/{name}", b"d" * 200) for name in names[first : first + 1_000]])
            found = await store.get_all(f"/{name}" for name in (*names, "missing"))
            assert [path[1:] for path in found] == names
            await store.close()

        asyncio.run(scenario())

    def test_what_zookeeper_would_hang_up_on_is_refused_with_a_sentence(self, zookeeper):  # noqa: F811
        async def scenario():
            store = await open_store(f"{zookeeper.connect_string}/large", LONG_MS)
            with pytest.raises(StoreError, match=r"ZooKeeper takes 1048575"):
                await store.create("/a", bytes(1 << 20))
            assert store.session is CONNECTED
            await store.create("/a", bytes(1_000_000))
            await store.close()

        asyncio.run(scenario())

    def test_errors_name_the_operation_that_failed(self, zookeeper):  # noqa: F811  # the fixture
        async def scenario():
            store = await open_store(f"{zookeeper.connect_string}/errors", LONG_MS)
            await store.create("/a")
            with pytest.raises(NodeExists, match=r"^/a exists already$"):
                await store.multi([Create("/b"), Create("/c"), Create("/a"), Create("/d")])
            with pytest.raises(NoNode, match=r"^/x/y has no parent$"):
                await store.multi([Create("/b"), Create("/x/y")])
            await store.close()

        asyncio.run(scenario())


def test_a_store_that_is_not_opened_leaves_the_import_of_kazoo_alone():
    script = "import sys, ottla.metadata.zookeeper; sys.exit('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
