import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.handlers import offsets
from ottla.protocol.messages.offsets import (
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from ottla.records import batch
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.replication.state import PartitionState
from tests.unit.broker.handlers.fakes import ask
from tests.unit.broker.handlers.logs import EPOCH, broker_of, copied, led_partition
from tests.unit.storage.helpers import marker

NOW = 1_700_000_000_000
LATEST, EARLIEST, NEWEST, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6
READ_COMMITTED = 1


def put(partition, *times, codec=Codec.NONE, **how):
    records = [Record(i, NOW + at, b"k", b"value") for i, at in enumerate(times)]
    return partition.append(build(records, codec=codec, **how), 1, NOW)


TOMORROW = NOW + 86_400_000


def listed(
    partition, timestamp, *, version=11, epoch=-1, replica_id=-1, isolation_level=0, broker=None, **how
):
    """Error, offset, timestamp and leader epoch, as far as the version has them."""
    if version >= 4:
        how["current_leader_epoch"] = epoch
    asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp, **how)
    fields = {"isolation_level": isolation_level} if version >= 2 else {}
    topic = ListOffsetsRequest.Topic(name=partition.topic_partition.topic, partitions=[asked])
    response = ask(
        broker or broker_of(partition),
        "ListOffsets",
        version,
        replica_id=replica_id,
        topics=[topic],
        **fields,
    )
    (answer,) = response.topics[0].partitions
    if version == 0:
        return answer.error_code, answer.old_style_offsets
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


@pytest.fixture
def orders():
    """Offsets 0 to 5 with the times 0, 10, 20, 50, 40, 30."""
    partition = led_partition()
    put(partition, 0, 10)
    put(partition, 20, 50, 40, codec=Codec.GZIP)
    put(partition, 30)
    return partition


def test_both_ends_of_an_empty_log_are_in_the_epoch_of_its_leader():
    partition = led_partition()
    assert listed(partition, EARLIEST) == listed(partition, LATEST) == (0, 0, -1, EPOCH)


@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_of_a_log_are_found_in_every_version(orders, version):
    epoch = EPOCH if version >= 4 else -1
    assert listed(orders, EARLIEST, version=version) == (0, 0, -1, epoch)
    assert listed(orders, LATEST, version=version) == (0, 6, -1, epoch)


@pytest.mark.parametrize(
    ("since", "offset", "found"),
    [(0, 0, 0), (1, 1, 10), (11, 2, 20), (21, 3, 50), (50, 3, 50), (51, -1, None)],
)
@pytest.mark.parametrize("version", [1, 3, 4, 11])
def test_the_first_record_of_a_time_or_later_is_found(orders, since, offset, found, version):
    timestamp = -1 if found is None else NOW + found
    epoch = EPOCH if version >= 4 and found is not None else -1
    assert listed(orders, NOW + since, version=version) == (0, offset, timestamp, epoch)


def test_large_batches_are_searched_as_well(monkeypatch, orders):
    monkeypatch.setattr(offsets, "INLINE_BYTES_MAX", 0)
    assert listed(orders, NOW + 1)[1] == 1
    assert listed(orders, NOW + 30)[1] == 3


def test_the_record_with_the_largest_timestamp_is_found(orders):
    assert listed(orders, NEWEST) == (0, 3, NOW + 50, EPOCH)
    assert listed(led_partition(), NEWEST) == (0, -1, -1, -1)


def test_nothing_is_tiered(orders):
    assert listed(orders, LOCAL) == (0, 0, -1, EPOCH)
    assert listed(orders, TIERED) == (0, -1, -1, -1)
    assert listed(orders, PENDING) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(NEWEST, 6), (LOCAL, 7), (TIERED, 8), (PENDING, 10), (-7, 11)]
)
def test_a_place_that_the_version_does_not_know_is_refused(orders, timestamp, version):
    assert listed(orders, timestamp, version=version)[0] == 35


