"""Apache Kafka and Ottla are asked the same, and answer the same: what is refused, with which code, and what is read.

Where they differ on purpose, `DIFFERENT` says why, and the test fails when they no longer do.
"""

import asyncio
import os
import re
import struct

import pytest

from ottla.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from ottla.protocol.messages.metadata import Cursor, DescribeTopicPartitionsRequest, MetadataRequest
from ottla.protocol.messages.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from ottla.protocol.messages.topics import DeleteTopicsRequest
from ottla.protocol.messages.transactions import DescribeProducersRequest, InitProducerIdRequest
from ottla.protocol.schema import NULL_UUID
from ottla.records.batch import ATTRIBUTES_AT, CRC_AT
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.record import Record
from tests.interop.clients.client import NOW
from tests.interop.conversation import NO_TOPIC, Conversation, batch
from tests.oracles import apache_kafka

COORDINATOR_LOAD_IN_PROGRESS = 14
DIFFERENT = {
    r"produce v\d+: cut short": "a batch without its end is damaged, which a producer may cure by another try",
    r"produce v\d+: bytes behind": "what is no batch was not meant to be stored",
    r"produce v\d+: first offset 9": "offsets are given by the log, whatever stood there",
    r"produce v\d+: codec 5": "there is a code for it, Apache answers UNKNOWN_SERVER_ERROR",
    r"produce v\d+: not gzip": "nothing opens it on the way in, unless the topic asks for that",
    r"produce v\d+: broker's time": "the time is the broker's to set",
    r"produce v\d+: in no transaction": "there are no transactions yet, Apache says that the id is not allowed",
    r"idempotent: epoch -1": "it is no epoch at all rather than an old one",
    r"fetch v\d+: isolation 2": "Apache fails with UNKNOWN_SERVER_ERROR",
    r"fetch v\d+: twice": "Apache answers once and a half",
    r"describe partitions: (unknown|bad name)": "Apache tells what one may do with a topic that is not there",
    r"list offsets v\d+: twice": "Apache answers once",
    r"configs: operation 9": "there is a code for it, Apache answers UNKNOWN_SERVER_ERROR",
    r"configs: no name": "the name is at fault, not the request",
}


def changed(data, at, layout, value, *, is_signed=True):
    """The batch with a number in its header changed, and the checksum right all the same, or not."""
    altered = bytearray(data)
    struct.pack_into(layout, altered, at, value)
    if is_signed:
        struct.pack_into(">I", altered, CRC_AT, crc32c(bytes(altered[ATTRIBUTES_AT:])))
    return bytes(altered)


def odd_batches():
    good = batch()
    keyless = [Record(0, NOW, b"k", b"v"), Record(1, NOW, None, b"v")]
    return {
        **{f"codec {codec.name}": batch(codec=codec) for codec in Codec},
        "wrong checksum": changed(good, CRC_AT, ">I", 5, is_signed=False),
        "magic 3": changed(good, 16, ">b", 3, is_signed=False),
        "magic 1": changed(good, 16, ">b", 1, is_signed=False),
        "no bytes": b"",
        "two batches": good + good,
        "cut short": good[:-3],
        "bytes behind": good + bytes(3),
        **{f"count {count}": changed(good, 57, ">i", count) for count in (3, 0, -1)},
        "last delta 5": changed(good, 23, ">i", 5),
        "first offset 9": changed(good, 0, ">q", 9, is_signed=False),
        "leader epoch 9": changed(good, 12, ">i", 9, is_signed=False),
        "codec 5": changed(good, ATTRIBUTES_AT, ">h", 5),
        "not gzip": changed(good, ATTRIBUTES_AT, ">h", 1),
        "broker's time": changed(good, ATTRIBUTES_AT, ">h", 8),
        "control batch": changed(good, ATTRIBUTES_AT, ">h", 32),
        "in no transaction": changed(good, ATTRIBUTES_AT, ">h", 16),
        "no time": build([Record(0, -1, b"k", b"v")]),
        "no keys": build(keyless),
        "no keys in gzip": build(keyless, codec=Codec.GZIP),
    }


