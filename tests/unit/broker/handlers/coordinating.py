"""A real broker in memory, its coordinators included, and a client that talks to it without a socket."""

import asyncio
import contextlib
from functools import wraps

from ottla.protocol.apis import api_named
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.client import Caller, frame_of, response_of
from tests.unit.broker.handlers.fakes import Permissions

CONFIG = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}


class Client:
    """One connection. Requests and replies pass through the codec, so that the version has its say."""

    def __init__(self, node, client_id="test"):
        self.node = node
        self._caller = Caller(node)
        self._client_id = client_id

    async def ask(self, name, version, **fields):
        api = api_named(name)
        frame = frame_of(api.key, version, api.request(**fields), client_id=self._client_id)
        _, response = response_of(api.key, version, await self._caller.ask(frame))
        assert self._caller.closed == []
        return response


@contextlib.asynccontextmanager
async def coordinating(*topics, config=None):
    """A client of a broker that has these topics, each with two partitions, and coordinates."""
    async with AsyncBroker(memory=True, config={**CONFIG, **(config or {})}) as broker:
        for name in topics:
            await broker.create_topic(name, partitions=2)
        broker.node.authorizer = Permissions()
        client = Client(broker.node)
        client.broker = broker
        for key_type in (0, 1):
            await client.ask("FindCoordinator", 3, key="any", key_type=key_type)
        yield client


def scenario(test):
    """Run a test that waits."""

    @wraps(test)
    def inner(*args, **how):
        asyncio.run(asyncio.wait_for(test(*args, **how), 60))

    return inner
