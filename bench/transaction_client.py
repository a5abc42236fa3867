"""Transactional producers at a steady pace, and readers of what they committed.

`python -m bench.transaction_client ARGUMENTS` runs one measurement in a process of its own and prints what it saw; both
are JSON. A producer has one connection and writes one record in each transaction, in the way of transaction version 1
(AddPartitionsToTxn, Produce, EndTxn) or 2 (Produce, EndTxn, and a new epoch with every reply). A reader for every
partition waits for whatever becomes stable. Nothing counts before every producer has committed a few times: a cold
broker is not what is measured.
"""

import heapq
import json
import math
import os
import struct
import sys
import time
from collections.abc import Generator
from typing import Any

from fastcrc import crc32

from bench.conversations import Blank, Conversations, Script, asking, percentile
from bench.coordinator_client import NOT_YET, find_coordinator
from bench.processes import cpu_seconds
from bench.stored import BODY, HEAD, NOW_MS, varint
from bench.wire import PARTITIONS, frame_of
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

INIT, ADD, FETCH = (22, 4), (24, 3), (1, 12)
PRODUCE = {1: (0, 9), 2: (0, 12)}
END = {1: (26, 3), 2: (26, 5)}
CONCURRENT_TRANSACTIONS = 51
BACKOFF_SECONDS = 0.02  # as clients wait after CONCURRENT_TRANSACTIONS
FETCH_WAIT_MS = 500
WARM_COUNT = 5
READ_COMMITTED, TRANSACTIONAL = 1, 0x10
_PRODUCER, _ID, _EPOCH = struct.Struct(">qh"), 0x1122334455667788, 0x1234
_OFFSET, _OFFSET_BLANK = struct.Struct(">q"), 0x1122334455667788
_VALUE = os.urandom(100)
_RECORD = b"\0\0\0\1" + varint(len(_VALUE)) + _VALUE + b"\0"
_RECORDS = varint(len(_RECORD)) + _RECORD
_now = time.perf_counter


def batch_of(producer_id: int, epoch: int, sequence: int) -> bytes:
    body = BODY.pack(TRANSACTIONAL, 0, NOW_MS, NOW_MS, producer_id, epoch, sequence, 1) + _RECORDS
    return HEAD.pack(0, 9 + len(body), 0, 2, crc32.iscsi(body)) + body


class Seen:
    """What all producers and readers saw, from `start` to `end`."""

    def __init__(self) -> None:
        self.start = self.end = math.inf
        self.commits: list[float] = []
        self.produces: list[float] = []
        self.wholes: list[float] = []
        self.lags: list[float] = []
        self.concurrent = 0
        self.stable = [0] * PARTITIONS
        self._waiting: list[list[tuple[int, float]]] = [[] for _ in range(PARTITIONS)]

    def committed(self, partition: int, offset: int, *, due: float, wrote: float, asked: float) -> None:
        now = _now()
        if not self.start <= now < self.end:
            return
        self.commits.append(now - asked)
        self.wholes.append(now - due)
        self.produces.append(wrote)
        if self.stable[partition] > offset:
            self.lags.append(0.0)
        else:
            heapq.heappush(self._waiting[partition], (offset, now))

    def became_stable(self, partition: int, offset: int) -> None:
        self.stable[partition] = offset
        now, waiting = _now(), self._waiting[partition]
        while waiting and waiting[0][0] < offset:
            self.lags.append(now - heapq.heappop(waiting)[1])

    def give_up(self) -> None:
        """Who was not seen until now has waited for this long at least."""
        now = _now()
        self.lags += [now - since for waiting in self._waiting for _, since in waiting]

    def refused(self) -> None:
        if self.start <= _now() < self.end:
            self.concurrent += 1