async def produce(talk):
    """Batches of all kinds, to a plain topic and to a compacted one."""
    await talk.create("plain")
    await talk.create("compacted", configs={"cleanup.policy": "compact"})
    for version in range(3, 14):
        await talk.ask(f"produce v{version}: usual", talk.produce("plain", batch()), version)
    for version in (7, 8, 9, 13):
        for label, data in odd_batches().items():
            topic = "compacted" if label.startswith("no keys") else "plain"
            answer = await talk.ask(f"produce v{version}: {label}", talk.produce(topic, data), version)
            _keep_the_verdict(talk, f"produce v{version}: {label}", answer)
        for acks in (1, 2, -2):
            request = talk.produce("compacted", batch(), acks=acks)
            await talk.ask(f"produce v{version}: acks {acks}", request, version)
        for topic, partition in (("nobody", 0), ("plain", 5), ("plain", -1)):
            request = talk.produce(topic, batch(), partition=partition)
            await talk.ask(f"produce v{version}: {topic} {partition}", request, version)


def _keep_the_verdict(talk, label, answer):
    """Only the error code: which batches came before, and so the offset, is not the same."""
    if answer is not None:
        talk.answers[label] = answer.responses[0].partition_responses[0].error_code


async def idempotent(talk):
    """Sequence numbers and epochs of one producer, in order and out of it."""
    await talk.create("numbered")
    asked = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    while (given := await talk.peer.send(asked)).error_code == COORDINATOR_LOAD_IN_PROGRESS:
        await asyncio.sleep(0.05)
    steps = [(0, 0), (0, 0), (0, 2), (0, 4), (0, 6), (0, 8), (0, 10), (0, 2), (0, 0), (0, 20), (0, 11)]
    steps += [(1, 0), (0, 12), (2, 5), (1, 2), (1, -1), (-1, 0)]
    for number, (epoch, sequence) in enumerate(steps):
        label = f"idempotent: epoch {epoch} sequence {sequence}, step {number}"
        data = batch(producer_id=given.producer_id, producer_epoch=epoch, base_sequence=sequence)
        await _numbered(talk, label, data)
    for other, sequence, count in ((5000, 0, 2), (6000, 7, 2), (7000, 2**31 - 2, 4), (7000, 2, 2)):
        who = {"producer_id": given.producer_id + other, "producer_epoch": 0}
        await _numbered(talk, f"idempotent: {other} {sequence}", batch(count, base_sequence=sequence, **who))


async def _numbered(talk, label, data):
    answer = await talk.ask(label, talk.produce("numbered", data))
    part = answer.responses[0].partition_responses[0]
    talk.answers[label] = part.error_code, part.base_offset


async def fetch(talk):
    await talk.create("read")
    await talk.create("other")
    for topic in ("read", "read", "read", "other"):
        await talk.peer.send(talk.produce(topic, batch(3)))
    for version in range(4, 19):
        name = f"fetch v{version}"
        for offset in (0, 4, 8, 9, 10, -1):
            await talk.ask(f"{name}: at {offset}", talk.fetch([("read", 0, offset)]), version)
        for size in (0, 1, 150):
            request = talk.fetch([("read", 0, 0)], partition_max_bytes=size)
            await talk.ask(f"{name}: {size} bytes of a partition", request, version)
        start = [("read", 0, 0), ("other", 0, 0)]
        await talk.ask(f"{name}: 10 bytes of all", talk.fetch(start, max_bytes=10), version)
        await talk.ask(f"{name}: unknown", talk.fetch([("nobody", 0, 0)]), version)
        await talk.ask(f"{name}: one unknown", talk.fetch([("nobody", 0, 0), ("read", 0, 6)]), version)
        await talk.ask(f"{name}: no such partition", talk.fetch([("read", 9, 0)]), version)
        await talk.ask(f"{name}: twice", talk.fetch([("read", 0, 0), ("read", 0, 6)]), version)
        await talk.ask(f"{name}: nothing", talk.fetch([], min_bytes=0), version)
        for level in (1, 2):
            request = talk.fetch([("read", 0, 6)], isolation=level)
            await talk.ask(f"{name}: isolation {level}", request, version)
        for field, first in (("current_leader_epoch", 9), ("last_fetched_epoch", 12)):
            for epoch in (0, 7) if version >= first else ():
                request = talk.fetch([("read", 0, 6)], **{field: epoch})
                await talk.ask(f"{name}: {field} {epoch}", request, version)