def test_nothing_above_the_high_watermark_is_told_to_clients():
    partition = led_partition(replicas=(1, 2))
    put(partition, 0, 10)
    copied(partition, 2, 2)
    put(partition, 20)
    assert listed(partition, LATEST)[:2] == (0, 2)
    assert listed(partition, NOW + 15)[:2] == (0, -1)
    assert listed(partition, NEWEST)[:2] == (0, -1)
    for follower in (2, -2):
        assert listed(partition, LATEST, replica_id=follower)[:2] == (0, 3)
        assert listed(partition, NOW + 15, replica_id=follower)[:2] == (0, 2)


def test_who_reads_committed_records_sees_the_last_stable_offset():
    partition = led_partition()
    put(partition, 0)
    put(partition, 10, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert listed(partition, LATEST, isolation_level=READ_COMMITTED)[:2] == (0, 1)
    assert listed(partition, NOW + 5, isolation_level=READ_COMMITTED)[:2] == (0, -1)
    assert listed(partition, LATEST)[:2] == (0, 2)
    partition.append(marker(5, commit=True), 1, NOW, client=False)
    assert listed(partition, LATEST, isolation_level=READ_COMMITTED)[:2] == (0, 3)


def test_a_new_leader_says_nothing_of_the_end_before_it_knows_it():
    partition = led_partition(replicas=(1, 2))
    put(partition, 0, 10)
    partition.follow_orders(PartitionState("orders", partition.topic_id, 0, 1, EPOCH + 1, 2, (1, 2), (1, 2)))
    assert listed(partition, LATEST)[0] == 78
    assert listed(partition, LATEST, version=4)[0] == 5
    assert listed(partition, NOW)[0] == 78
    assert listed(partition, EARLIEST)[:2] == (0, 0)
    copied(partition, 2, 2)
    assert listed(partition, LATEST)[:2] == (0, 2)


def test_the_epoch_of_the_asker_must_be_the_leaders(orders):
    assert listed(orders, LATEST, epoch=EPOCH)[0] == 0
    assert listed(orders, LATEST, epoch=EPOCH - 1)[0] == 74
    assert listed(orders, LATEST, epoch=EPOCH + 1)[0] == 75


def test_only_a_leader_answers_unless_it_is_debugged():
    partition = led_partition(leader=2)
    assert listed(partition, LATEST)[0] == 6
    assert listed(partition, LATEST, replica_id=-2)[0] == 0


def test_what_was_deleted_is_not_found(orders):
    orders.log.advance_log_start(4)
    assert listed(orders, EARLIEST)[:2] == (0, 4)
    assert listed(orders, NOW)[:3] == (0, 4, NOW + 40)
    assert listed(orders, NEWEST)[:3] == (0, 4, NOW + 40)


def test_a_header_that_promises_too_much_is_passed_over():
    partition = led_partition()
    lying = bytearray(build([Record(0, NOW, b"k", b"v")]))
    lying[batch.MAX_TIMESTAMP_AT : batch.MAX_TIMESTAMP_AT + 8] = (NOW + 99).to_bytes(8, "big")
    lying[batch.CRC_AT : batch.CRC_AT + 4] = crc32c(lying, batch.ATTRIBUTES_AT).to_bytes(4, "big")
    for _ in range(3):
        partition.append(bytes(lying), 1, NOW)
    put(partition, 99)
    assert listed(partition, NOW + 50)[:2] == (0, 3)


def test_records_that_cannot_be_read_are_an_answer():
    partition = led_partition()
    lying = bytearray(build([Record(0, NOW, b"k", b"v")]))
    lying[batch.RECORDS_AT] = 0x7E
    lying[batch.CRC_AT : batch.CRC_AT + 4] = crc32c(lying, batch.ATTRIBUTES_AT).to_bytes(4, "big")
    partition.append(bytes(lying), 1, NOW)
    assert listed(partition, NOW)[0] == 87


def test_version_0_lists_the_beginnings_of_segments():
    partition = led_partition(settings={"segment.bytes": "300", "segment.ms": "5"})
    for at in (0, 10, 20):
        put(partition, at)
    assert listed(partition, LATEST, version=0, max_num_offsets=10) == (0, [3, 2, 1, 0])
    assert listed(partition, LATEST, version=0, max_num_offsets=1) == (0, [3])
    assert listed(partition, EARLIEST, version=0, max_num_offsets=10) == (0, [0])
    assert listed(partition, NOW + 15, version=0, max_num_offsets=10) == (0, [1, 0])
    assert listed(partition, LATEST, version=0, max_num_offsets=-5) == (0, [])
    assert listed(partition, TOMORROW, version=0, max_num_offsets=1) == (0, [3])


def test_who_may_not_describe_is_told_nothing(orders):
    broker = broker_of(orders)
    broker.authorizer.deny(Operation.DESCRIBE)
    assert listed(orders, LATEST, broker=broker)[0] == 29


def test_a_partition_that_is_not_there_or_named_twice_is_refused(orders):
    part = ListOffsetsRequest.Topic.Partition
    topics = [
        ListOffsetsRequest.Topic(name="nothing", partitions=[part(partition_index=0, timestamp=LATEST)]),
        ListOffsetsRequest.Topic(name="orders", partitions=[part(partition_index=0, timestamp=LATEST)] * 2),
    ]
    response = ask(broker_of(orders), "ListOffsets", 5, replica_id=-1, topics=topics)
    assert [[each.error_code for each in topic.partitions] for topic in response.topics] == [[3], [42, 42]]


def test_a_disk_that_fails_is_reported(orders):
    broker = broker_of(orders)
    orders.log.failure = OSError("gone")
    assert listed(orders, NOW, broker=broker)[0] == 56
    assert broker.replicas.failed == [orders.topic_partition]


# --- epochs


def ended(partition, epoch, *, version=4, current=-1, broker=None):
    fields = {"current_leader_epoch": current} if version >= 2 else {}
    asked = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=epoch, **fields)
    topic = OffsetForLeaderEpochRequest.Topic(topic="orders", partitions=[asked])
    (answer,) = (
        ask(broker or broker_of(partition), "OffsetForLeaderEpoch", version, topics=[topic])
        .topics[0]
        .partitions
    )
    return answer.error_code, answer.leader_epoch, answer.end_offset


