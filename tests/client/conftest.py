"""Every test here runs against Ottla and against Apache Kafka: the client is for both.

OTTLA_CLIENT_SERVERS=ottla leaves Apache Kafka out while one works on something.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.network.peer import connect
from ottla.protocol.messages.topics import CreateTopicsRequest
from tests.interop.brokers import COORDINATORS, Ottla
from tests.oracles import apache_kafka

SERVERS = os.environ.get("OTTLA_CLIENT_SERVERS", "ottla,apache").split(",")
_NAMES = itertools.count()


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of one broker."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "ottla":
        broker = Ottla(directory, COORDINATORS)
        try:
            yield broker.address
        finally:
            broker.stop()
        return
    try:
        with apache_kafka.apache_kafka(COORDINATORS, data_dir=directory) as apache:
            yield apache.bootstrap_server
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))


def unused_name(what: str = "t") -> str:
    return f"{what}-{os.getpid()}-{next(_NAMES)}"


@pytest.fixture
def name() -> str:
    """A name for a topic or a group that nobody has used."""
    return unused_name()


async def create_topic(
    server: str, name: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> None:
    """Make a topic, and return when every partition has a leader."""
    host, _, port = server.rpartition(":")
    rows = [
        CreateTopicsRequest.Topic.Setting(name=key, value=value) for key, value in (configs or {}).items()
    ]
    topic = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=rows
    )
    async with await connect(host, int(port)) as peer:
        answer = await peer.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        assert [row.error_code for row in answer.topics] == [0], answer.topics
    from ottla.client.cluster import Cluster
    from ottla.client.config import ClientConfig

    cluster = Cluster(ClientConfig({"bootstrap.servers": server}))
    try:
        while len(found.available if (found := cluster.metadata.topics.get(name)) else []) < partitions:
            await cluster.refresh([name])
    finally:
        await cluster.close()


@pytest.fixture
def new_topic(server: str) -> Callable[..., str]:
    """Makes a topic with these partitions and configs (underscores for dots), and returns its name."""

    def make(partitions: int = 1, **configs: Any) -> str:
        name = unused_name("topic")
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        asyncio.run(create_topic(server, name, partitions, settings))
        return name

    return make