async def sessions(talk):
    """Partitions are named once, moved, forgotten, and the session is closed."""
    for version in (7, 11, 12, 13, 17, 18):
        name, topic = f"session v{version}", f"kept-{version}"
        await talk.create(topic, partitions=4)
        first = talk.fetch([(topic, 0, 0), (topic, 1, 0)], session=(0, 0))
        session = (await talk.ask(f"{name}: new", first, version)).session_id
        await talk.ask(f"{name}: nothing new", talk.fetch([], session=(session, 1)), version)
        await talk.peer.send(talk.produce(topic, batch(), partition=1))
        await talk.ask(f"{name}: new records", talk.fetch([], session=(session, 2)), version)
        await talk.ask(f"{name}: moved", talk.fetch([(topic, 1, 2)], session=(session, 3)), version)
        await talk.ask(f"{name}: wrong epoch", talk.fetch([], session=(session, 9)), version)
        await talk.ask(f"{name}: goes on", talk.fetch([], session=(session, 4)), version)
        await talk.ask(f"{name}: less", talk.fetch([], session=(session, 5), forget={topic: [1]}), version)
        await talk.ask(f"{name}: too far", talk.fetch([(topic, 2, 50)], session=(session, 6)), version)
        await talk.ask(f"{name}: still too far", talk.fetch([], session=(session, 7)), version)
        await talk.ask(f"{name}: unknown", talk.fetch([("nobody", 0, 0)], session=(session, 8)), version)
        await talk.ask(f"{name}: still unknown", talk.fetch([], session=(session, 9)), version)
        await talk.ask(f"{name}: close", talk.fetch([(topic, 1, 2)], session=(session, -1)), version)
        await talk.ask(f"{name}: closed", talk.fetch([], session=(session, 10)), version)
        await talk.ask(f"{name}: never was", talk.fetch([], session=(12345, 1)), version)


async def metadata(talk):
    await talk.create("known", partitions=3)
    await talk.create("next", partitions=2)
    topic = MetadataRequest.Topic
    names = {"known": ["known"], "unknown": ["nobody"], "bad name": ["a/b"], "twice": ["known", "known"]}
    for version in range(4, 14):
        for label, wanted in names.items():
            request = MetadataRequest(
                topics=[topic(name=name) for name in wanted], allow_auto_topic_creation=False
            )
            await talk.ask(f"metadata v{version}: {label}", request, version)
    for version in (12, 13):
        for topic_id in (talk.ids["known"], NO_TOPIC):
            request = MetadataRequest(topics=[topic(name=None, topic_id=topic_id)])
            await talk.ask(f"metadata v{version}: {talk._alike(topic_id)}", request, version)
    request = MetadataRequest(topics=[topic(name="known")], include_topic_authorized_operations=True)
    await talk.ask("metadata: operations", request, 10)
    await _describe_partitions(talk)


async def _describe_partitions(talk):
    ask = DescribeTopicPartitionsRequest
    for label, names, limit, start in (
        ("all", ["next", "known"], 100, None),
        ("a page", ["known", "next"], 2, None),
        ("the next page", ["known", "next"], 2, Cursor(topic_name="known", partition_index=2)),
        ("unknown", ["nobody"], 100, None),
        ("bad name", ["a/b"], 100, None),
    ):
        request = ask(
            topics=[ask.Topic(name=name) for name in names], response_partition_limit=limit, cursor=start
        )
        await talk.ask(f"describe partitions: {label}", request)


async def offsets(talk):
    await talk.create("timed")
    await talk.create("empty")
    for _ in range(3):
        await talk.peer.send(talk.produce("timed", batch(3)))
    for version in range(1, 12):
        special = {7: [-3], 8: [-3, -4], 9: [-3, -4, -5], 10: [-5], 11: [-6]}.get(version, [])
        for topic in ("timed", "empty", "nobody"):
            for time in (-1, -2, NOW, NOW + 2, NOW + 3, *special):
                await talk.ask(
                    f"list offsets v{version}: {topic} {time}", _list_offsets(topic, time), version
                )
        await talk.ask(f"list offsets v{version}: twice", _list_offsets("timed", -1, -1), version)
    for version in (2, 3, 4):
        for topic in ("timed", "empty"):
            for current, epoch in ((-1, 0), (0, 0), (3, 0), (-1, 5), (-1, -1)):
                label = f"epochs v{version}: {topic} {current} {epoch}"
                await talk.ask(label, _end_of_epoch(topic, current, epoch), version)
    for partition, before in ((0, 4), (0, 2), (0, 99), (0, -2), (7, 1), (0, -1)):
        part = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=before)
        topics = [DeleteRecordsRequest.Topic(name="timed", partitions=[part])]
        await talk.ask(
            f"delete records: {partition} {before}", DeleteRecordsRequest(topics=topics, timeout_ms=3000)
        )


def _list_offsets(topic, *times):
    part = ListOffsetsRequest.Topic.Partition
    parts = [part(partition_index=0, timestamp=time, max_num_offsets=1) for time in times]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=parts)])


