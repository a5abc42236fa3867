"""The clients that every Kafka broker meets, and what each of them cannot do with any broker."""

import importlib
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from tests.interop.clients.client import Client

_NO_ADMIN = "the tool has no such command"
_NO_CALL = "the client has no such call"
_NO_MEMBERS = "the tool commits when it likes"
_NO_STEPS = "the tool makes one transaction of its input, and commits it"
_CLASSIC_ONLY = {
    "Consumer protocol": "the client speaks the classic protocol only",
    "Topics by a pattern that the broker matches": "the client speaks the classic protocol only",
}
_OLD = {"Message sets of Kafka 0.8 to 0.10": "the client sends what the broker prefers"}

_PREVIEW = dict.fromkeys(_CLASSIC_ONLY, "a preview in this client")


class Entry(NamedTuple):
    """How to get a client, and for each feature that it lacks, why."""

    module: str
    cls: str
    arguments: tuple[str, ...]
    lacks: Mapping[str, str]
    about: str


CLIENTS: dict[str, Entry] = {
    "confluent-kafka": Entry(
        "confluent",
        "ConfluentKafka",
        (),
        {"Sizes of log directories": _NO_CALL, "Producers of a partition": _NO_CALL},
        "PyPI; stands for all programs on librdkafka",
    ),
    "kafka-python": Entry(
        "kafka_python",
        "KafkaPython",
        (),
        {**_OLD, **_CLASSIC_ONLY, "Null headers": "the client refuses them"},
        "PyPI",
    ),
    "aiokafka": Entry(
        "aio_kafka",
        "AioKafka",
        (),
        {
            **_OLD,
            **_CLASSIC_ONLY,
            "Cooperative rebalancing": "the client has no such assignor",
            "Offset of the newest record": _NO_CALL,
            "Sizes of log directories": _NO_CALL,
            "Producers of a partition": _NO_CALL,
        },
        "PyPI",
    ),
    "kcat": Entry(
        "kcat",
        "Kcat",
        (),
        {
            "Timestamps": "the tool cannot set them",
            "Null headers": "the tool cannot send them",
            "Offset of the newest record": _NO_ADMIN,
            "Members come, go and die": _NO_MEMBERS,
            "Cooperative rebalancing": _NO_MEMBERS,
            "Static members": _NO_MEMBERS,
            "Consumer protocol": "the library is older than the protocol",
            "Topics by a pattern that the broker matches": "the library is older than the protocol",
            "Several partitions in a transaction": _NO_STEPS,
            "Offsets in a transaction": _NO_STEPS,
            "Zombies are fenced": _NO_STEPS,
            "Transactions time out": _NO_STEPS,
            "read_committed waits for open transactions": _NO_MEMBERS,
            **dict.fromkeys(
                (
                    "Create topics with configs",
                    "Errors by their number",
                    "Read configs",
                    "Alter configs",
                    "Add partitions",
                    "Delete records",
                    "Delete topics",
                    "Sizes of log directories",
                    "Producers of a partition",
                ),
                _NO_ADMIN,
            ),
        },
        "Debian; an older librdkafka",
    ),
    "kafkajs": Entry(
        "kafkajs",
        "KafkaJs",
        (),
        {
            **_OLD,
            **_CLASSIC_ONLY,
            "Cooperative rebalancing": "the client has no such assignor",
            "Static members": "the client has no such setting",
            "Null headers": "the client cannot send them",
            "Goes on after the broker was killed": "only its group consumer connects again",
            "Offset of the newest record": _NO_CALL,
            "Sizes of log directories": _NO_CALL,
            "Producers of a partition": _NO_CALL,
        },
        "npm; consumes through the parts of its consumer, which has no mode without a group",
    ),
    "java": Entry("java", "JavaClient", ("4",), _OLD, "Maven; Apache's own"),
    "java-3.9": Entry("java", "JavaClient", ("3",), {**_OLD, **_PREVIEW}, "Maven; the one that Spark uses"),
    "ottla": Entry("ottla_client", "OttlaClient", (), _OLD, "Ottla's own, `ottla.client`"),
}


def connect(name: str, bootstrap_server: str) -> Client:
    """A client that talks to this broker, installed if need be. Raises `Unavailable`."""
    entry = CLIENTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a client's code looks like is its own affair
        module = importlib.import_module(f"tests.interop.clients.{entry.module}")
    getattr(module, "prepare", lambda *_: None)(*entry.arguments)
    client: Client = getattr(module, entry.cls)(bootstrap_server, *entry.arguments)
    return client
