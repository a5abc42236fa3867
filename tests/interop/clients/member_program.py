"""A member of a consumer group as a program: `python -m tests.interop.clients.member_program <client> <broker>`.

The client's own consumer does the work; what differs between the clients of Python is in the four classes below.
"""

import asyncio
import importlib
import json
import logging
import queue
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

Place = tuple[str, int]
Row = tuple[str, int, int, str]
POLL_SECONDS = 0.1
_ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}
"""In kafka-python and in aiokafka, which began as a copy of it: the module, and the class."""


class Reader(Protocol):
    """What the loop needs of a consumer. `rebalances` counts how often it was given partitions."""

    rebalances: int

    def assignment(self) -> Iterable[Place]: ...
    def poll(self) -> list[Row]: ...
    def commit(self, offsets: Mapping[Place, int]) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka. Settings have Kafka's names already."""

    def __init__(self, bootstrap_server: str, spec: Mapping[str, Any]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._place = TopicPartition
        self.rebalances = 0
        common = {
            "bootstrap.servers": bootstrap_server,
            "group.id": spec["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 3,
        }
        self._consumer = Consumer({**common, **spec["settings"]})
        wanted = spec["topics"] if spec["pattern"] is None else [f"^{spec['pattern']}"]
        self._consumer.subscribe(wanted, on_assign=self._on_assign)

    def _on_assign(self, _consumer: Any, _partitions: Any) -> None:
        self.rebalances += 1

    def assignment(self) -> Iterable[Place]:
        return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def poll(self) -> list[Row]:
        found = []
        for message in self._consumer.consume(100, timeout=POLL_SECONDS):
            if message.error() is not None:
                tell(failed=str(message.error()))
            else:
                found.append(
                    (message.topic(), message.partition(), message.offset(), message.value().decode())
                )
        return found

    def commit(self, offsets: Mapping[Place, int]) -> None:
        places = [self._place(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._consumer.commit(offsets=places, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    def __init__(self, bootstrap_server: str, spec: Mapping[str, Any]) -> None:
        import kafka

        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_server,
            group_id=spec["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **_pythonic("kafka", spec["settings"]),
        )
        self._place, self._offset = kafka.TopicPartition, kafka.OffsetAndMetadata
        member = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                """Nothing to do: what is to be committed has been."""

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.rebalances += 1

        self.rebalances = 0
        self._consumer.subscribe(spec["topics"], listener=Listener())
        # One that leads before it knows its topics assigns nothing, for good; one that learns of them while it joins
        # joins again, and may then be idle for ever.
        for topic in spec["topics"]:
            self._consumer.partitions_for_topic(topic)

    def assignment(self) -> Iterable[Place]:
        return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def poll(self) -> list[Row]:
        found = self._consumer.poll(int(POLL_SECONDS * 1000))
        return [
            (each.topic, each.partition, each.offset, each.value.decode())
            for messages in found.values()
            for each in messages
        ]

    def commit(self, offsets: Mapping[Place, int]) -> None:
        self._consumer.commit(
            {self._place(*place): self._offset(offset, "", -1) for place, offset in offsets.items()}
        )

    def close(self) -> None:
        self._consumer.close()


class AioKafka:
    """Every call runs the loop for as long as it takes; heartbeats run meanwhile, and calls follow one another."""

    def __init__(self, bootstrap_server: str, spec: Mapping[str, Any]) -> None:
        import aiokafka

        self._loop = asyncio.new_event_loop()
        self._place = aiokafka.TopicPartition
        self.rebalances = 0
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                """Nothing to do: what is to be committed has been."""

            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.rebalances += 1

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap_server,
                group_id=spec["group"],
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                **_pythonic("aiokafka", spec["settings"]),
            )
            await consumer.start()
            consumer.subscribe(spec["topics"], listener=Listener())
            return consumer

        self._consumer = self._loop.run_until_complete(start())

    def assignment(self) -> Iterable[Place]:
        return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def poll(self) -> list[Row]:
        found = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000)))
        return [
            (each.topic, each.partition, each.offset, each.value.decode())
            for messages in found.values()
            for each in messages
        ]

    def commit(self, offsets: Mapping[Place, int]) -> None:
        wanted = {self._place(*place): offset for place, offset in offsets.items()}
        self._loop.run_until_complete(self._consumer.commit(wanted))

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())