def _end_of_epoch(topic, current, epoch):
    ask = OffsetForLeaderEpochRequest
    part = ask.Topic.Partition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    return ask(replica_id=-1, topics=[ask.Topic(topic=topic, partitions=[part])])


async def administration(talk):
    await talk.create("managed", configs={"cleanup.policy": "compact"})
    ask = DeleteTopicsRequest
    for label, name, topic_id in (
        ("unknown", "nobody", NULL_UUID),
        ("unknown id", None, NO_TOPIC),
        ("both", "managed", talk.ids["managed"]),
        ("neither", None, NULL_UUID),
        ("bad name", "a/b", NULL_UUID),
    ):
        await talk.ask(
            f"delete: {label}", ask(topics=[ask.Topic(name=name, topic_id=topic_id)], timeout_ms=3000)
        )
    for label, changes in CHANGES.items():
        await talk.ask(f"configs: {label}", _alter(*changes))
    for label, name, keys in (
        ("all", "managed", None),
        ("no keys", "managed", []),
        ("some", "managed", ["cleanup.policy", "retention.ms", "nothing"]),
        ("unknown", "nobody", None),
        ("bad name", "a/b", None),
    ):
        wanted = DescribeConfigsRequest.Resource(resource_type=2, resource_name=name, configuration_keys=keys)
        answer = await talk.ask(f"describe configs: {label}", DescribeConfigsRequest(resources=[wanted]))
        values = {each.name: (each.value, each.config_type) for each in answer.results[0].configs}
        common = {key: value for key, value in values.items() if key not in NOT_IN_APACHE}
        talk.answers[f"describe configs: {label}"] = answer.results[0].error_code, common
    for topic, partition in (("nobody", 0), ("managed", 5), ("managed", 0)):
        topics = [DescribeProducersRequest.Topic(name=topic, partition_indexes=[partition])]
        await talk.ask(f"producers: {topic} {partition}", DescribeProducersRequest(topics=topics))


NOT_IN_APACHE = {"producer.id.expiration.ms", "remote.copy.lag.bytes", "remote.copy.lag.ms"}
SET, DELETE, APPEND, SUBTRACT = range(4)
CHANGES = {
    "set": ("managed", ("retention.ms", SET, "5")),
    "append": ("managed", ("cleanup.policy", APPEND, "delete")),
    "subtract": ("managed", ("cleanup.policy", SUBTRACT, "compact")),
    "append to a number": ("managed", ("retention.ms", APPEND, "5")),
    "key twice": ("managed", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
    "set to null": ("managed", ("retention.ms", SET, None)),
    "delete": ("managed", ("retention.ms", DELETE, None)),
    "delete unknown": ("managed", ("nothing", DELETE, None)),
    "set unknown": ("managed", ("nothing", SET, "5")),
    "bad value": ("managed", ("retention.ms", SET, "soon")),
    "operation 9": ("managed", ("retention.ms", 9, "5")),
    "no changes": ("managed",),
    "bad name": ("a/b", ("retention.ms", SET, "5")),
    "no name": ("", ("retention.ms", SET, "5")),
    "unknown": ("nobody", ("retention.ms", SET, "5")),
}


def _alter(topic, *changes):
    resource = IncrementalAlterConfigsRequest.Resource
    settings = [resource.Setting(name=key, config_operation=how, value=to) for key, how, to in changes]
    wanted = resource(resource_type=2, resource_name=topic, configs=settings)
    return IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)


SCENARIOS = (produce, idempotent, fetch, sessions, metadata, offsets, administration)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    if os.environ.get("OTTLA_INTEROP_BOOTSTRAP"):
        pytest.skip("this broker is not ours to compare")
    try:
        with apache_kafka.apache_kafka(data_dir=tmp_path_factory.mktemp("apache")) as kafka:
            yield kafka.bootstrap_server
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))


async def _answers(scenario, address):
    async with Conversation(address) as talk:
        await scenario(talk)
    return talk.answers


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_apache_and_ottla_answer_alike(scenario, reference, bootstrap_server):
    theirs = asyncio.run(_answers(scenario, reference))
    ours = asyncio.run(_answers(scenario, bootstrap_server))
    assert ours.keys() == theirs.keys()
    differ = [label for label in theirs if ours[label] != theirs[label]]
    meant = [label for label in theirs if any(re.match(pattern, label) for pattern in DIFFERENT)]
    unmeant = {label: (theirs[label], ours[label]) for label in differ if label not in meant}
    assert not unmeant
    assert differ == meant, "they have become alike"
