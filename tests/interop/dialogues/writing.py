"""What producers send: batches of all kinds and all formats, sequence numbers, ids."""

import asyncio
import struct
from collections.abc import Iterator

from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import DescribeProducersRequest, InitProducerIdRequest
from ottla.records import legacy
from ottla.records.batch import ATTRIBUTES_AT, CRC_AT, read_header, records_of
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.record import Record
from tests.interop.dialogues.talk import NO_TOPIC, Talk

LONG_AGO = 1_600_000_000_000
"""Fixed, so that what is stored is the same on both sides. Topics keep their records for ever."""
DISTANT = 4_000_000_000_000
LOADING = 14
_MAGIC_AT, _DELTA_AT, _COUNT_AT = 16, 23, 57
_PLAIN, _COMPACTED, _STAMPED, _SMALL, _STRICT = "plain", "compacted", "stamped", "small", "strict"
_KINDS = {
    _PLAIN: {},
    _COMPACTED: {"cleanup.policy": "compact"},
    _STAMPED: {"message.timestamp.type": "LogAppendTime"},
    _SMALL: {"max.message.bytes": "200"},
    _STRICT: {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"},
}


def records(count: int = 2, key: bytes | None = b"k") -> list[Record]:
    return [Record(i, LONG_AGO + i, key, b"value %d" % i) for i in range(count)]


def altered(data: bytes, at: int, layout: str, value: int, *, is_signed: bool = True) -> bytes:
    """The batch with a number in its header changed; `is_signed` if its checksum is to be right all the same."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    if is_signed:
        struct.pack_into(">I", changed, CRC_AT, crc32c(bytes(changed[ATTRIBUTES_AT:])))
    return bytes(changed)


def batches() -> Iterator[tuple[str, str, bytes | None]]:
    """What it is, the kind of topic that it goes to, the bytes."""
    good = build(records())
    yield from ((f"codec {codec.name}", _PLAIN, build(records(), codec=codec)) for codec in Codec)
    for magic in (0, 1):
        plain = legacy.build(records(), magic)
        yield f"magic {magic} set", _PLAIN, plain
        yield f"magic {magic} set in gzip", _PLAIN, legacy.build(records(), magic, codec=Codec.GZIP)
        yield f"magic {magic} wrong checksum", _PLAIN, altered(plain, 12, ">I", 7, is_signed=False)
        yield f"magic {magic} cut short", _PLAIN, plain[:-3]
        yield f"magic {magic} without keys", _COMPACTED, legacy.build(records(key=None), magic)
        yield f"magic {magic} on the broker's time", _STAMPED, plain
        yield f"magic {magic} set, distant", _STRICT, plain
        yield f"magic {magic} too large", _SMALL, legacy.build(records(20), magic)
    yield "wrong checksum", _PLAIN, altered(good, CRC_AT, ">I", 5, is_signed=False)
    yield "magic 3", _PLAIN, altered(good, _MAGIC_AT, ">b", 3, is_signed=False)
    yield "no bytes", _PLAIN, b""
    yield "null", _PLAIN, None
    yield "two batches", _PLAIN, good + good
    yield "cut short", _PLAIN, good[:-3]
    yield "bytes behind", _PLAIN, good + bytes(3)
    yield "first offset 9", _PLAIN, altered(good, 0, ">q", 9, is_signed=False)
    for what, bits in {
        "codec 5": 5,
        "not gzip": 1,
        "claims the broker's time": 8,
        "in no transaction": 16,
    }.items():
        yield what, _PLAIN, altered(good, ATTRIBUTES_AT, ">h", bits)
    yield "a few bytes", _PLAIN, b"abc"
    yield from ((f"count {count}", _PLAIN, altered(good, _COUNT_AT, ">i", count)) for count in (3, 0, -1))
    yield "last delta 5", _PLAIN, altered(good, _DELTA_AT, ">i", 5)
    yield "leader epoch 9", _PLAIN, altered(good, 12, ">i", 9, is_signed=False)
    yield "control batch", _PLAIN, altered(good, ATTRIBUTES_AT, ">h", 32)
    yield "unused bits", _PLAIN, altered(good, ATTRIBUTES_AT, ">h", 1 << 10)
    yield "no time", _PLAIN, build([Record(0, -1, b"k", b"v")])
    yield "no keys", _COMPACTED, build(records(key=None))
    yield "no keys in gzip", _COMPACTED, build(records(key=None), codec=Codec.GZIP)
    yield "keys", _COMPACTED, build(records())
    yield "tombstone", _COMPACTED, build([Record(0, LONG_AGO, b"k", None)])
    yield "the broker's time", _STAMPED, good
    yield "the broker's time in gzip", _STAMPED, build(records(), codec=Codec.GZIP)
    yield "too large", _SMALL, build(records(20))
    yield "large in gzip", _SMALL, build(records(200), codec=Codec.GZIP)
    yield "two that are too large together", _SMALL, good + good
    yield "too early", _STRICT, good
    yield "too late", _STRICT, build([Record(0, DISTANT, b"k", b"v")])
    yield "too late in gzip", _STRICT, build([Record(0, DISTANT, b"k", b"v")], codec=Codec.GZIP)
    yield "too late by default", _PLAIN, build([Record(0, DISTANT, b"k", b"v")])
    yield "a sequence without a producer", _PLAIN, build(records(), base_sequence=4)
    yield "a producer without a sequence", _PLAIN, build(records(), producer_id=9, producer_epoch=0)


def to(
    talk: Talk, topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, name: str | None = None
) -> ProduceRequest:
    part = ProduceRequest.Topic.Partition(index=partition, records=data)
    wanted = ProduceRequest.Topic(name=topic, topic_id=talk.ids.get(topic, NO_TOPIC), partition_data=[part])
    return ProduceRequest(transactional_id=name, acks=acks, timeout_ms=3000, topic_data=[wanted])


async def produce(talk: Talk) -> None:
    """Each to a topic of its own, so that what one side takes and the other does not moves no offsets of others."""
    for number, (label, kind, data) in enumerate(batches()):
        topic = f"written-{number}"
        await talk.create(topic, configs=_KINDS[kind])
        if data is None:  # Kafka does not answer that
            await talk.ask(label, to(talk, topic, data), last=True, patience_ms=1500)
        else:
            await talk.ask(label, to(talk, topic, data))


async def address(talk: Talk) -> None:
    """To whom it is sent, and how."""
    await talk.create("addressed")
    good = build(records())
    for acks in (1, -1, 2, -2):
        await talk.ask(f"acks {acks}", to(talk, "addressed", good, acks=acks))
    for topic, partition in (("nobody-home", 0), ("addressed", 5), ("addressed", -1), ("a/b", 0), ("", 0)):
        await talk.ask(f"to {topic!r} {partition}", to(talk, topic, good, partition=partition))
    topic = ProduceRequest.Topic
    part = topic.Partition(index=0, records=good)
    known = talk.ids["addressed"]
    for label, wanted in {
        "nothing": [],
        "no partition": [topic(name="addressed", topic_id=known, partition_data=[])],
        "one of two": [
            topic(
                name="addressed",
                topic_id=known,
                partition_data=[part, topic.Partition(index=4, records=good)],
            )
        ],
        "known and unknown": [
            topic(name="addressed", topic_id=known, partition_data=[part]),
            topic(name="nobody-home", topic_id=NO_TOPIC, partition_data=[part]),
        ],
    }.items():
        await talk.ask(label, ProduceRequest(acks=1, timeout_ms=3000, topic_data=wanted))
    await talk.ask("no transaction, but its name", to(talk, "addressed", good, name="tx"), since=3)


async def twice(talk: Talk) -> None:
    """The same partition more than once in a request; only who is answered, the offsets do not agree."""
    topic = ProduceRequest.Topic
    part = topic.Partition(index=0, records=build(records()))
    for label, counts in (("partition twice", (2,)), ("topic twice", (1, 1))):
        name = label.replace(" ", "-")
        await talk.create(name)
        topics = [
            topic(name=name, topic_id=talk.ids[name], partition_data=[part] * count) for count in counts
        ]
        await talk.ask(label, ProduceRequest(acks=1, timeout_ms=3000, topic_data=topics), last=True)


async def recompressed(talk: Talk) -> None:
    """Topics with a codec of their own: how a batch is stored, and that the records are the same."""
    for codec in ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"):
        for sent in Codec:
            topic = f"stored-{codec}-{sent.name}"
            await talk.create(topic, configs={"compression.type": codec, "min.insync.replicas": "2"})
            stored = await talk.peer.send(to(talk, topic, build(records(50), codec=sent)))
            assert stored.responses[0].partition_responses[0].error_code == 0, stored
            parts = [FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
            wanted = FetchRequest.Topic(topic=topic, topic_id=talk.ids[topic], partitions=parts)
            answer = await talk.peer.send(FetchRequest(max_wait_ms=500, min_bytes=1, topics=[wanted]))
            data = bytes(answer.responses[0].partitions[0].records)
            header = read_header(data)._replace(length=0, crc=0)  # compressors differ
            talk.answers[f"Fetch {topic}", 0] = {**header._asdict(), "records": list(records_of(data))}


async def numbered(talk: Talk) -> None:
    """Sequence numbers and epochs of one producer, in order and out of it, and what is told of it."""
    await talk.create("numbered")
    asked = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    while (given := await talk.peer.send(asked)).error_code == LOADING:
        await asyncio.sleep(0.05)
    talk.known[given.producer_id] = "the producer"
    steps = [(0, 0), (0, 0), (0, 2), (0, 4), (0, 6), (0, 8), (0, 10), (0, 2), (0, 0), (0, 20), (0, 11)]
    steps += [(1, 0), (0, 12), (2, 5), (1, 2), (1, 2), (3, 0), (3, 2)]
    for number, (epoch, sequence) in enumerate(steps):
        data = build(records(), producer_id=given.producer_id, producer_epoch=epoch, base_sequence=sequence)
        await talk.ask(f"step {number}: {epoch} {sequence}", to(talk, "numbered", data), last=True)
    for who, sequence, count in ((1, 0, 2), (2, 7, 2), (3, 2**31 - 2, 4), (3, 2, 2)):
        other = {"producer_id": given.producer_id + who * 5000, "producer_epoch": 0}
        talk.known[given.producer_id + who * 5000] = f"producer {who}"
        data = build(records(count), base_sequence=sequence, **other)
        await talk.ask(f"of another: {who} {sequence}", to(talk, "numbered", data), last=True)
    both = [build(records(), producer_id=9, producer_epoch=0, base_sequence=each) for each in (0, 2)]
    await talk.ask("two of a producer", to(talk, "numbered", both[0] + both[1]), last=True)
    one = DescribeProducersRequest.Topic
    for topic, partition in (("numbered", 0), ("numbered", 5), ("nobody-home", 0), ("a/b", 0)):
        topics = [one(name=topic, partition_indexes=[partition])]
        await talk.ask(f"of {topic} {partition}", DescribeProducersRequest(topics=topics))
    await talk.ask("of nothing", DescribeProducersRequest(topics=[]))


async def ids(talk: Talk) -> None:
    """InitProducerId; the ids themselves are each broker's own."""
    ask = InitProducerIdRequest
    for label, name, timeout, producer, epoch in (
        ("empty name", "", 60_000, -1, -1),
        ("only an id", None, 60_000, 5, -1),
        ("only an epoch", None, 60_000, -1, 5),
        ("name, only an id", "tx", 60_000, 5, -1),
    ):
        request = ask(
            transactional_id=name, transaction_timeout_ms=timeout, producer_id=producer, producer_epoch=epoch
        )
        await talk.ask(label, request)
    for producer, epoch in ((-1, -1), (5, 0), (5, 32766)):
        request = ask(
            transactional_id=None, transaction_timeout_ms=0, producer_id=producer, producer_epoch=epoch
        )
        await talk.ask(f"no name, {producer} {epoch}", request)


ALL = (produce, address, twice, recompressed, numbered, ids)
