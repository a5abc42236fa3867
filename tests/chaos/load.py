"""Load: an idempotent producer of librdkafka that writes numbered records and remembers what was acknowledged."""

import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ottla.core.ids import TopicPartition

PARTITIONS = 4
UNACKNOWLEDGED_MAX = 5_000
ACKNOWLEDGED_SECONDS_MAX = 60
SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 1,
    "message.timeout.ms": 300_000,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}


class Load:
    """Writes in a thread of its own until it is told to finish. What the broker acknowledged is in `acknowledged`."""

    def __init__(self, bootstrap_server: str, topic: str = "orders") -> None:
        self.topic = topic
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {
            TopicPartition(topic, number): {} for number in range(PARTITIONS)
        }
        self.count = 0
        """How many were acknowledged."""
        self.refused: Counter[str] = Counter()
        self.fatal: KafkaError | None = None
        self._is_finishing = False
        settings = {**SETTINGS, "bootstrap.servers": bootstrap_server, "error_cb": self._on_error}
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._write, name="load")
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Return when `count` more records have been acknowledged."""
        until, deadline = self.count + count, time.monotonic() + ACKNOWLEDGED_SECONDS_MAX
        while self.count < until:
            assert time.monotonic() < deadline, (
                f"{self.count} of {until} acknowledged; refused: {self.refused}"
            )
            time.sleep(0.001)

    def finish(self) -> None:
        """Write no more, and wait for the last acknowledgement."""
        self._is_finishing = True
        self._thread.join()
        assert self._producer.flush(ACKNOWLEDGED_SECONDS_MAX) == 0
        assert self.fatal is None, str(self.fatal)

    def _write(self) -> None:
        number = 0
        while not self._is_finishing:
            if len(self._producer) < UNACKNOWLEDGED_MAX:
                value = f"{number:08d}-".encode() + b"x" * (number % 300)
                self._producer.produce(
                    self.topic, value, partition=number % PARTITIONS, on_delivery=self._on_delivery
                )
                number += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.01)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused[error.name()] += 1
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.acknowledged[TopicPartition(self.topic, partition)][offset] = message.value() or b""
        self.count += 1

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error
