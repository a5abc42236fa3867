"""What a broker serves of segments that brokers before Kafka 0.11 left: as they lie there, to whoever can read them."""

import uuid

import pytest

from ottla.broker.loading import Loader
from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offsets import ListOffsetsRequest
from ottla.protocol.messages.record_types import TRANSACTION_STATE, encode_key, encode_value
from ottla.records import frames
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.replication.partition import Partition
from ottla.replication.state import PartitionState
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.broker.handlers.fakes import ask
from tests.unit.broker.handlers.logs import EPOCH, broker_of
from tests.unit.broker.handlers.serving import Client, scenario, serving
from tests.unit.broker.machines import Names, named
from tests.unit.storage.legacy_segments import (
    NOW,
    SHAPES,
    WRAPPERS,
    OldLog,
    Shape,
    compressed,
    lay,
    message,
    old_log,
    written,
)

EARLIEST, LATEST, NEWEST = -2, -1, -3
READ_COMMITTED = 1
MIXED = [Shape(0, Codec.LZ4), Shape(1), Shape(1, Codec.GZIP, is_stamped=True), Shape(2, Codec.SNAPPY)]


def partition_of(old: OldLog, log_start_offset: int = 0) -> Partition:
    """A partition that this broker leads, over the segments of old."""
    disk, topic_id = SimDisk(), uuid.uuid4()
    lay(disk, "d/orders-0", old.segments)
    log = Log.open(
        disk, "d/orders-0", TopicConfig({"index.interval.bytes": "200"}), log_start_offset=log_start_offset
    )
    partition = Partition(1, TopicPartition("orders", 0), topic_id, log)
    partition.follow_orders(PartitionState("orders", topic_id, 0, 1, EPOCH, 1, (1,), (1,)))
    return partition


async def fetched(partition: Partition, offset: int, *, version: int = 12, bytes_max: int = 1 << 20, **how):
    asked = FetchRequest.Topic.Partition(
        partition=0, fetch_offset=offset, partition_max_bytes=bytes_max, log_start_offset=-1
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=bytes_max if version >= 3 else 0x7FFFFFFF,
        topics=[FetchRequest.Topic(topic="orders", partitions=[asked])],
        **how,
    )
    response = await Client(serving(partition)).send(request, version)
    return response.responses[0].partitions[0]


def records_in(data: bytes) -> list[Record]:
    return [
        record
        for frame in frames.iter_frames(data, partial=True)
        for record in frames.records_of(data, frame)
    ]


def listed(partition: Partition, timestamp: int, **how):
    """Error, offset and timestamp."""
    asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsRequest.Topic(name="orders", partitions=[asked])
    response = ask(broker_of(partition), "ListOffsets", 8, replica_id=-1, topics=[topic], **how)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.offset, answer.timestamp


def named_shapes(shapes):
    return pytest.mark.parametrize("shape", shapes, ids=str)


@named_shapes(SHAPES)
@scenario
async def test_new_readers_get_old_messages_as_they_lie_in_the_log(shape):
    """Apache Kafka converts nothing upwards for a reader either: all clients know all three formats."""
    old = old_log(shape)
    partition = partition_of(old)
    answer = await fetched(partition, 0, isolation_level=READ_COMMITTED)
    assert (answer.error_code, answer.high_watermark) == (0, len(old.records))
    assert bytes(answer.records) == old.segments[0]
    assert answer.aborted_transactions == []


@named_shapes(WRAPPERS)
@pytest.mark.parametrize("offset", range(10, 15))
@scenario
async def test_who_starts_within_a_wrapper_gets_all_of_it(shape, offset):
    old = old_log(shape)
    answer = await fetched(partition_of(old), offset, bytes_max=1)
    assert records_in(bytes(answer.records)) == old.records[10:15]


@pytest.mark.parametrize("version", range(4))
@scenario
async def test_readers_of_old_get_nothing_that_is_too_new_for_them(version):
    old = old_log(*MIXED)
    for offset in (0, 42, 83, 101, 121, 138):
        answer = await fetched(partition_of(old), offset, version=version)
        data, magic_max = bytes(answer.records), version // 2
        assert max(frame.magic for frame in frames.iter_frames(data)) == min(
            magic_max, 0 if offset < 40 and version < 2 else 1
        )
        found = [record for record in records_in(data) if record.offset >= offset]
        expected = old.records[offset:]
        assert [(r.offset, r.key, r.value) for r in found] == [(r.offset, r.key, r.value) for r in expected]


