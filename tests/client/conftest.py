"""Every test here runs against Ottla and against Apache Kafka: the client is for both.

OTTLA_CLIENT_SERVERS=ottla leaves Apache Kafka out while one works on something.
"""

import asyncio
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.network.peer import connect
from ottla.protocol.messages.topics import CreateTopicsRequest
from tests.interop.brokers import COORDINATORS, Ottla
from tests.oracles import apache_kafka

SERVERS = os.environ.get("OTTLA_CLIENT_SERVERS", "ottla,apache").split(",")
_NAMES = itertools.count()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """host:port of the broker of that kind. Each is started once, and stays: Apache Kafka takes its time."""
    found: dict[str, str] = {}
    with ExitStack() as stack:

        def get(kind: str) -> str:
            if kind not in found:
                found[kind] = _start(stack, kind, tmp_path_factory.mktemp(kind))
            return found[kind]

        yield get


def _start(stack: ExitStack, kind: str, directory: Path) -> str:
    if kind == "ottla":
        broker = Ottla(directory, COORDINATORS)
        stack.callback(broker.stop)
        return broker.address
    try:
        apache = stack.enter_context(apache_kafka.apache_kafka(COORDINATORS, data_dir=directory))
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))
    return apache.bootstrap_server


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, running: Callable[[str], str]) -> str:
    """host:port of one broker."""
    return running(request.param)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Ctrl-C reaches Python also where the tests run in the background, whose shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
