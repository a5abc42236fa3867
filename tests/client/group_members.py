"""Members of groups for tests: consumers that read in the background, and somebody who writes what they read."""

import asyncio
import contextlib
from collections import Counter

from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.listener import RebalanceListener
from ottla.client.producer.producer import AsyncProducer

PATIENCE_SECONDS = 60
PARTITIONS = 6
QUICK = {"heartbeat_interval_ms": 100, "metadata_max_age_ms": 500}


async def until(condition, told=lambda: ""):
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it did not come about. {told()}") from None


class Told(RebalanceListener):
    """Notes what it is told."""

    def __init__(self):
        self.heard = []

    def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", {each.partition for each in assigned}))

    async def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", {each.partition for each in revoked}))

    def on_partitions_lost(self, lost):
        self.heard.append(("lost", {each.partition for each in lost}))

    @property
    def events(self):
        return [what for what, _ in self.heard]


class Member:
    """A consumer that is polled in a task. Errors of polls are kept."""

    def __init__(self, server, group, *topics, pattern=None, listener=None, **settings):
        usual = {**QUICK, "auto_offset_reset": "earliest", "group_id": group}
        self.consumer = AsyncConsumer(bootstrap_servers=server, **{**usual, **settings})
        self.listener = listener or Told()
        self.seen, self.errors = [], []
        self._wanted = {"topics": topics} if pattern is None else {"pattern": pattern}
        self._task, self._is_ending = None, False

    async def start(self):
        await self.consumer.start()
        self.consumer.subscribe(**self._wanted, listener=self.listener)
        self.poll()

    def poll(self):
        """Go on reading."""
        self._is_ending = False
        self._task = asyncio.ensure_future(self._read())

    async def rest(self):
        """Work on what was read, without polling."""
        self._is_ending = True
        if self._task is not None:
            await self._task
            self._task = None

    async def _read(self):
        while not self._is_ending:
            try:
                found = await self.consumer.poll(50)
            except Exception as error:
                self.errors.append(error)
                await asyncio.sleep(0.01)
                continue
            for records in found.values():
                self.seen += [(each.partition, each.offset, each.value) for each in records]

    @property
    def has(self):
        return {each.partition for each in self.consumer.assignment()}

    async def close(self, **how):
        await self.rest()
        await self.consumer.close(**how)

    def __str__(self):
        return f"has {self.has}, read {len(self.seen)}, heard {self.listener.heard}, failed {self.errors}"


class Group:
    """The members of one group, past and present, and what they should have read."""

    def __init__(self, server, group, topic):
        self.server, self.group, self.topic = server, group, topic
        self.members, self.all = [], []
        self.produced = 0
        self._load = None
        self._producer = AsyncProducer(bootstrap_servers=server, linger_ms=0)

    async def join(self, **how):
        member = Member(self.server, self.group, self.topic, **how)
        self.members.append(member)
        self.all.append(member)
        await member.start()
        return member

    async def leave(self, member):
        self.members.remove(member)
        await member.close()

    async def crash(self, member):
        """Without a word to the group, and without a commit."""
        self.members.remove(member)
        await member.close(leave_group=False)

    async def shares(self, *sizes, partitions=PARTITIONS):
        """The members come to share the partitions like this, and every partition has one of them."""

        def is_shared():
            has = [each.has for each in self.members]
            whole = set().union(*has) == set(range(partitions)) and sum(map(len, has)) == partitions
            return whole and sorted(map(len, has)) == sorted(sizes)

        await until(is_shared, self.told)

    async def produce(self, count, partitions=PARTITIONS):
        deliveries = []
        for _ in range(count):
            value = str(self.produced).encode()
            deliveries.append(
                await self._producer.send(self.topic, value, partition=self.produced % partitions)
            )
            self.produced += 1
        for delivery in deliveries:
            await delivery

    @contextlib.asynccontextmanager
    async def load(self):
        """Records come all the time."""

        async def go_on():
            while not is_over:
                await self.produce(6)
                await asyncio.sleep(0.002)

        is_over = False
        task = asyncio.ensure_future(go_on())
        try:
            yield
        finally:
            is_over = True
            await task

    async def has_read_everything(self, at_least_once=False):
        wanted = Counter(str(number).encode() for number in range(self.produced))

        def found():
            return Counter(value for member in self.all for *_, value in member.seen)

        await until(lambda: not wanted - found(), self.told)
        assert at_least_once or found() == wanted, f"{found() - wanted} too often. {self.told()}"

    def told(self):
        return "\n".join(str(each) for each in self.all)

    async def close(self):
        await asyncio.gather(*(each.close() for each in self.members))
        await self._producer.close()


@contextlib.asynccontextmanager
async def group_of(server, group, topic):
    found = Group(server, group, topic)
    try:
        yield found
    finally:
        await found.close()
