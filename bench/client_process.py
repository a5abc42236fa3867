"""One client of one library in a process of its own, measured: what it sends, reads, and how long it waits for it.

`python -m bench.client_process ARGUMENTS` runs one measurement and prints what it saw, both as JSON. The same code
drives clients on an event loop and clients that block: those never wait for anything in here, and need no loop.
"""

import itertools
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any

from bench import client_consumers, client_producers
from bench.client_producers import Pair
from bench.processes import rss_bytes
from bench.wire import PARTITIONS

Given = Mapping[str, Any]
Seen = dict[str, float]
KEYS = 1000
VALUES = 1000
_READ_S_MAX = 120.0


def pairs_of(given: Given) -> Iterator[Pair]:
    """Keys, if they are wanted, and values: different ones, such as people send, where they are to be compressed."""
    chance = random.Random(7)
    keys = [b"key-%d" % number if given.get("is_keyed") else None for number in range(KEYS)]
    if given["settings"].get("compression.type"):
        values = [document(chance, given["value_bytes"]) for _ in range(VALUES)]
    else:
        values = [b"x" * given["value_bytes"]] * VALUES
    return itertools.cycle(list(zip(keys, values, strict=True)))


def document(chance: random.Random, size: int) -> bytes:
    fields: list[str] = []
    while sum(map(len, fields)) + 2 * len(fields) < size:
        name = chance.choice(("user", "order", "amount", "city", "session", "referrer", "article"))
        fields.append(f'"{name}-{len(fields)}": "{chance.randrange(10**9):x}"')
    return ", ".join(fields).encode()[:size]


async def called(fn: Callable[..., Awaitable[Any] | Any], *arguments: Any) -> Any:
    """The result of a function that may be a coroutine function."""
    found = fn(*arguments)
    return await found if isinstance(found, Coroutine) else found


def percentiles(times: list[float]) -> Seen:
    times.sort()
    return {"p50_us": times[len(times) // 2] * 1e6, "p99_us": times[int(len(times) * 0.99)] * 1e6}


# --- producers --------------------------------------------------------------------------------------------------------


async def producer_of(given: Given) -> Any:
    """One whose connections stand: the first records are sent before the clock starts."""
    client = client_producers.LIBRARIES[given["library"]](given)
    for partition in range(PARTITIONS):
        await called(client.first, partition)
    return client


async def produce(given: Given) -> Seen:
    client = await producer_of(given)
    pairs = itertools.islice(pairs_of(given), given["count"])
    cpu, begun = time.process_time(), time.perf_counter()
    await called(client.produce, pairs)
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    await called(client.close)
    return {"count": given["count"], "seconds": seconds, "cpu": used}


async def sync(given: Given) -> Seen:
    """From `send` to the acknowledgement, one record at a time."""
    client = await producer_of(given)
    value, times = b"x" * given["value_bytes"], []
    now, cpu = time.perf_counter, time.process_time()
    end = now() + given["seconds"]
    while (begun := now()) < end:
        await called(client.one, value)
        times.append(now() - begun)
    used = time.process_time() - cpu
    await called(client.close)
    return {"count": len(times), "cpu": used, **percentiles(times)}


async def producer_memory(given: Given) -> Seen:
    """What the process takes after a tenth of the records, and after all of them."""
    client, pairs = await producer_of(given), pairs_of(given)
    await called(client.produce, itertools.islice(pairs, given["count"] // 10))
    early = rss_bytes(os.getpid())
    await called(client.produce, itertools.islice(pairs, given["count"] // 10 * 9))
    late = rss_bytes(os.getpid())
    await called(client.close)
    return {"early_mb": early / 1e6, "late_mb": late / 1e6, "growth": late / early}


# --- consumers --------------------------------------------------------------------------------------------------------


async def consumer_of(given: Given) -> Any:
    """One that reads all partitions from their beginning, and has read something."""
    client = client_consumers.LIBRARIES[given["library"]](given)
    await called(client.start, range(PARTITIONS))
    return client


async def read(client: Any, count: int) -> None:
    """At least so many records; every one was looked at."""
    poll, end = client.poll, time.monotonic() + _READ_S_MAX
    if count == 1:  # who waits for one record does not ask for more
        poll = getattr(client, "poll_one", poll)
    while count > 0:
        count -= await called(poll)
        assert time.monotonic() < end, f"{count} records did not come"


async def consume(given: Given) -> Seen:
    client = await consumer_of(given)
    await read(client, 1)
    before = client.count
    cpu, begun = time.process_time(), time.perf_counter()
    await read(client, given["count"])
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    assert client.size == client.count * given["value_bytes"], "values of another size came"
    await called(client.close)
    return {"count": client.count - before, "seconds": seconds, "cpu": used}


async def consumer_memory(given: Given) -> Seen:
    client = await consumer_of(given)
    await read(client, given["count"] // 10)
    early = rss_bytes(os.getpid())
    await read(client, given["count"] - client.count)
    late = rss_bytes(os.getpid())
    await called(client.close)
    return {"early_mb": early / 1e6, "late_mb": late / 1e6, "growth": late / early}


async def end_to_end(given: Given) -> Seen:
    """From `send` until a consumer in the same process has the record, one at a time."""
    producer = await producer_of(given)
    consumer = await consumer_of(given)
    while consumer.count < PARTITIONS:
        await read(consumer, 1)
    value, times = b"x" * given["value_bytes"], []
    now, cpu = time.perf_counter, time.process_time()
    end = now() + given["seconds"]
    while (begun := now()) < end:
        await called(producer.hand_in, value)
        await read(consumer, 1)
        times.append(now() - begun)
    used = time.process_time() - cpu
    await called(producer.close)
    await called(consumer.close)
    return {"count": len(times), "cpu": used, **percentiles(times)}


# --- the process ------------------------------------------------------------------------------------------------------

MEASUREMENTS = {
    "produce": produce,
    "sync": sync,
    "producer_memory": producer_memory,
    "consume": consume,
    "consumer_memory": consumer_memory,
    "end_to_end": end_to_end,
}
ON_A_LOOP = ("ottla-async", "aiokafka")


def main(given: Given) -> Seen:
    if given.get("is_compiled") is not None:
        from ottla.records import section

        assert given["is_compiled"] == section.COMPILED, (
            f"another build of Ottla was found: {section.__file__}"
        )
    work = MEASUREMENTS[given["what"]](given)
    if given["library"] in ON_A_LOOP:
        import uvloop

        return uvloop.run(work)
    try:
        work.send(None)
    except StopIteration as done:
        seen: Seen = done.value
        return seen
    raise AssertionError("a client that blocks has waited for a loop")


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
