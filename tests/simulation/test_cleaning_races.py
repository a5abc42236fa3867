"""Everything that can happen to a log while it is compacted, in many orders: the newest of each key stays, what is gone
stays gone, and no file of a compaction is left.

The broker is the real one on a simulated disk. What it leaves to threads is done on its loop, some turns later. How
many is drawn from a seed, and so is what happens meanwhile: the same seed gives the same run.
"""

import asyncio
import logging
import random

import pytest

from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing.broker import AsyncBroker
from tests.simulation.seeds import seeds

ORDERS = TopicPartition("orders", 0)
NEVER_MS = 3_600_000
TURNS_MAX = (3, 30, 300)  # of the loop, between two events: so many, or so many
EVENTS = 40
REST_TURNS_MAX = 20_000
NOW = 1_700_000_000_000
CONFIG = {"log.cleaner.backoff.ms": NEVER_MS, "log.retention.check.interval.ms": NEVER_MS}
TOPIC = {"segment_bytes": 600, "delete_retention_ms": NEVER_MS, "file_delete_delay_ms": NEVER_MS}


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


class Race:
    """One topic, what was written to it, and somebody who disturbs its compaction."""

    def __init__(self, broker, source):
        self.broker = broker
        self.source = source
        self.policy = source.choice(["compact", "compact,delete"])
        self.written = {}
        self.gone = set()
        self.pauses = 0
        self.compactions = 0

    @property
    def node(self):
        return self.broker.node

    @property
    def partition(self):
        return self.node.replicas.get(*ORDERS)

    @property
    def log(self):
        return self.partition.log

    @property
    def cleaning(self):
        return self.node.cleaning

    async def begin(self):
        self.do_steps_on_the_loop()
        retention = {"retention_bytes": 6_000, "retention_ms": -1} if "delete" in self.policy else {}
        await self.broker.create_topic("orders", cleanup_policy=self.policy, **TOPIC, **retention)

    def do_steps_on_the_loop(self):
        replicas = self.node.replicas

        async def later(step):
            await turns(self.source.randint(0, 3))
            result = step()
            await turns(self.source.randint(0, 3))
            return result

        async def in_thread(step):
            running = asyncio.ensure_future(later(step))
            replicas._steps.add(running)
            running.add_done_callback(replicas._steps.discard)
            return await asyncio.shield(running)

        replicas.in_thread = in_thread

    # --- what happens -------------------------------------------------------------------------------------------

    async def write(self):
        for _ in range(self.source.randint(1, 15)):
            keys = [b"key %d" % self.source.randrange(12) for _ in range(self.source.randint(1, 4))]
            first = self.log.end_offset
            values = [(b"%d" % (first + at)) * self.source.randint(0, 8) or None for at in range(len(keys))]
            records = [Record(at, NOW, *pair) for at, pair in enumerate(zip(keys, values, strict=True))]
            self.partition.append(build(records), 1, NOW)
            self.written |= {first + at: pair for at, pair in enumerate(zip(keys, values, strict=True))}

    async def compact(self):
        self.cleaning.request(ORDERS)

    async def roll(self):
        self.log.roll()

    async def delete_records(self):
        if "delete" in self.policy:
            start, end = self.log.log_start_offset, self.log.high_watermark
            self.log.advance_log_start(self.source.randint(start, start + (end - start) // 3))
            await self.node.replicas.note_log_start(self.partition)
            self.log.delete_old(NOW)

    async def retention(self):
        self.log.delete_old(NOW, count_max=self.source.randint(1, 3))

    async def remove_files(self):
        self.log.remove_doomed(NOW + 2 * NEVER_MS)

    async def lose_and_win(self):
        """Another leads for a while, and its log may be shorter."""
        state = self.partition.state
        self.partition.follow_orders(state._replace(leader=-1, partition_epoch=state.partition_epoch + 1))
        self.node._moved(self.partition)
        if self.source.random() < 0.6:
            await turns(self.source.randint(0, 5))
            self.check()
            start, end = self.log.log_start_offset, self.log.end_offset
            self.log.truncate_to(self.source.randint((start + end) // 2, end))
            end = self.log.end_offset
            self.partition.log_end.reset(end)
            self.partition.high_watermark.reset(self.log.high_watermark)
            # What was superseded by a record that is cut off now does not come back with that.
            left = self.written.keys() - self.gone
            self.written = {
                offset: pair for offset, pair in self.written.items() if offset < end and offset in left
            }
            self.gone = {offset for offset in self.gone if offset < end}
        self.partition.follow_orders(state._replace(partition_epoch=state.partition_epoch + 2))
        self.node._moved(self.partition)

    async def pause(self):
        await self.cleaning.pause(ORDERS)
        self.pauses += 1

    async def resume(self):
        if self.pauses:
            self.cleaning.resume(ORDERS)
            self.pauses -= 1

    async def make_anew(self):
        await self.node.controller.delete_topics(["orders"])
        self.count_compactions()
        self.written, self.gone, self.pauses = {}, set(), 0
        await self.begin()

    async def kill(self):
        self.count_compactions()
        for step in list(self.node.replicas._steps):
            step.cancel()  # threads do not outlive their process
        await self.broker.kill()
        await self.start()

    async def stop(self):
        self.count_compactions()
        await self.broker.stop()
        await self.start()

    async def start(self):
        await self.broker.start()
        self.pauses = 0
        self.do_steps_on_the_loop()
        self.check()
        assert self.leftovers() == []

    # --- what must hold -----------------------------------------------------------------------------------------

    def count_compactions(self):
        self.compactions += int(self.node.metrics.cleaner_runs.labels().value)

    def check(self):
        log, found = self.log, {}
        offset = log.log_start_offset
        while data := log.read(offset, 1 << 20).read():
            for position, header in iter_batches(data, partial=True):
                for record in records_of(data, position):
                    if record.offset >= log.log_start_offset:
                        assert record.offset > max(found, default=-1)
                        found[record.offset] = record.key, record.value
                offset = header.next_offset
        assert {o: self.written[o] for o in found} == found, "nothing is made up"
        assert not self.gone & found.keys(), "what is gone stays gone"
        newest = {key: offset for offset, (key, _) in sorted(self.written.items())}
        lost = [o for o in newest.values() if o >= log.log_start_offset and o not in found]
        assert not lost, "the newest of each key is there"
        end = max(log.segments.active.base_offset, log.log_start_offset)
        assert [o for o in self.written if o >= end] == [o for o in found if o >= end]
        self.gone |= self.written.keys() - found.keys()

    def leftovers(self):
        names = self.log.files.names(self.log.directory)
        return [name for name in names if name.endswith((".cleaned", ".swap"))]

    async def come_to_rest(self):
        while self.pauses:
            await self.resume()
        self.cleaning.request(ORDERS)
        for _ in range(REST_TURNS_MAX):
            await asyncio.sleep(0)
            if self.cleaning.status(ORDERS).state == "idle":
                return
        raise AssertionError(f"it does not come to rest: {self.cleaning.status(ORDERS)}")

    async def run(self):
        often = [self.write, self.write, self.write, self.compact, self.compact, self.compact]
        rare = [self.make_anew, self.kill, self.stop]
        events = [*often * 2, self.roll, self.delete_records, self.retention, self.remove_files]
        events += [self.lose_and_win, self.lose_and_win, self.pause, *[self.resume] * 3, *rare]
        for _ in range(EVENTS):
            await self.source.choice(events)()
            await turns(self.source.randint(0, self.source.choice(TURNS_MAX)))
            self.check()
        await self.come_to_rest()
        self.check()
        assert self.leftovers() == []
        await self.kill()
        self.check()


async def race(seed):
    async with AsyncBroker(memory=True, config=CONFIG) as broker:
        race = Race(broker, random.Random(seed))
        await race.begin()
        await race.run()
        return race


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_whatever_happens_to_a_log_while_it_is_compacted(first, caplog):
    caplog.set_level(logging.WARNING)
    compactions = 0
    for seed in seeds(8):
        done = asyncio.run(race(first * 1000 + seed))
        compactions += done.compactions
    assert compactions > 10, "not all of them were disturbed"
    said = [record.getMessage() for record in caplog.records]
    assert not [line for line in said if "ours" in line or "cannot be compacted" in line or "failed" in line]


def test_a_log_that_is_paused_is_asked_for_in_vain_until_it_goes_on():
    async def run():
        async with AsyncBroker(memory=True, config=CONFIG) as broker:
            race = Race(broker, random.Random(0))
            await race.begin()
            await race.write()
            await race.pause()
            await race.compact()
            await turns(REST_TURNS_MAX // 10)
            assert race.cleaning.status(ORDERS).state == "paused"
            await race.come_to_rest()
            assert race.cleaning.status(ORDERS).runs == 1

    asyncio.run(run())


def test_a_topic_that_is_gone_cannot_be_asked_for():
    async def run():
        async with AsyncBroker(memory=True, config=CONFIG) as broker:
            race = Race(broker, random.Random(0))
            await race.begin()
            await race.write()
            await race.compact()
            await broker.node.controller.delete_topics(["orders"])
            with pytest.raises(KafkaError):
                broker.node.cleaning.request(ORDERS)

    asyncio.run(run())
