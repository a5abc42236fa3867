"""Which store it is, by the settings: each is opened for real, but for ZooKeeper, which has tests of its own."""

import asyncio
import socket

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.stores import described, open_store, serve_store
from ottla.core.errors import ConfigError
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import StoreUnavailable


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_without_a_word_the_metadata_is_in_a_file_of_ours(tmp_path):
    async def scenario():
        store = await open_store(BrokerConfig(), f"{tmp_path}/metadata.db")
        assert isinstance(store, EmbeddedStore)
        assert await serve_store(BrokerConfig(), store) is None
        await store.close()

    asyncio.run(scenario())


def test_a_store_that_one_broker_serves_is_that_of_another(tmp_path):
    async def scenario():
        address = f"127.0.0.1:{free_port()}"
        owner = BrokerConfig({"metadata.store.listen": address})
        own = await open_store(owner, f"{tmp_path}/metadata.db")
        server = await serve_store(owner, own)
        assert server is not None
        other = await open_store(BrokerConfig({"metadata.store.connect": address}), "not used")
        await own.create("/a", b"x")
        assert (await other.get("/a")).data == b"x"
        await other.close()
        await server.close()
        await own.close()

    asyncio.run(scenario())


def test_a_store_that_does_not_answer_is_named():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match=address):
        asyncio.run(open_store(BrokerConfig({"metadata.store.connect": address}), "not used"))


def test_metadata_is_not_served_to_other_machines(tmp_path):
    async def scenario():
        config = BrokerConfig({"metadata.store.listen": "0.0.0.0:0"})
        store = await open_store(config, f"{tmp_path}/metadata.db")
        try:
            with pytest.raises(ConfigError, match="loopback"):
                await serve_store(config, store)
        finally:
            await store.close()

    asyncio.run(scenario())


def test_sentences_name_the_store():
    assert "zk:2181/kafka" in described(BrokerConfig({"zookeeper.connect": "zk:2181/kafka"}), "file")
    assert "zk:1" in described(BrokerConfig({"metadata.store.connect": "zk:1"}), "file")
    assert described(BrokerConfig(), "file") == "file"
