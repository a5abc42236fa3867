"""Producers of several libraries behind the same few methods, each used as its own documentation has it.

Every producer waits for all replicas and is idempotent, whatever its defaults are. `settings` have Kafka's names; what
they do not mention stays as the library has it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Pair = tuple[bytes | None, bytes]
_WAIT_S = 60


class Ottla:
    """Ours, for programs without a loop."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from ottla.client import Producer

        self.topic = given["topic"]
        self.producer = Producer(bootstrap_servers=given["server"], **given["settings"])

    def first(self, partition: int) -> None:
        self.producer.send(self.topic, b"first", partition=partition).get(_WAIT_S)

    def produce(self, pairs: Iterable[Pair]) -> None:
        topic, send = self.topic, self.producer.send
        for key, value in pairs:
            send(topic, value, key)
        self.producer.flush()

    def one(self, value: bytes) -> None:
        self.producer.send(self.topic, value, partition=0).get(_WAIT_S)

    def hand_in(self, value: bytes) -> None:
        self.producer.send(self.topic, value, partition=0)

    def close(self) -> None:
        self.producer.close()


class OttlaAsync:
    """Ours, on a loop."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from ottla.client import AsyncProducer

        self.topic = given["topic"]
        self.producer = AsyncProducer(bootstrap_servers=given["server"], **given["settings"])

    async def first(self, partition: int) -> None:
        await self.producer.send_and_wait(self.topic, b"first", partition=partition)

    async def produce(self, pairs: Iterable[Pair]) -> None:
        topic, send = self.topic, self.producer.send
        for key, value in pairs:
            await send(topic, value, key)
        await self.producer.flush()

    async def one(self, value: bytes) -> None:
        await self.producer.send_and_wait(self.topic, value, partition=0)

    async def hand_in(self, value: bytes) -> None:
        await self.producer.send(self.topic, value, partition=0)

    async def close(self) -> None:
        await self.producer.close()


class AioKafka:
    """aiokafka. Its defaults are acks=1 without idempotence, batches of 16 KiB, no lingering."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from aiokafka import AIOKafkaProducer

        self.topic = given["topic"]
        settings = {name.replace(".", "_"): value for name, value in given["settings"].items()}
        if "batch_size" in settings:
            settings["max_batch_size"] = settings.pop("batch_size")
        self.producer = AIOKafkaProducer(
            bootstrap_servers=given["server"], enable_idempotence=True, **settings
        )
        self.is_started = False

    async def first(self, partition: int) -> None:
        if not self.is_started:
            self.is_started = True
            await self.producer.start()
        await self.producer.send_and_wait(self.topic, b"first", partition=partition)

    async def produce(self, pairs: Iterable[Pair]) -> None:
        topic, send = self.topic, self.producer.send
        for key, value in pairs:
            await send(topic, value, key)
        await self.producer.flush()

    async def one(self, value: bytes) -> None:
        await self.producer.send_and_wait(self.topic, value, partition=0)

    async def hand_in(self, value: bytes) -> None:
        await self.producer.send(self.topic, value, partition=0)

    async def close(self) -> None:
        await self.producer.stop()


class KafkaPython:
    """kafka-python. Its defaults are acks=all with idempotence, batches of 16 KiB, no lingering."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from kafka import KafkaProducer

        self.topic = given["topic"]
        settings = {name.replace(".", "_"): value for name, value in given["settings"].items()}
        self.producer = KafkaProducer(bootstrap_servers=given["server"], **settings)

    def first(self, partition: int) -> None:
        self.producer.send(self.topic, b"first", partition=partition).get(_WAIT_S)

    def produce(self, pairs: Iterable[Pair]) -> None:
        topic, send = self.topic, self.producer.send
        for key, value in pairs:
            send(topic, value, key)
        self.producer.flush()

    def one(self, value: bytes) -> None:
        self.producer.send(self.topic, value, partition=0).get(_WAIT_S)

    def hand_in(self, value: bytes) -> None:
        self.producer.send(self.topic, value, partition=0)

    def close(self) -> None:
        self.producer.close()


class Confluent:
    """confluent-kafka. Its defaults are acks=all without idempotence, batches of up to 1 MB, 5 ms of lingering."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from confluent_kafka import Producer

        self.topic = given["topic"]
        said = {"bootstrap.servers": given["server"], "enable.idempotence": True, **given["settings"]}
        self.producer = Producer(said)

    def first(self, partition: int) -> None:
        self.producer.produce(self.topic, b"first", partition=partition)
        assert self.producer.flush(_WAIT_S) == 0, "the first record did not arrive"

    def produce(self, pairs: Iterable[Pair]) -> None:
        topic, send, poll = self.topic, self.producer.produce, self.producer.poll
        for key, value in pairs:
            while True:
                try:
                    send(topic, value, key)
                    break
                except BufferError:  # its queue is full
                    poll(0.01)
        assert self.producer.flush(_WAIT_S) == 0, "not everything was sent"

    def one(self, value: bytes) -> None:
        self.producer.produce(self.topic, value, partition=0)
        self.producer.flush(_WAIT_S)

    def hand_in(self, value: bytes) -> None:
        self.producer.produce(self.topic, value, partition=0)
        self.producer.poll(0)

    def close(self) -> None:
        self.producer.flush(_WAIT_S)


LIBRARIES: dict[str, Any] = {
    "ottla": Ottla,
    "ottla-async": OttlaAsync,
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
    "confluent": Confluent,
}
