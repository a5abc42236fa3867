"""Memberships without a consumer around them: what a consumer does with them, and nothing else."""

import asyncio
import contextlib

from ottla.client.cluster import Cluster
from ottla.client.consumer.classic import ClassicMembership
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.modern import ConsumerMembership
from ottla.client.consumer.subscription import Subscription
from ottla.client.deadline import Deadline
from ottla.client.listener import RebalanceListener
from ottla.testing.broker import AsyncBroker

QUICK = {
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
}
"""Of a broker: what members would wait for comes sooner."""
PATIENCE_SECONDS = 20


def new_broker(**config):
    return AsyncBroker(
        memory=True, config={**QUICK, **{key.replace("_", "."): each for key, each in config.items()}}
    )


async def until(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


class Told(RebalanceListener):
    """Notes what it is told."""

    def __init__(self):
        self.heard = []

    def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", {each.partition for each in assigned}))

    def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", {each.partition for each in revoked}))

    def on_partitions_lost(self, lost):
        self.heard.append(("lost", {each.partition for each in lost}))

    @property
    def events(self):
        return [what for what, _ in self.heard]


class Driven:
    """A membership that is polled whenever it wants to be, while it `runs`."""

    def __init__(self, server, topics=("t",), *, pattern=None, listener=None, **settings):
        given = {key.replace("_", "."): value for key, value in settings.items()}
        usual = {
            "group.id": "g",
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 10_000,
            "retry.backoff.ms": 10,
        }
        self.config = ConsumerConfig({"bootstrap.servers": server, **usual, **given})
        self.cluster = Cluster(self.config)
        self.subscription = Subscription()
        self.listener = Told() if listener is None else listener
        self.commits, self.errors, self.wakes = 0, [], 0
        self._woken = asyncio.Event()
        cls = ClassicMembership if self.config.group_protocol == "classic" else ConsumerMembership
        self.membership = cls(self.cluster, self.config, self.subscription, self._wake, self._commit)
        self.subscription.subscribe(topics if pattern is None else (), pattern, self.listener)
        self.membership.subscription_changed()
        self._task = None

    def _wake(self):
        self.wakes += 1
        self._woken.set()

    async def _commit(self, deadline):
        self.commits += 1

    @property
    def has(self):
        return {each.partition for each in self.subscription.partitions}

    def run(self):
        self._task = asyncio.ensure_future(self._run())
        return self

    async def _run(self):
        while True:
            self._woken.clear()
            try:
                await self.membership.poll(Deadline(0))
            except Exception as error:
                self.errors.append(error)
                await asyncio.sleep(0.01)
            if not self.membership.needs_poll:
                await self._woken.wait()

    async def pause(self):
        """The application does something else."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def leave(self):
        await self.pause()
        try:
            await self.membership.leave(Deadline(5000))
        finally:
            await self.close()

    async def close(self):
        await self.pause()
        await self.membership.close()
        await self.cluster.close()


@contextlib.asynccontextmanager
async def driven(server, *topics, **how):
    """A member that is polled, until the block ends; then it is gone without a word, if it has not left."""
    member = Driven(server, topics or ("t",), **how)
    try:
        yield member.run()
    finally:
        await member.close()
