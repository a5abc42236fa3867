"""Settings of topics, brokers and loggers: described, replaced, changed one by one, listed, and what is refused."""

from typing import Any

from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from ottla.storage.config import TopicConfig
from tests.interop.dialogues.talk import Talk

UNKNOWN, TOPIC, BROKER, LOGGER, METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE = "1"


def _describe(kind: int, name: str, keys: list[str] | None, **more: bool) -> DescribeConfigsRequest:
    wanted = DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[wanted], **more)


async def describe(talk: Talk) -> None:
    await talk.create("described", configs={"cleanup.policy": "compact", "retention.ms": "7"})
    for label, kind, name, keys in (
        ("topic", TOPIC, "described", None),
        ("no keys", TOPIC, "described", []),
        ("some keys", TOPIC, "described", ["retention.ms", "nothing", "cleanup.policy", "segment.bytes"]),
        ("a key twice", TOPIC, "described", ["retention.ms", "retention.ms"]),
        ("unknown topic", TOPIC, "nobody", None),
        ("bad topic", TOPIC, "a/b", None),
        ("no topic", TOPIC, "", None),
        ("broker", BROKER, NODE, None),
        ("some of broker", BROKER, NODE, ["log.retention.ms", "log.segment.bytes", "num.io.threads", "x"]),
        ("all brokers", BROKER, "", None),
        ("another broker", BROKER, "7", None),
        ("bad broker", BROKER, "one", None),
        ("negative broker", BROKER, "-1", None),
        ("logger of another", LOGGER, "7", None),
        ("logger of nobody", LOGGER, "", None),
        ("bad logger", LOGGER, "x", None),
        ("metrics", METRICS, "m", None),
        ("metrics of nobody", METRICS, "", None),
        ("group", GROUP, "g", None),
        ("group of nobody", GROUP, "", None),
        ("unknown type", UNKNOWN, "x", None),
        ("type 3", 3, "x", None),
        ("type 64", 64, "x", None),
    ):
        await talk.ask(label, _describe(kind, name, keys))
    for label, kind, name in (("topic", TOPIC, "described"), ("broker", BROKER, NODE)):
        request = _describe(kind, name, None, include_synonyms=True)
        await talk.ask(f"{label} synonyms", request, since=1)
    wanted = DescribeConfigsRequest.Resource(
        resource_type=TOPIC, resource_name="described", configuration_keys=["retention.ms"]
    )
    await talk.ask("twice", DescribeConfigsRequest(resources=[wanted, wanted]))
    await talk.ask("nothing", DescribeConfigsRequest(resources=[]))


async def replace(talk: Talk) -> None:
    """AlterConfigs."""
    await talk.create("replaced", configs={"cleanup.policy": "compact"})
    resource = AlterConfigsRequest.Resource

    def one(kind: int, name: str, *settings: tuple[str, str | None]) -> AlterConfigsRequest.Resource:
        configs = [resource.Setting(name=key, value=value) for key, value in settings]
        return resource(resource_type=kind, resource_name=name, configs=configs)

    cases = {
        "usual": [one(TOPIC, "replaced", ("retention.ms", "100"))],
        "nothing": [],
        "no settings": [one(TOPIC, "replaced")],
        "unknown key": [one(TOPIC, "replaced", ("nothing", "1"))],
        "bad value": [one(TOPIC, "replaced", ("retention.ms", "soon"))],
        "null": [one(TOPIC, "replaced", ("retention.ms", None))],
        "key twice": [one(TOPIC, "replaced", ("retention.ms", "1"), ("retention.ms", "2"))],
        "unknown topic": [one(TOPIC, "nobody", ("retention.ms", "1"))],
        "bad topic": [one(TOPIC, "a/b", ("retention.ms", "1"))],
        "no topic": [one(TOPIC, "", ("retention.ms", "1"))],
        "one good, one bad": [
            one(TOPIC, "replaced", ("retention.ms", "1")),
            one(TOPIC, "nobody", ("retention.ms", "1")),
        ],
        "broker": [one(BROKER, NODE, ("log.cleaner.threads", "2"))],
        "all brokers": [one(BROKER, "", ("log.retention.ms", "99000"))],
        "read-only key": [one(BROKER, NODE, ("num.partitions", "2"))],
        "unknown key of broker": [one(BROKER, NODE, ("nothing", "2"))],
        "another broker": [one(BROKER, "7", ("log.retention.ms", "99000"))],
        "bad broker": [one(BROKER, "one", ("log.retention.ms", "99000"))],
        "logger": [one(LOGGER, NODE, ("root", "INFO"))],
        "unknown type": [one(UNKNOWN, "x", ("a", "1"))],
        "type 3": [one(3, "x", ("a", "1"))],
        "metrics": [one(METRICS, "m", ("interval.ms", "5000"))],
        "bad metrics": [one(METRICS, "m", ("interval.ms", "x"))],
        "group": [one(GROUP, "g", ("consumer.session.timeout.ms", "50000"))],
    }
    for label, resources in cases.items():
        await talk.ask(
            f"{label}, only validated", AlterConfigsRequest(resources=resources, validate_only=True)
        )
    for label in ("no settings", "unknown key", "bad value", "null", "usual"):
        await talk.ask(label, AlterConfigsRequest(resources=cases[label], validate_only=False))
    await _until(talk, "replaced", "retention.ms", "100")
    await talk.ask("after replacing", _describe(TOPIC, "replaced", ["retention.ms", "cleanup.policy"]))