class Ottla:
    """Our own client. Settings need but underscores, which it does not insist on."""

    def __init__(self, bootstrap_server: str, spec: Mapping[str, Any]) -> None:
        from ottla.client import Consumer, TopicPartition
        from ottla.client.consumer.subscription_pattern import SubscriptionPattern
        from ottla.client.listener import RebalanceListener

        self._place = TopicPartition
        self.rebalances = 0
        self._consumer = Consumer(
            bootstrap_servers=bootstrap_server,
            group_id=spec["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
            **spec["settings"],
        )
        member = self

        class Listener(RebalanceListener):
            def on_partitions_assigned(self, assigned: Any) -> None:
                member.rebalances += 1

        if spec["pattern"] is None:
            self._consumer.subscribe(spec["topics"], listener=Listener())
        else:
            self._consumer.subscribe(pattern=SubscriptionPattern(spec["pattern"]), listener=Listener())

    def assignment(self) -> Iterable[Place]:
        return list(self._consumer.assignment())

    def poll(self) -> list[Row]:
        try:
            found = self._consumer.poll(POLL_SECONDS * 1000)
        except Exception as error:  # what it raises is for good
            tell(failed=repr(error))
            raise
        return [
            (each.topic, each.partition, each.offset, each.value.decode())
            for messages in found.values()
            for each in messages
        ]

    def commit(self, offsets: Mapping[Place, int]) -> None:
        self._consumer.commit({self._place(*place): offset for place, offset in offsets.items()})

    def close(self) -> None:
        self._consumer.close()


def _pythonic(package: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Settings as these two clients call them."""
    found: dict[str, Any] = {key.replace(".", "_"): value for key, value in settings.items()}
    for key in ("session_timeout_ms", "heartbeat_interval_ms"):
        found[key] = int(found[key])
    module, cls = _ASSIGNORS[found.pop("partition_assignment_strategy", "range")]
    assignor = getattr(importlib.import_module(f"{package}.coordinator.assignors.{module}"), cls)
    return {**found, "partition_assignment_strategy": [assignor]}


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def listen(commands: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put({"verb": "close"})


def run(reader: Reader, commands: "queue.Queue[dict[str, Any]]") -> None:
    """Read, and do what is asked in between, until it is to close."""
    shown: tuple[int, list[Place]] = (0, [])
    positions: dict[Place, int] = {}
    while True:
        rows = reader.poll()
        has = sorted(reader.assignment())
        if (reader.rebalances, has) != shown:
            shown = reader.rebalances, has
            tell(assigned=has, rebalances=reader.rebalances)
        if rows:
            tell(records=rows)
        for topic, partition, offset, _ in rows:
            positions[topic, partition] = offset + 1
        if commands.empty():
            continue
        if commands.get()["verb"] == "close":
            break
        reader.commit({place: offset for place, offset in positions.items() if place in has})
        tell(committed=True)
    reader.close()


def main() -> None:
    warnings.simplefilter("ignore")  # what a client's code looks like is its own affair
    logging.basicConfig(level=logging.WARNING)
    name, bootstrap_server = sys.argv[1:]
    commands: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=listen, args=(commands,), daemon=True).start()
    readers = {
        "confluent-kafka": Librdkafka,
        "kafka-python": KafkaPython,
        "aiokafka": AioKafka,
        "ottla": Ottla,
    }
    run(readers[name](bootstrap_server, commands.get()), commands)


if __name__ == "__main__":
    main()
