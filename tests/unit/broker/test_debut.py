"""A broker that was not told anything yet lets others wait; one that others cannot reach says so."""

import asyncio

import pytest

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.debut import default_host
from ottla.core.errors import ConfigError, OttlaError
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import SessionState
from ottla.network.peer import connect
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.testing.disk import SimDisk
from tests.unit.broker.controlled import until
from tests.unit.broker.several import cluster_of


def broker_on(store: EmbeddedStore, node_id: int, **settings: object) -> Broker:
    async def session(path: str) -> EmbeddedStore:
        return store.another_session()

    values = {"node.id": node_id, "log.dirs": f"/{node_id}", "listeners": "PLAINTEXT://127.0.0.1:0"}
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Broker(BrokerConfig({**values, **named}), files=SimDisk(), open_store=session)


def deaf(broker: Broker) -> None:
    """As if the controller's words got lost on their way."""

    async def hear(order):
        await asyncio.Event().wait()

    broker.dispatch.faults.append(lambda call, request: hear(request) if call.api_key in (4, 5, 6) else None)


def test_clients_wait_until_the_controller_has_told_who_leads_what():
    async def scenario():
        async with cluster_of(1) as cluster:
            late = broker_on(cluster.store, 7)
            held = asyncio.Event()
            late.dispatch.faults.append(lambda call, _: held.wait() if call.api_key in (4, 5, 6) else None)
            starting = asyncio.create_task(late.start())
            await until(lambda: late.server.connections)  # of the controller
            peer = await connect("127.0.0.1", late.port)  # which asks for versions, and is answered
            asked = asyncio.create_task(peer.send(MetadataRequest(topics=None)))
            await asyncio.wait([asked], timeout=0.1)
            assert not asked.done() and late.why_not_ready
            held.set()
            assert sorted(each.node_id for each in (await asked).brokers) == [0, 7]
            await starting
            assert late.why_not_ready is None
            peer.abort()
            await late.kill()

    asyncio.run(scenario())


def test_a_broker_that_the_controller_cannot_reach_gives_up_and_says_why():
    async def scenario():
        async with cluster_of(1) as cluster:
            unheard = broker_on(cluster.store, 7, initial_broker_registration_timeout_ms=50)
            deaf(unheard)
            with pytest.raises(OttlaError, match=r"broker 0, has not reached this broker at PLAINTEXT://127"):
                await unheard.start()
            assert await cluster.store.children("/brokers/ids") == ["0"]

    asyncio.run(scenario())


def test_the_address_of_another_broker_is_refused():
    async def scenario():
        async with cluster_of(1) as cluster:
            taken = f"PLAINTEXT://127.0.0.1:{cluster.nodes[0].port}"
            second = broker_on(cluster.store, 7, advertised_listeners=taken)
            with pytest.raises(ConfigError, match="is where broker 0 is found"):
                await second.start()

    asyncio.run(scenario())


def test_a_loopback_among_brokers_of_other_machines_is_refused():
    async def scenario():
        async with cluster_of(1, advertised_listeners="PLAINTEXT://kafka.example:9092") as cluster:
            with pytest.raises(ConfigError, match=r"broker 0 is at kafka\.example, another machine"):
                await broker_on(cluster.store, 7).start()

    asyncio.run(scenario())


def test_brokers_must_agree_on_the_listener_between_them():
    async def scenario():
        async with cluster_of(1) as cluster:
            other = broker_on(
                cluster.store,
                7,
                listeners="OWN://127.0.0.1:0",
                listener_security_protocol_map="OWN:PLAINTEXT",
            )
            with pytest.raises(ConfigError, match="broker 0 has no listener OWN"):
                await other.start()

    asyncio.run(scenario())


def test_who_has_a_zookeeper_on_this_machine_listens_on_the_loopback():
    assert (
        asyncio.run(default_host(BrokerConfig({"zookeeper.connect": "127.0.0.1:2181/kafka"}))) == "127.0.0.1"
    )
    assert asyncio.run(default_host(BrokerConfig({"zookeeper.connect": "127.0.0.2"}))).startswith("127.")
    assert asyncio.run(default_host(BrokerConfig())) == "127.0.0.1"


def test_a_store_in_memory_is_enough_for_one():
    async def scenario():
        store = await EmbeddedStore.open(MEMORY)
        broker = broker_on(store, 1)
        await broker.start()
        assert broker.why_not_ready is None and not broker.dispatch.faults
        await broker.kill()
        await store.close()

    asyncio.run(scenario())


def test_who_is_controller_but_could_not_take_over_yet_has_told_nobody(caplog):
    """The connection to the store breaks just after the office was taken: what is stored has not been read."""

    async def scenario():
        store = await EmbeddedStore.open(MEMORY)
        broker = broker_on(store, 1)
        sessions: list[EmbeddedStore] = []

        async def interrupted(path: str) -> EmbeddedStore:
            session = store.another_session()
            multi = session.multi

            async def last_words(ops):
                results = await multi(ops)
                if any(op.path == "/controller" for op in ops):
                    session._state = SessionState.SUSPENDED
                return results

            session.multi = last_words
            sessions.append(session)
            return session

        broker._open_store = interrupted
        starting = asyncio.create_task(broker.start())
        await until(lambda: (broker.listeners and broker.dispatch.faults) or starting.done())
        assert not starting.done() and broker.controller.is_controller and broker.why_not_ready
        sessions[0]._state = SessionState.CONNECTED
        for listener in sessions[0]._listeners:
            listener(SessionState.CONNECTED)
        await starting
        assert broker.why_not_ready is None and not broker.dispatch.faults
        await broker.kill()
        await store.close()

    asyncio.run(scenario())


def test_a_session_that_ends_while_logs_are_opened_is_begun_anew(caplog):
    """Recovery can take long, and what it has done must not be in vain."""

    async def scenario():
        store = await EmbeddedStore.open(MEMORY)
        broker = broker_on(store, 1)
        open_store, sessions = broker._open_store, []

        async def noted(path: str) -> EmbeddedStore:
            sessions.append(await open_store(path))
            if len(sessions) > 1:
                return sessions[-1]
            # The brokers of this store are not those that own its file: theirs end like that of any other process.
            return RemoteLike(sessions[0])

        broker._open_store = noted
        loop, open_logs = asyncio.get_running_loop(), broker.replicas.open

        def slow(*arguments):
            asyncio.run_coroutine_threadsafe(sessions[0].expire(), loop).result()
            return open_logs(*arguments)

        broker.replicas.open = slow
        await broker.start()
        assert broker.controller.store is sessions[1] and broker.controller.is_controller
        await broker.stop()
        assert await store.children("/brokers/ids") == []
        await store.close()

    asyncio.run(scenario())


class RemoteLike:
    """A session with a store that is not in this process."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def __getattr__(self, name: str):
        return getattr(self._store, name)


def test_without_a_controller_it_is_not_said_that_one_could_not_come():
    async def scenario():
        async with cluster_of(1) as cluster:
            waiting = broker_on(cluster.store, 7, initial_broker_registration_timeout_ms=50)
            deaf(waiting)
            update = waiting.metadata.update
            waiting.metadata.update = lambda **news: update(**{**news, "controller_id": -1})
            with pytest.raises(OttlaError, match="no controller was elected within 50 ms"):
                await waiting.start()

    asyncio.run(scenario())
