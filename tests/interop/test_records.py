"""What a client produces is what it consumes: every codec, and every part of a record."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.core.errors import ErrorCode
from tests.interop.brokers import FETCH, another_connection, stored_batches
from tests.interop.clients.client import NOW, Record, Refused
from tests.interop.clients.table import CLIENTS
from tests.interop.features import CODECS, feature


def contents(records, timestamps=True):
    """What two clients must agree on."""
    return [each._replace(offset=None, timestamp=each.timestamp if timestamps else None) for each in records]


def plain(count, partition=0):
    return [Record(partition, b"key-%d" % i, b"value-%d " % i * 20) for i in range(count)]


def assert_round_trip(client, topic, records, **how):
    """Produced and consumed by the same client. Times are compared where the test gave some."""
    client.produce(topic, records, **how)
    found = client.consume(topic, {0: 0}, len(records))
    assert contents(found, timestamps=records[0].timestamp is not None) == contents(records)
    assert [each.offset for each in found] == list(range(len(records)))


@pytest.mark.parametrize("codec", [pytest.param(codec, marks=feature(f"Codec {codec}")) for codec in CODECS])
def test_records_come_back_from_every_codec(client, new_topic, codec, bootstrap_server):
    topic = new_topic()
    assert_round_trip(client, topic, plain(100), codec=codec)
    assert {each.codec for each in stored_batches(bootstrap_server, topic)} == {codec}


@feature("Keys")
def test_keys_come_back_and_so_does_their_absence(client, new_topic):
    keys = [b"a", None, "schlüssel".encode(), b"\x00\xff\x01", b"k" * 1000]
    assert_round_trip(client, new_topic(), [Record(0, key, b"value") for key in keys])


@feature("Headers")
def test_headers_come_back_in_order_also_repeated_and_empty_ones(client, new_topic):
    headers = (
        ("first", b"1"),
        ("trace-id", b"00-4bf92f"),
        ("repeated", b"x"),
        ("repeated", b"y"),
        ("empty", b""),
    )
    assert_round_trip(client, new_topic(), [Record(0, b"k", b"v", headers), Record(0, b"k", b"none")])


@feature("Null headers")
def test_a_header_without_a_value_stays_without(client, new_topic):
    assert_round_trip(client, new_topic(), [Record(0, b"k", b"v", (("null", None), ("empty", b"")))])


@feature("Timestamps")
def test_the_times_that_a_producer_gives_are_kept(client, new_topic):
    times = [NOW, NOW + 5, NOW - 86_400_000, NOW + 1]
    assert_round_trip(client, new_topic(), [Record(0, b"k", b"v", timestamp=each) for each in times])


@feature("LogAppendTime")
def test_the_broker_sets_the_time_where_the_topic_says_so(client, new_topic):
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    client.produce(topic, [each._replace(timestamp=NOW) for each in plain(3)], codec="gzip")
    found = client.consume(topic, {0: 0}, 3)
    assert [each.value for each in found] == [each.value for each in plain(3)]
    assert all(before <= (each.timestamp or 0) <= time.time() * 1000 for each in found)


@feature("Tombstones")
def test_a_null_value_is_not_an_empty_one(client, new_topic):
    topic = new_topic(cleanup_policy="compact")
    values = [b"value", None, b"", None]
    assert_round_trip(client, topic, [Record(0, b"key", value) for value in values])


@feature("Empty keys and values")
def test_an_empty_value_is_not_null(client, new_topic, client_name):
    records = [Record(0, b"", b""), Record(0, b"k", b""), Record(0, b"", b"v"), Record(0, None, b"")]
    if client_name == "kcat":  # to which the last one is no record
        records.pop()
    assert_round_trip(client, new_topic(), records)


@feature("acks 0, 1 and all")
def test_every_kind_of_acknowledgement_is_understood(client, new_topic):
    topic = new_topic()
    for number, acks in enumerate(["0", "1", "all"]):
        client.produce(topic, plain(10), acks=acks)
        found = client.consume(topic, {0: 10 * number}, 10)
        assert contents(found, timestamps=False) == plain(10)


@feature("Idempotent producer")
def test_an_idempotent_producer_is_served(client, new_topic, bootstrap_server):
    topic = new_topic()
    assert_round_trip(client, topic, plain(500), idempotent=True, codec="lz4")
    assert all(each.producer_id >= 0 for each in stored_batches(bootstrap_server, topic))


@feature("Topics created on first use")
def test_a_topic_springs_into_being_when_it_is_written_to(client, unused_topic):
    assert_round_trip(client, unused_topic, plain(3))


@feature("Consume from within a batch")
def test_a_consumer_may_start_in_the_middle_of_a_batch(client, control, new_topic):
    topic = new_topic()
    control.produce(topic, plain(100), codec="zstd")
    found = client.consume(topic, {0: 42}, 58)
    assert [each.offset for each in found] == list(range(42, 100))
    assert contents(found, timestamps=False) == plain(100)[42:]


@feature("read_committed consumer")
def test_read_committed_sees_all_records_outside_of_transactions(client, new_topic):
    topic = new_topic()
    client.produce(topic, plain(20), idempotent=True)
    found = client.consume(topic, {0: 0}, 20, isolation="read_committed")
    assert contents(found, timestamps=False) == plain(20)


@feature("Too large a record is refused")
def test_a_record_above_the_limit_of_its_topic_is_refused(client, new_topic):
    topic = new_topic(max_message_bytes="2000")
    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(0, None, b"x" * 5000)])
    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert_round_trip(client, topic, plain(2))


@feature("A record above the fetch size")
def test_a_record_that_is_larger_than_a_fetch_comes_through(client, control, new_topic):
    topic = new_topic(max_message_bytes="8000000")
    records = [Record(0, b"k", random.Random(number).randbytes(3_000_000)) for number in range(2)]
    control.produce(topic, records)
    assert contents(client.consume(topic, {0: 0}, 2), timestamps=False) == records


@feature("100 partitions")
def test_a_hundred_partitions_are_written_and_read_at_once(client, new_topic):
    topic = new_topic(partitions=100)
    records = [Record(partition, b"k", b"in %d" % partition) for partition in range(100)]
    client.produce(topic, records)
    found = client.consume(topic, dict.fromkeys(range(100), 0), 100)
    assert sorted(contents(found, timestamps=False)) == records


@feature("Decompressed by the broker")
def test_the_broker_opens_what_a_client_compressed(client, new_topic, bootstrap_server):
    topic = new_topic(compression_type="uncompressed")
    for number, codec in enumerate(CODECS):
        client.produce(topic, plain(50), codec=codec)
        found = client.consume(topic, {0: 50 * number}, 50)
        assert contents(found, timestamps=False) == plain(50)
    assert {each.codec for each in stored_batches(bootstrap_server, topic)} == {"none"}


@feature("Message sets of Kafka 0.8 to 0.10")
@pytest.mark.parametrize("kafka", ["0.8.2", "0.9.0", "0.10.0"])
def test_old_message_sets_are_converted_both_ways(client, control, new_topic, kafka, apis):
    if apis[FETCH][0] > 0:
        pytest.skip("this broker no longer speaks with old clients")
    topic, old = new_topic(), client.as_of(kafka)
    for number, codec in enumerate(["none", "gzip", "snappy", "lz4"]):
        old.produce(topic, plain(20), codec=codec)
        control.produce(topic, plain(20), codec=codec)
        for reader in (old, control):
            found = reader.consume(topic, {0: 40 * number}, 40)
            assert contents(found, timestamps=False) == plain(20) * 2


@feature("Waits for new records")
def test_a_consumer_waits_for_what_is_yet_to_come(client, control, new_topic, bootstrap_server):
    topic = new_topic()
    control.produce(topic, plain(5))
    with ThreadPoolExecutor(1) as pool:
        with another_connection(bootstrap_server):
            waiting = pool.submit(client.consume, topic, {0: 0}, 10)
        control.produce(topic, plain(5))
        assert contents(waiting.result(), timestamps=False) == plain(5) * 2


@feature("First and last offset")
def test_a_client_learns_where_a_partition_starts_and_ends(client, control, new_topic):
    topic = new_topic(partitions=2)
    control.produce(topic, plain(30, partition=1))
    control.delete_records(topic, 1, 12)
    assert client.watermarks(topic, 1) == (12, 30)
    assert client.watermarks(topic, 0) == (0, 0)


@feature("Offset by time")
def test_offsets_are_found_by_time(client, control, new_topic):
    topic = new_topic()
    records = [each._replace(timestamp=NOW + 10 * i) for i, each in enumerate(plain(100))]
    control.produce(topic, records[:50], codec="snappy")
    control.produce(topic, records[50:])
    times = (NOW - 1, NOW, NOW + 105, NOW + 700, NOW + 990)
    assert [client.offset_for_time(topic, 0, each) for each in times] == [0, 0, 11, 70, 99]
    assert client.offset_for_time(topic, 0, NOW + 991) in (None, 100)


@feature("Offset of the newest record")
def test_the_newest_record_is_found_wherever_it_is(client, control, new_topic):
    topic = new_topic()
    times = [NOW, NOW + 9, NOW + 3]
    control.produce(topic, [Record(0, b"k", b"v", timestamp=each) for each in times])
    assert client.offset_of_newest(topic, 0) == 1


@feature("Consumer groups")
def test_a_group_consumes_and_commits(client, new_topic, client_name):
    topic = new_topic(partitions=3)
    records = [each for partition in range(3) for each in plain(10, partition)]
    client.produce(topic, records)
    found = client.group_consume(topic, f"group-{client_name}", 30)
    assert sorted(contents(found, timestamps=False)) == sorted(records)


@feature("Transactions")
def test_what_a_transaction_aborts_is_not_seen_by_read_committed(client, new_topic, client_name):
    topic, name = new_topic(), f"transaction-{client_name}"
    aborts = client_name != "kcat"  # which commits all that it sends
    if aborts:
        client.produce(topic, plain(5), transactional_id=name, commit=False)
    client.produce(topic, plain(5), transactional_id=name)
    found = client.consume(topic, {0: 0}, 5, isolation="read_committed")
    assert contents(found, timestamps=False) == plain(5)
    assert [each.offset for each in found] == list(range(6, 11) if aborts else range(5))


def test_every_client_is_in_the_table():
    assert set(CLIENTS) == {
        "confluent-kafka",
        "kafka-python",
        "aiokafka",
        "kcat",
        "kafkajs",
        "java",
        "java-3.9",
        "ottla",
    }