@named_shapes(SHAPES)
@pytest.mark.parametrize("log_start_offset", [0, 12])
def test_offsets_are_found_by_time_inside_wrappers_too(shape, log_start_offset):
    old = old_log(shape)
    partition = partition_of(old, log_start_offset)
    visible = [record for record in old.records if record.offset >= log_start_offset]
    for timestamp in range(NOW - 60, NOW + 410, 7):
        expected = next((r for r in visible if r.timestamp >= timestamp), Record(-1, -1, None, None))
        assert listed(partition, timestamp) == (0, expected.offset, expected.timestamp)
    newest = max(visible, key=lambda record: record.timestamp)
    has_times = newest.timestamp >= 0
    assert listed(partition, NEWEST) == (0, newest.offset if has_times else -1, newest.timestamp)
    assert listed(partition, EARLIEST) == (0, log_start_offset, -1)
    assert listed(partition, LATEST) == (0, 40, -1)


def test_version_0_lists_segments_without_times_by_the_time_of_their_file():
    partition = partition_of(old_log(Shape(0), Shape(0, Codec.GZIP), Shape(1), segments=3))
    for segment, at_ms in zip(partition.log.segments, [NOW - 2000, NOW - 1000, 0], strict=True):
        partition.log.files.set_modified(segment.path, at_ms)
    for timestamp, expected in [
        (NOW - 2001, []),
        (NOW - 2000, [0]),
        (NOW - 900, [40, 0]),
        (NOW, [80, 40, 0]),
    ]:
        asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp, max_num_offsets=9)
        topic = ListOffsetsRequest.Topic(name="orders", partitions=[asked])
        response = ask(broker_of(partition), "ListOffsets", 0, replica_id=-1, topics=[topic])
        (answer,) = response.topics[0].partitions
        assert answer.old_style_offsets == expected


BOMB = compressed(Codec.GZIP, message(0, None, bytes(80 << 20), 1), 1)
INNER = message(0, b"k", b"v", 1, timestamp=NOW)
HOSTILE = {
    "a bomb": message(9, None, BOMB, 1, Codec.GZIP, NOW),
    "a wrapper in a wrapper": message(
        9,
        None,
        compressed(Codec.GZIP, message(0, None, compressed(Codec.GZIP, INNER, 1), 1, Codec.GZIP, NOW), 1),
        1,
        Codec.GZIP,
        NOW,
    ),
    "nothing inside": message(9, None, compressed(Codec.LZ4, b"", 1), 1, Codec.LZ4, NOW),
    "no value": message(9, None, None, 1, Codec.SNAPPY, NOW),
    "noise": message(9, None, b"noise" * 9, 1, Codec.SNAPPY, NOW),
    "a codec of later": message(9, None, b"noise" * 9, 1, Codec.ZSTD, NOW),
    "no codec at all": message(9, None, b"noise" * 9, 1, 7, NOW),
    "half a message": message(9, None, compressed(Codec.GZIP, INNER[:-3], 1), 1, Codec.GZIP, NOW),
    "an offset before all": message(
        9, None, compressed(Codec.GZIP, INNER + message(2**40, None, b"", 1), 1), 1, Codec.GZIP, NOW
    ),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
@scenario
async def test_what_no_broker_wrote_is_an_answer_and_not_the_end(data):
    """Its CRC is good, so it is recovered and served; whoever looks inside is told why that cannot be."""
    partition = partition_of(OldLog({0: data + written(Shape(1), [Record(10, NOW + 1, b"k", b"v")])}, []))
    assert bytes((await fetched(partition, 0)).records).startswith(data)
    partition.log.truncate_to(9)
    assert partition.log.end_offset == 0


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_time_that_leads_to_what_no_broker_wrote_is_answered_with_an_error(data):
    partition = partition_of(OldLog({0: data + written(Shape(1), [Record(10, NOW + 1, b"k", b"v")])}, []))
    code, *_ = listed(partition, NOW)
    assert ErrorCode(code) in {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
    assert listed(partition, NOW + 1) == (0, 10, NOW + 1)


@named_shapes(SHAPES)
@scenario
async def test_what_coordinators_wrote_in_the_old_formats_is_loaded(shape):
    """Offsets that nobody has committed since lie in an upgraded cluster's log as they were written."""
    entries = [named(f"name {number}") for number in range(12)]
    records = [
        Record(at, NOW, encode_key(each.key), encode_value(each.value)) for at, each in enumerate(entries)
    ]
    records.append(Record(12, NOW, encode_key(entries[3].key), None))
    newer = written(Shape(2), [records[3].with_(offset=13), records[5].with_(offset=14)])
    partition = partition_of(OldLog({0: written(shape, records) + newer}, []))
    names = Names(0, Moment(0, 0))
    loader = Loader(partition.log, TRANSACTION_STATE, names)
    await loader.load()
    assert (loader.records, loader.skipped) == (15, 0)
    assert sorted(names.names) == sorted(f"name {number}" for number in range(12))