def lead_again(partition, epoch, partition_epoch):
    partition.follow_orders(
        PartitionState("orders", partition.topic_id, 0, 1, epoch, partition_epoch, (1,), (1,))
    )


def test_an_epoch_ends_where_the_next_began(orders):
    lead_again(orders, 9, 2)
    put(orders, 60)
    assert ended(orders, EPOCH) == (0, EPOCH, 6)
    assert ended(orders, 8) == (0, EPOCH, 6)  # it never ruled: the largest before it
    assert ended(orders, 9) == (0, 9, 7)
    assert ended(orders, 10) == (0, -1, -1)


@pytest.mark.parametrize("version", range(5))
def test_every_version_can_ask_for_an_epoch(orders, version):
    assert ended(orders, EPOCH, version=version) == (0, EPOCH if version else -1, 6)


def test_who_asks_about_epochs_must_know_the_leaders(orders):
    assert ended(orders, EPOCH, current=EPOCH - 1)[0] == 74
    assert ended(orders, EPOCH, current=EPOCH + 1)[0] == 75
    assert ended(led_partition(leader=2), EPOCH)[0] == 6


def test_brokers_and_readers_may_ask_about_epochs(orders):
    broker = broker_of(orders)
    broker.authorizer.deny(Operation.DESCRIBE)
    assert ended(orders, EPOCH, broker=broker)[0] == 0
    broker.authorizer.deny(Operation.CLUSTER_ACTION)
    assert ended(orders, EPOCH, broker=broker)[0] == 29