CHANGES: dict[str, tuple[Any, ...]] = {
    "set": (("retention.ms", SET, "5"),),
    "append": (("cleanup.policy", APPEND, "delete"),),
    "append what is there": (("cleanup.policy", APPEND, "compact"),),
    "append what cannot be": (("cleanup.policy", APPEND, "burn"),),
    "append several": (("cleanup.policy", APPEND, "delete,compact"),),
    "append nothing": (("cleanup.policy", APPEND, ""),),
    "subtract": (("cleanup.policy", SUBTRACT, "compact"),),
    "subtract what is not there": (("cleanup.policy", SUBTRACT, "delete"),),
    "append to a number": (("retention.ms", APPEND, "5"),),
    "subtract from a word": (("compression.type", SUBTRACT, "gzip"),),
    "append to unknown": (("nothing", APPEND, "5"),),
    "append null": (("cleanup.policy", APPEND, None),),
    "append to an empty list": (("leader.replication.throttled.replicas", APPEND, "0:1"),),
    "append nonsense": (("leader.replication.throttled.replicas", APPEND, "zero"),),
    "key twice": (("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
    "key set and deleted": (("retention.ms", SET, "5"), ("retention.ms", DELETE, None)),
    "set to null": (("retention.ms", SET, None),),
    "set to nothing": (("retention.ms", SET, ""),),
    "delete": (("retention.ms", DELETE, None),),
    "delete with a value": (("retention.ms", DELETE, "5"),),
    "delete unknown": (("nothing", DELETE, None),),
    "set unknown": (("nothing", SET, "5"),),
    "bad number": (("retention.ms", SET, "soon"),),
    "fraction": (("retention.ms", SET, "1.5"),),
    "too large": (("segment.bytes", SET, str(2**31)),),
    "below the least": (("segment.bytes", SET, "1"),),
    "bad word": (("message.timestamp.type", SET, "Never"),),
    "bad flag": (("preallocate", SET, "maybe"),),
    "flag in capitals": (("preallocate", SET, "TRUE"),),
    "bad ratio": (("min.cleanable.dirty.ratio", SET, "2"),),
    "list with a space": (("cleanup.policy", SET, "compact, delete"),),
    "list with a double": (("cleanup.policy", SET, "compact,compact"),),
    "lags that cross": (("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "5")),
    "operation 9": (("retention.ms", 9, "5"),),
    "nothing": (),
    "two keys, one bad": (("retention.ms", SET, "5"), ("nothing", SET, "5")),
    "no key": (("", SET, "5"),),
}


def _one(
    kind: int, name: str, *changes: tuple[str, int, str | None]
) -> IncrementalAlterConfigsRequest.Resource:
    resource = IncrementalAlterConfigsRequest.Resource
    settings = [resource.Setting(name=key, config_operation=how, value=to) for key, how, to in changes]
    return resource(resource_type=kind, resource_name=name, configs=settings)


async def change(talk: Talk) -> None:
    """IncrementalAlterConfigs."""
    await talk.create("changed", configs={"cleanup.policy": "compact"})
    ask = IncrementalAlterConfigsRequest
    for label, changes in CHANGES.items():
        await talk.ask(label, ask(resources=[_one(TOPIC, "changed", *changes)], validate_only=True))
    for label, kind, name, changed in (
        ("unknown topic", TOPIC, "nobody", ("retention.ms", SET, "5")),
        ("bad topic", TOPIC, "a/b", ("retention.ms", SET, "5")),
        ("no topic", TOPIC, "", ("retention.ms", SET, "5")),
        ("broker", BROKER, NODE, ("log.cleaner.threads", SET, "2")),
        ("all brokers", BROKER, "", ("log.retention.ms", SET, "99000")),
        ("read-only key", BROKER, NODE, ("num.partitions", SET, "2")),
        ("delete a read-only key", BROKER, NODE, ("num.partitions", DELETE, None)),
        ("unknown key of broker", BROKER, NODE, ("nothing", SET, "2")),
        ("delete unknown of broker", BROKER, NODE, ("nothing", DELETE, None)),
        ("bad value of broker", BROKER, NODE, ("log.cleaner.threads", SET, "x")),
        ("key per broker for all", BROKER, "", ("listeners", SET, "PLAINTEXT://:1")),
        ("key of all for one", BROKER, NODE, ("log.retention.ms", SET, "99000")),
        ("append for broker", BROKER, NODE, ("log.cleanup.policy", APPEND, "compact")),
        ("another broker", BROKER, "7", ("log.retention.ms", SET, "99000")),
        ("bad broker", BROKER, "one", ("log.retention.ms", SET, "99000")),
        ("logger", LOGGER, NODE, ("no.such.logger", SET, "INFO")),
        ("bad level", LOGGER, NODE, ("root", SET, "LOUD")),
        ("append to logger", LOGGER, NODE, ("root", APPEND, "INFO")),
        ("logger of another", LOGGER, "7", ("root", SET, "INFO")),
        ("logger of nobody", LOGGER, "", ("root", SET, "INFO")),
        ("delete root", LOGGER, NODE, ("root", DELETE, None)),
        ("unknown type", UNKNOWN, "x", ("a", SET, "1")),
        ("type 3", 3, "x", ("a", SET, "1")),
        ("metrics", METRICS, "m", ("interval.ms", SET, "5000")),
        ("metrics of nobody", METRICS, "", ("interval.ms", SET, "5000")),
        ("bad metrics", METRICS, "m", ("interval.ms", SET, "x")),
        ("unknown key of metrics", METRICS, "m", ("nothing", SET, "x")),
        ("group", GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        ("group of nobody", GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
        ("bad group", GROUP, "g", ("consumer.session.timeout.ms", SET, "x")),
        ("unknown key of group", GROUP, "g", ("nothing", SET, "x")),
    ):
        await talk.ask(label, ask(resources=[_one(kind, name, changed)], validate_only=True))
    twice = [_one(TOPIC, "changed", ("retention.ms", SET, "5"))] * 2
    await talk.ask("resource twice", ask(resources=twice, validate_only=True))
    await talk.ask("no resource", ask(resources=[], validate_only=True))
    await _change_for_real(talk)


THROTTLED = "leader.replication.throttled.replicas"
STEPS: tuple[tuple[str, int, str | None, str], ...] = (
    ("cleanup.policy", APPEND, "delete", "compact,delete"),
    ("cleanup.policy", SUBTRACT, "compact", "delete"),
    ("segment.ms", SET, "77", "77"),
    ("segment.ms", DELETE, None, "604800000"),
    (THROTTLED, APPEND, "0:1", "0:1"),
    (THROTTLED, APPEND, "0:2", "0:1,0:2"),
    (THROTTLED, SUBTRACT, "0:1,0:2", ""),
)
"""Changes, one after the other, and what is there after each."""


async def _change_for_real(talk: Talk) -> None:
    for number, (key, how, value, expected) in enumerate(STEPS):
        changed = _one(TOPIC, "changed", (key, how, value))
        request = IncrementalAlterConfigsRequest(resources=[changed], validate_only=False)
        await talk.ask(f"step {number}", request, last=True)
        await _until(talk, "changed", key, expected)
        shown = _describe(TOPIC, "changed", [key], include_synonyms=True)
        await talk.ask(f"after step {number}", shown, since=1, last=True)


async def _until(talk: Talk, topic: str, key: str, value: str) -> None:
    """Kafka's controller answers before its broker has heard of a change."""

    def is_there(answer: DescribeConfigsResponse) -> bool:
        return answer.results[0].configs[0].value == value

    await talk.until(is_there, _describe(TOPIC, topic, [key]))


VALUES = ("-3", "-2", "-1", "0", "1", "13", "14", "100", "2147483647", "2147483648", "9223372036854775807")
VALUES += (
    "9223372036854775808",
    "-9223372036854775809",
    "",
    "abc",
    "true",
    "False",
    "0.5",
    "1.5",
    "1e3",
    "+5",
)
VALUES += ("0x10", " 7", "none", "gzip", "*", "0:1", "delete,compact", "compact,,delete", "LogAppendTime")
VALUES += ("1 MiB", "5m", "\u0661")


async def values(talk: Talk) -> None:
    """Every setting of a topic with values of all kinds: which are taken?"""
    await talk.create("valued")
    for key in TopicConfig.keys:
        for value in VALUES:
            resources = [_one(TOPIC, "valued", (key, SET, value))]
            request = IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
            await talk.ask(f"{key} is {value!r}", request, last=True)


async def listed(talk: Talk) -> None:
    """ListConfigResources, of what there is one or none of."""
    ask = ListConfigResourcesRequest
    for label, kinds in {
        "brokers": [BROKER],
        "loggers": [LOGGER],
        "metrics": [METRICS],
        "groups": [GROUP],
        "twice": [BROKER, BROKER],
        "unknown": [UNKNOWN],
        "3": [3],
        "known and unknown": [BROKER, 3],
    }.items():
        await talk.ask(label, ask(resource_types=kinds), since=1)
    await talk.ask("version 0", ask(), until=0)


ALL = (describe, replace, change, values, listed)
