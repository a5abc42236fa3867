"""Records that nobody reads: so many that a slow host cannot keep up with them. They are not judged.

Their producer does not wait for followers. One that did would be held back by the slowest of them, which would then
never be too slow.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.chaos.history_load import PRODUCER
from tests.cluster.load import CLIENT

RECORD_BYTES, RECORDS_PER_TICK, TICK_SECONDS = 8192, 5, 0.1  # 400 KB/s, more than three times 1 Mbit/s
END_SECONDS_MAX = 60.0


@contextmanager
def ballast(server: str, topic: str) -> Iterator[None]:
    """While this is open, partition 0 of the topic grows faster than a slow host can follow."""
    producer = Producer({"bootstrap.servers": server, **PRODUCER, **CLIENT, "acks": 1})
    is_over = threading.Event()

    def produce() -> None:
        while not is_over.wait(TICK_SECONDS):
            for _ in range(RECORDS_PER_TICK):
                producer.produce(topic, os.urandom(RECORD_BYTES), partition=0)
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert producer.flush(END_SECONDS_MAX) == 0
