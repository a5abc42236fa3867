"""librdkafka as a client in a process of its own: produce, produce one by one, consume.

`python -m bench.librdkafka_client ARGUMENTS` runs one measurement and prints what it saw, both as JSON. With port 0 the
broker is librdkafka's mock, in C and in this process: it keeps 5 MB per partition in memory and writes no file. `pids`
are the processes of a cluster; `partitions` and `acks` say how it is written to.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.processes import cpu_seconds
from bench.stored import layout_of
from bench.wire import PARTITIONS, fill

QUEUE_MESSAGES_MAX = 2_000_000
CONSUME_SECONDS_MAX = 60.0


def bootstrap(port: int) -> dict:
    if port:
        return {"bootstrap.servers": f"127.0.0.1:{port}"}
    return {"test.mock.num.brokers": 1}


def producer(arguments: dict, **settings: object) -> Producer:
    """One whose connection stands: the first message is sent before the clock starts."""
    made = Producer({**bootstrap(arguments["port"]), "acks": arguments.get("acks", -1), **settings})
    made.list_topics(arguments["topic"], timeout=30)
    for partition in range(arguments.get("partitions", PARTITIONS)):
        made.produce(arguments["topic"], b"first", partition=partition)
    assert made.flush(30) == 0, "the first messages did not arrive"
    return made


def timed(arguments: dict, work: Callable[[], dict]) -> dict:
    pids = arguments.get("pids") or [arguments["pid"]]
    cpu, own, started = sum(map(cpu_seconds, pids)), time.process_time(), time.perf_counter()
    seen = work()
    seen.setdefault("seconds", time.perf_counter() - started)
    seen["broker_cpu"] = sum(map(cpu_seconds, pids)) - cpu
    seen["client_cpu"] = time.process_time() - own
    return seen


def produce(arguments: dict) -> dict:
    """As many messages as the client can send, over all partitions."""
    failed = []
    made = producer(
        arguments,
        **{
            "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
            "queue.buffering.max.kbytes": 1 << 20,
            "on_delivery": lambda error, _: failed.append(error) if error else None,
        },
    )
    value = bytes((i * 7 + i * i // 3) & 255 for i in range(arguments["value_bytes"]))
    topic, count = arguments["topic"], arguments["count"]
    partitions = arguments.get("partitions", PARTITIONS)

    def work() -> dict:
        send = made.produce
        for number in range(count):
            send(topic, value, partition=number % partitions)
            if not number & 1023:
                made.poll(0)
        assert made.flush(120) == 0 and not failed, failed[:1]
        return {"count": count, "bytes": count * len(value)}

    return timed(arguments, work)


def sync(arguments: dict) -> dict:
    """One message at a time: from `produce` to the end of `flush`."""
    made = producer(arguments, **{"linger.ms": 0, "socket.nagle.disable": True})
    topic, value, times = arguments["topic"], b"x" * 100, []

    def work() -> dict:
        now = time.perf_counter
        end = now() + arguments["seconds"]
        while (started := now()) < end:
            made.produce(topic, value, partition=0)
            made.flush(10)
            times.append(now() - started)
        times.sort()
        return {
            "count": len(times),
            "p50_us": statistics.median(times) * 1e6,
            "p99_us": times[int(len(times) * 0.99)] * 1e6,
        }

    return timed(arguments, work)


def consume(arguments: dict) -> dict:
    """All of a stored topic, from its beginning, again and again. A pass ends with the last message."""
    layout = layout_of(arguments["topic"])
    keep, port = None, arguments["port"]
    if not port:
        keep = Producer(bootstrap(0))
        metadata = keep.list_topics(arguments["topic"], timeout=30)
        port = next(iter(metadata.brokers.values())).port
        fill(port, layout.topic)
    settings = {**bootstrap(port), "group.id": "bench", "enable.auto.commit": False}
    # A pass must not wait for the last fetch of the one before, which finds nothing more.
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 5})
    passes = []

    def work() -> dict:
        for _ in range(arguments["passes"]):
            passes.append(one_pass(consumer, layout.topic, layout.end_offset * PARTITIONS))
        return {"count": layout.end_offset * PARTITIONS, "seconds": statistics.median(passes)}

    one_pass(consumer, layout.topic, layout.end_offset * PARTITIONS)
    seen = timed(arguments, work)
    seen["bytes"] = seen["count"] * layout.record_bytes
    seen["broker_cpu"] /= len(passes)
    seen["client_cpu"] /= len(passes)
    consumer.close()
    del keep
    return seen


def one_pass(consumer: Consumer, topic: str, count: int) -> float:
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    started, got = time.perf_counter(), 0
    while got < count:
        messages = consumer.consume(min(10_000, count - got), timeout=0.5)
        for message in messages:
            assert message.error() is None, message.error()
        got += len(messages)
        assert time.perf_counter() - started < CONSUME_SECONDS_MAX, f"{got} of {count} messages came"
    seconds = time.perf_counter() - started
    consumer.unassign()
    return seconds


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"produce": produce, "sync": sync, "consume": consume}[given["what"]](given)))
