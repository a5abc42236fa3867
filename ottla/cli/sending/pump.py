"""From inputs to brokers: reads, sends, and stops when told to, or when something fails.

One task reads and hands in records as long as there is room for them, so that memory stays bounded and a slow broker
slows the reading down. After the first failure nothing more is read. What is under way then is waited for, for a while,
so that what is said of it in the end is true.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, NoReturn

from ottla.cli.outcomes import counted
from ottla.cli.remote import NOT_FOUND, Failed
from ottla.cli.sending.inputs import Block
from ottla.cli.sending.parcels import Headers, Parcel, Parser, Record
from ottla.cli.sending.progress import SendingProgress
from ottla.cli.sending.tally import Tally
from ottla.cli.sending.topics import Topics
from ottla.cli.session import session
from ottla.cli.tables import say
from ottla.client.errors import KafkaTimeoutError, RecordTooLargeError
from ottla.client.producer.batch import Row, Stretch, size_of
from ottla.client.producer.producer import AsyncProducer
from ottla.core.errors import KafkaError

_PATIENCE_MS = 1000
"""After so long it is said that something is waited for."""
GRACE_MS = 5000
"""How long an interrupted command waits for what is under way."""


class Target(NamedTuple):
    """What was said for all records. What a record says itself goes before the headers, and behind the others."""

    topic: str | None = None
    partition: int | None = None
    key: bytes | None = None
    headers: Headers = ()
    chooses_anew: bool = False
    """Partitions that records name are ignored."""


class Stopped(Exception):
    """An input cannot be read on; it has been noted why."""


class Pump:
    """Of one command."""

    def __init__(
        self,
        producer: AsyncProducer,
        parser: Parser,
        target: Target,
        topics: Topics,
        tally: Tally,
        bar: SendingProgress,
        size_max: int,
    ) -> None:
        """`size_max` is the largest record that the producer takes."""
        self._size_max = size_max
        self._producer, self._parser, self._target = producer, parser, target
        self._topics, self.tally, self._bar = topics, tally, bar

    async def run(self, inputs: list[Callable[[], AsyncIterator[Block]]], stop: asyncio.Event) -> None:
        """Send all there is. Returns when it is acknowledged, or when it cannot be, or is not wanted any more."""
        work = asyncio.create_task(self._all(inputs))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
            await asyncio.wait({work})
        finally:
            work.cancel()
            stopping.cancel()
        if not work.cancelled() and (error := work.exception()) is not None:
            if not isinstance(error, Exception):
                raise error
            if not isinstance(error, Stopped):
                self.tally.went_wrong(error)
        if stop.is_set() or self.tally.trouble is not None:
            await self._settle()

    async def _settle(self) -> None:
        """Wait a while for what is under way."""
        for limit_ms in (_PATIENCE_MS, GRACE_MS - _PATIENCE_MS):
            with contextlib.suppress(KafkaTimeoutError):  # what is not done then counts as not acknowledged
                await self._producer.flush(limit_ms)
                return
            if limit_ms == _PATIENCE_MS and not session().is_quiet:
                say(f"waiting for {counted(self.tally.missing, 'record')}; Ctrl-C ends it at once")

    async def _all(self, inputs: list[Callable[[], AsyncIterator[Block]]]) -> None:
        for each in inputs:
            async for block in each():
                await self._send_block(block)
        await self._producer.flush()

    async def _send_block(self, block: Block) -> None:
        parcels, fault = self._parser(block)
        for parcel in parcels:
            self.tally.read += len(parcel.places)
            await self._send(block, parcel)
        self.tally.bytes += block.size
        self._bar.show(self.tally.bytes, self.tally.acknowledged)
        if fault is not None:
            self._stop(block, fault.place, Failed(fault.sentence))

    async def _send(self, block: Block, parcel: Parcel) -> None:
        target, records = self._target, parcel.records
        first = records[0] if records else None
        topic = target.topic or (first.topic if first else None)
        if topic is None:
            self._stop(
                block, parcel.places[0], Failed("it names no topic, and neither does the command"), parcel
            )
        partition = parcel.partition if target.partition is None else target.partition
        if partition is None and first is not None and not target.chooses_anew:
            partition = first.partition
        await self._check(block, parcel, topic, partition)

        def placed(stretches: list[Stretch]) -> None:
            for each in stretches:
                self.tally.watch(each, block, parcel.places)

        try:
            if records is not None:
                rows = [self._row(each) for each in records]
                await self._producer.send_rows(topic, rows, partition, placed)
            else:
                await self._producer.send_many(
                    topic, parcel.values, parcel.keys, target.headers, partition, placed
                )
        except RecordTooLargeError as error:
            await self._send_before(block, parcel, error)

    async def _check(self, block: Block, parcel: Parcel, topic: str, partition: int | None) -> None:
        try:
            count = await self._topics.partition_count(topic)
        except (Failed, KafkaError) as error:
            self._stop(block, parcel.places[0], error, parcel, is_about_all=self._target.topic is not None)
        if partition is not None and partition >= count:
            hint = "" if self._target.partition is not None else "; --repartition chooses others"
            numbers = "only number 0" if count == 1 else f"0 to {count - 1}"
            why = Failed(f"topic {topic} has no partition {partition}, but {numbers}{hint}", NOT_FOUND)
            is_about_all = self._target.partition is not None
            self._stop(block, parcel.places[0], why, parcel, is_about_all=is_about_all)

    def _row(self, record: Record) -> Row:
        now_ms = time.time_ns() // 1_000_000
        timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        key = self._target.key if record.key is None else record.key
        return timestamp_ms, key, record.value, record.headers + self._target.headers

    async def _send_before(self, block: Block, parcel: Parcel, error: Exception) -> None:
        """One of them is too large: send those before it, and say which it was."""
        if parcel.records is not None:
            sizes = [size_of(self._row(each)) for each in parcel.records]
        else:
            keys = parcel.keys or [None] * len(parcel.places)
            rows = zip(keys, parcel.values, strict=True)
            sizes = [size_of((0, key, value, self._target.headers)) for key, value in rows]
        count = next(index for index, size in enumerate(sizes) if size > self._size_max)
        self.tally.read -= len(parcel.places) - count
        if count:
            await self._send(block, parcel.cut(count))
        self._stop(block, parcel.places[count], error)

    def _stop(
        self,
        block: Block,
        index: int,
        error: Exception,
        unsent: Parcel | None = None,
        *,
        is_about_all: bool = False,
    ) -> NoReturn:
        if unsent is not None:
            self.tally.read -= len(unsent.places)
        where = "" if is_about_all else block.place(index, self._parser.noun)
        self.tally.went_wrong(error, where)
        raise Stopped
