"""A broker with a compacted topic that has something to compact, and real workers."""

import asyncio
import contextlib
import os
import time

from ottla.core.ids import TopicPartition
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing.broker import AsyncBroker

ORDERS = TopicPartition("orders", 0)
NEVER_MS = 3_600_000
SLOW = "log.cleaner.io.max.bytes.per.second"
"""At one byte per second a worker is still at its first batch when the test is over."""


class Topic:
    """One compacted partition, and what was written to it."""

    def __init__(self, broker, place):
        self.broker = broker
        self.place = place
        self.newest = {}

    @property
    def node(self):
        return self.broker.node

    @property
    def log(self):
        return self.node.replicas.get(*self.place).log

    @property
    def cleaning(self):
        return self.node.cleaning

    @property
    def status(self):
        return self.cleaning.status(self.place)

    @property
    def checkpoint(self):
        """Up to where it is compacted, as the log directory has it."""
        return next(d for d in self.node.replicas.directories if self.place in d.logs).cleaned_to(self.place)

    def fill(self, rounds=20, keys=10, *, size=100, first=0, late_ms=0):
        """So many rounds of batches, each with a new value for every key."""
        partition, now_ms = self.node.replicas.get(*self.place), int(time.time() * 1000) - late_ms
        for number in range(first, first + rounds):
            values = {b"key %d" % key: (b"%d " % number).ljust(size, b".") for key in range(keys)}
            records = [Record(at, now_ms, key, value) for at, (key, value) in enumerate(values.items())]
            partition.append(build(records), 1, now_ms)
            self.newest |= values
        return self

    def find(self):
        """What a reader from the start sees last of each key; offsets must rise."""
        found = self.broker._records(*self.place, is_required=True)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        return {record.key: record.value for record in found}

    @property
    def count(self):
        return len(self.broker._records(*self.place, is_required=True))

    def leftovers(self):
        """Files of a cleaning that should not be there."""
        return [
            name for name in self.log.files.names(self.log.directory) if name.endswith((".cleaned", ".swap"))
        ]

    async def cleaned(self, runs=1):
        """Return when so many cleanings have ended well."""

        def is_done():
            status = self.status
            assert not (status.last_error or "").startswith("a failure of ours"), status.last_error
            return status.runs >= runs

        await until(is_done)

    async def busy(self):
        """The worker, once it is at work."""
        await until(lambda: self.status.state in ("mapping", "copying") and self.cleaning.workers)
        return self.cleaning.workers[0]


@contextlib.asynccontextmanager
async def compacting(data_dir=None, *, memory=False, config=None, **settings):
    """Nothing is compacted by the clock unless `config` says so."""
    defaults = {"log.cleaner.backoff.ms": NEVER_MS}
    async with AsyncBroker(data_dir=data_dir, memory=memory, config={**defaults, **(config or {})}) as broker:
        await broker.create_topic("orders", cleanup_policy="compact", **{"segment_bytes": 4096, **settings})
        yield Topic(broker, ORDERS)


async def until(is_so):
    """Return when it is. The test's own time limit is the only one."""
    while not is_so():
        await asyncio.sleep(0.002)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