class Producer:
    """One transactional id. `run` is its script."""

    def __init__(self, name: str, topic: str, partition: int, version: int, seen: Seen) -> None:
        self._name, self._topic, self._partition, self._version = name, topic, partition, version
        self._seen = seen
        self.count = 0
        """Transactions that were committed."""
        self._batch = batch_of(_ID, _EPOCH, 0)
        self._producer_id = self._epoch = self._sequence = 0
        self._add = b""
        self._produce = self._produce_blank()
        end = EndTxnRequest(transactional_id=name, producer_id=_ID, producer_epoch=_EPOCH, committed=True)
        self._end = Blank(END[version], end, _PRODUCER.pack(_ID, _EPOCH))
        # Behind correlation id and tags: in replies to Produce and to AddPartitionsToTxn.
        self._error_at = 5 + 1 + (1 + len(topic)) + 1 + 4

    def _produce_blank(self) -> Blank:
        records = ProduceRequest.Topic.Partition(index=self._partition, records=self._batch)
        request = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.Topic(name=self._topic, partition_data=[records])],
        )
        return Blank(PRODUCE[self._version], request, self._batch)

    def run(self, first: float, every: float) -> Script:
        yield from self._init()
        due = first
        while due < self._seen.end:
            yield due
            if self._version == 1:
                yield from self._until_done(self._add, 4 + self._error_at)
            wrote = _now()
            batch = batch_of(self._producer_id, self._epoch, self._sequence)
            reply = yield from self._until_done(self._produce.filled(batch), self._error_at)
            offset = _OFFSET.unpack_from(reply, self._error_at + 2)[0]
            asked = _now()
            frame = self._end.filled(_PRODUCER.pack(self._producer_id, self._epoch))
            reply = yield from self._until_done(frame, 9)
            self._seen.committed(self._partition, offset, due=due, wrote=asked - wrote, asked=asked)
            self._go_on(reply)
            self.count += 1
            # Nobody catches up on what a cold broker kept it from.
            due = due + every if self._seen.end < math.inf else max(due + every, _now())

    def _go_on(self, reply: bytes) -> None:
        if self._version == 1:
            self._sequence += 1
            return
        self._producer_id, self._epoch = _PRODUCER.unpack_from(reply, 11)
        self._sequence = 0

    def _init(self) -> Generator[bytes | float, bytes, None]:
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        while True:
            response: Any = yield from asking(INIT, request, InitProducerIdResponse)
            if response.error_code == 0:
                break
            assert response.error_code in (*NOT_YET, CONCURRENT_TRANSACTIONS), response
            yield _now() + BACKOFF_SECONDS
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._add = frame_of(
            ADD,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[AddedTopic(name=self._topic, partitions=[self._partition])],
            ),
        )

    def _until_done(self, frame: bytes, error_at: int) -> Generator[bytes | float, bytes, bytes]:
        """The reply, when the transaction before is out of the way."""
        while True:
            reply = yield frame
            code = int.from_bytes(reply[error_at : error_at + 2], "big")
            if code == 0:
                return reply
            is_early = _now() < self._seen.start and code in NOT_YET
            assert code == CONCURRENT_TRANSACTIONS or is_early, f"a transaction failed with error {code}"
            self._seen.refused()
            yield _now() + BACKOFF_SECONDS


def reader(topic: str, partition: int, seen: Seen) -> Script:
    """Fetches what is stable, one after the other; only the last stable offset of the replies is read."""
    wanted = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=_OFFSET_BLANK, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
    )
    blank = Blank(FETCH, request, _OFFSET.pack(_OFFSET_BLANK))
    # Behind correlation id, tags, throttle time, error, session, topic and partition.
    error_at = 5 + 4 + 2 + 4 + 1 + (1 + len(topic)) + 1 + 4
    offset = 0
    while True:
        reply = yield blank.filled(_OFFSET.pack(offset))
        code = int.from_bytes(reply[error_at : error_at + 2], "big")
        assert code == 0, f"Fetch: {code}"
        offset = _OFFSET.unpack_from(reply, error_at + 2 + 8)[0]
        seen.became_stable(partition, offset)


def run(arguments: dict) -> dict:
    pid, topic, count = arguments["pid"], arguments["topic"], arguments["producers"]
    every = 1 / arguments["per_second"]
    names = [f"{topic}-{number}" for number in range(count)]
    find_coordinator(arguments["port"], names, key_type=1)
    seen, begin = Seen(), _now() + 0.5
    talk = Conversations(arguments["port"])
    producers = [
        Producer(name, topic, number % PARTITIONS, arguments["version"], seen)
        for number, name in enumerate(names)
    ]
    for number, producer in enumerate(producers):
        talk.add(producer.run(begin + every * number / count, every))
    for partition in range(PARTITIONS if arguments["has_readers"] else 0):
        talk.add(reader(topic, partition, seen))
    talk.run(lambda: min(producer.count for producer in producers) >= WARM_COUNT, seconds_max=120)
    seen.start = _now()
    seen.end = seen.start + arguments["seconds"]
    cpu, own, started = cpu_seconds(pid), time.process_time(), _now()
    talk.run(lambda: _now() >= seen.end, seconds_max=120)
    cpu, own, spent = cpu_seconds(pid) - cpu, time.process_time() - own, _now() - started
    done = len(seen.commits)
    assert done, "no transaction was committed in time"
    talk.run(lambda: _now() >= seen.end + 0.3, seconds_max=120)  # what is on its way to readers
    if arguments["has_readers"]:
        seen.give_up()
    talk.close()
    return {
        "per_second": done / spent,
        "commit_p50_ms": percentile(seen.commits, 0.5),
        "commit_p99_ms": percentile(seen.commits, 0.99),
        "produce_p99_ms": percentile(seen.produces, 0.99),
        "whole_p50_ms": percentile(seen.wholes, 0.5),
        "whole_p99_ms": percentile(seen.wholes, 0.99),
        "lag_p50_ms": percentile(seen.lags, 0.5),
        "lag_p99_ms": percentile(seen.lags, 0.99),
        "concurrent": seen.concurrent / done * 100,
        "cpu_us": cpu / done * 1e6,
        "client_cpu_us": own / done * 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
