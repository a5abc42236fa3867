"""Consumers of several libraries behind the same few methods, each used as its own documentation has it.

They read the partitions of one topic from the beginning, assigned by hand, with the library's own settings but for one.
`poll` waits for records, looks at each of them (its offset, the size of its value) and returns how many there were.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_WAIT_MS = 1000
_MANY = 500  # what confluent-kafka is asked for at a time: what others hand out at a time by themselves


class _Seen:
    """What was looked at so far."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.topic, self.server = given["topic"], given["server"]
        self.count = self.size = self.offsets = 0

    def look_at(self, found: Mapping[Any, list[Any]]) -> int:
        """Records as all but one library hand them out: lists, by partition."""
        count = size = offsets = 0
        for records in found.values():
            count += len(records)
            for record in records:
                offsets += record.offset
                size += len(record.value)
        self.count += count
        self.size += size
        self.offsets += offsets
        return count


class Ottla(_Seen):
    """Ours, for programs without a loop."""

    def start(self, partitions: Iterable[int]) -> None:
        from ottla.client import Consumer, TopicPartition

        self.consumer = Consumer(bootstrap_servers=self.server, auto_offset_reset="earliest")
        self.consumer.assign([TopicPartition(self.topic, number) for number in partitions])

    def poll(self) -> int:
        return self.look_at(self.consumer.poll(timeout_ms=_WAIT_MS))

    def close(self) -> None:
        self.consumer.close()


class OttlaAsync(_Seen):
    """Ours, on a loop."""

    async def start(self, partitions: Iterable[int]) -> None:
        from ottla.client import AsyncConsumer, TopicPartition

        self.consumer = AsyncConsumer(bootstrap_servers=self.server, auto_offset_reset="earliest")
        await self.consumer.start()
        self.consumer.assign([TopicPartition(self.topic, number) for number in partitions])

    async def poll(self) -> int:
        return self.look_at(await self.consumer.poll(timeout_ms=_WAIT_MS))

    async def close(self) -> None:
        await self.consumer.close()


class AioKafka(_Seen):
    """aiokafka. It hands out everything that it has of a partition, unless it is told not to."""

    async def start(self, partitions: Iterable[int]) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self.consumer = AIOKafkaConsumer(bootstrap_servers=self.server, auto_offset_reset="earliest")
        await self.consumer.start()
        self.consumer.assign([TopicPartition(self.topic, number) for number in partitions])

    async def poll(self) -> int:
        return self.look_at(await self.consumer.getmany(timeout_ms=_WAIT_MS))

    async def close(self) -> None:
        await self.consumer.stop()


class KafkaPython(_Seen):
    """kafka-python."""

    def start(self, partitions: Iterable[int]) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.consumer = KafkaConsumer(bootstrap_servers=self.server, auto_offset_reset="earliest")
        self.consumer.assign([TopicPartition(self.topic, number) for number in partitions])

    def poll(self) -> int:
        return self.look_at(self.consumer.poll(timeout_ms=_WAIT_MS))

    def close(self) -> None:
        self.consumer.close()


class Confluent(_Seen):
    """confluent-kafka. It cannot do without the name of a group. By itself it would stop fetching for a second whenever
    its queue of 100,000 messages is full, and be found asleep here."""

    def start(self, partitions: Iterable[int]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        said = {"bootstrap.servers": self.server, "group.id": "bench", "enable.auto.commit": False}
        said["fetch.queue.backoff.ms"] = 10
        self.consumer = Consumer(said)
        self.consumer.assign([TopicPartition(self.topic, number, 0) for number in partitions])

    def poll(self) -> int:
        """It waits until it has as many as it was asked for."""
        return self.look_at_messages(self.consumer.consume(_MANY, timeout=_WAIT_MS / 1000))

    def poll_one(self) -> int:
        message = self.consumer.poll(_WAIT_MS / 1000)
        return self.look_at_messages([] if message is None else [message])

    def look_at_messages(self, messages: list[Any]) -> int:
        size = offsets = 0
        for message in messages:
            assert message.error() is None, message.error()
            offsets += message.offset()
            size += len(message.value())
        self.count += len(messages)
        self.size += size
        self.offsets += offsets
        return len(messages)

    def close(self) -> None:
        self.consumer.close()


LIBRARIES: dict[str, Any] = {
    "ottla": Ottla,
    "ottla-async": OttlaAsync,
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
    "confluent": Confluent,
}
