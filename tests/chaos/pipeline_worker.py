"""A worker of the pipeline as a program: read, transform, write, all in one transaction with the offsets it read.

`python -m tests.chaos.pipeline_worker <broker> <number> <protocol>`. It is meant to be killed: nothing that it knows is
needed by the next one. When its producer cannot go on it ends, with 3, and is to be started again.
"""

import sys
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

GROUP, INPUT, OUTPUT = "pipeline", "input", "output"
BATCH_MAX = 10
POLL_SECONDS = 0.1
CALL_SECONDS = 30.0
NEEDS_RESTART = 3
QUICKLY = {
    # When its only broker is down, librdkafka may drop what it knows of it and start anew; a request to the group's
    # coordinator that is under way then waits for a connection that nobody opens.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "log_level": 0,
}
CLASSIC = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200}


class Restart(Exception):
    """The producer was fenced, or is otherwise at its end."""


class Worker:
    """One consumer of the group, and one producer with a transactional id of its own."""

    def __init__(self, bootstrap_server: str, number: str, protocol: str) -> None:
        common = {"bootstrap.servers": bootstrap_server, **QUICKLY}
        self._producer = Producer(
            {
                **common,
                "transactional.id": f"{GROUP}-{number}",
                "transaction.timeout.ms": 10_000,
                "linger.ms": 1,
            }
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": GROUP,
                "group.protocol": protocol,
                **(CLASSIC if protocol == "classic" else {}),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._try(lambda: self._producer.init_transactions(CALL_SECONDS))
        self._consumer.subscribe([INPUT])

    def run(self) -> None:
        while True:
            messages = [
                each
                for each in self._consumer.consume(BATCH_MAX, timeout=POLL_SECONDS)
                if each.error() is None
            ]
            if messages:
                self._process(messages)

    def _process(self, messages: list[Any]) -> None:
        self._producer.begin_transaction()
        try:
            for each in messages:
                self._producer.produce(OUTPUT, each.value() + b"!", each.key(), each.partition())
            ends = {(each.topic(), each.partition()): each.offset() + 1 for each in messages}
            places = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
            group = self._consumer.consumer_group_metadata()
            self._try(lambda: self._producer.send_offsets_to_transaction(places, group, CALL_SECONDS))
            self._try(lambda: self._producer.commit_transaction(CALL_SECONDS))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise Restart(str(error)) from error
            self._try(lambda: self._producer.abort_transaction(CALL_SECONDS))
            self._go_back()

    def _go_back(self) -> None:
        """What was read and not written is read again: from where the group stands."""
        for place in self._consumer.committed(self._consumer.assignment(), timeout=CALL_SECONDS):
            start = place.offset if place.offset >= 0 else 0
            self._consumer.seek(TopicPartition(place.topic, place.partition, start))

    def _try(self, call: Callable[[], Any]) -> None:
        """Again while the client says that it may help; another error is the caller's to judge."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if error.args[0].fatal():
                    raise Restart(str(error)) from error
                if not error.args[0].retriable():
                    raise


def main() -> None:
    try:
        Worker(*sys.argv[1:]).run()
    except (Restart, KafkaException) as error:
        print(error, file=sys.stderr)
        sys.exit(NEEDS_RESTART)


if __name__ == "__main__":
    main()
