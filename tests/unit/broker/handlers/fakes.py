"""A broker for handlers: real metadata and settings, a controller that does as it is told, permissions to take away."""

import asyncio
import inspect
import uuid
from types import SimpleNamespace

from ottla.broker.apis import SERVED, handler_of
from ottla.broker.authorizer import Operation
from ottla.broker.call import Call
from ottla.broker.config import BrokerConfig
from ottla.broker.metadata import Metadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.metadata.store import SessionState
from ottla.protocol.apis import api_named
from ottla.protocol.codec import decode_exactly, encode_bytes
from ottla.replication.state import BrokerImage, Endpoint, PartitionState, TopicImage

LISTENER = "PLAINTEXT"


class Connection:
    peer_host, principal = "127.0.0.1", "User:ANONYMOUS"

    def __init__(self, listener=LISTENER):
        self.listener = listener


class Permissions:
    """Everything is allowed but what is denied: (operation, name), None for any name."""

    def __init__(self):
        self.denied = set()

    def deny(self, operation: Operation, name=None):
        self.denied.add((operation, name))

    def allows(self, call, operation, resource_type, name):
        return not {(operation, name), (operation, None)} & self.denied


class Controller:
    """Creates and deletes what it is asked to, unless told how to fail."""

    def __init__(self, metadata):
        self.metadata = metadata
        self.commands = []
        self.validate_only = False
        self.failures = {}
        self.store = SimpleNamespace(session=SessionState.CONNECTED)

    async def create_topics(self, topics, *, validate_only=False):
        await asyncio.sleep(0)
        self.commands += topics
        self.validate_only = validate_only
        results = {each.name: self.failures.get(each.name) or self._image(each) for each in topics}
        if not validate_only:
            self.metadata.update(topics=[each for each in results.values() if isinstance(each, TopicImage)])
        return results

    async def delete_topics(self, names, ids=None):
        self.commands += names
        self.ids = ids
        self.metadata.update(deleted=[name for name in names if name not in self.failures])
        return {name: self.failures.get(name) for name in names}

    async def create_partitions(self, growth, *, validate_only):
        self.commands += growth
        self.validate_only = validate_only
        return {each.name: self.failures.get(each.name) for each in growth}

    @staticmethod
    def _image(new):
        return topic(new.name, max(1, new.partitions, len(new.assignments)))


def topic(name, count=1, *, leader=1, replicas=(1,), isr=None, offline=(), is_internal=False):
    topic_id = uuid.uuid4()
    states = [
        PartitionState(name, topic_id, index, leader, 7, 3, replicas, isr or replicas, offline=offline)
        for index in range(count)
    ]
    return TopicImage(name, topic_id, tuple(states), is_internal)


def node(node_id, *listeners, rack=None):
    names = listeners or (LISTENER,)
    endpoints = (Endpoint(name, "PLAINTEXT", f"{name.lower()}{node_id}", 9000 + node_id) for name in names)
    return BrokerImage(node_id, 1, tuple(endpoints), rack)


def broker_with(*topics, nodes=(), config=None):
    metadata = Metadata("cluster-1")
    metadata.update(topics=topics, brokers=nodes or [node(1)], controller_id=1)
    settings = BrokerConfig(config or {})
    controller = Controller(metadata)
    return SimpleNamespace(
        metadata=metadata,
        cluster_id="cluster-1",
        config=settings,
        configs=SimpleNamespace(broker=settings, client_metrics={}),
        authorizer=Permissions(),
        controller=controller,
        to_controller=controller,
        upkeep=SimpleNamespace(look_at=set),
    )


def ask(broker, name, version, listener=LISTENER, **fields):
    """Send a request as a client would: both ways through the codec, so that the version has its say."""
    api = api_named(name)
    assert SERVED[api.key].min_version <= version <= SERVED[api.key].max_version
    request = decode_exactly(api.request, encode_bytes(api.request(**fields), version), version)
    call = Call(Connection(listener), api.key, version, 1, "test")
    response = handler_of(api.key)(broker, call, request)
    if inspect.iscoroutine(response):
        response = asyncio.run(response)
    return decode_exactly(api.response, encode_bytes(response, version), version)


def refusal(broker, name, version, **fields):
    """The code of the KafkaError with which the handler refuses the request as a whole."""
    try:
        ask(broker, name, version, **fields)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
