"""`ottla topic compact` against a broker that has something to compact: what a reader sees then, and who is refused."""

import asyncio
import threading
import time

import pytest

from ottla.cli.main import main
from ottla.core.errors import ErrorCode
from ottla.network.peer import connect
from ottla.protocol.messages.compaction import CompactTopicsRequest
from ottla.protocol.messages.configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing import Broker
from tests.unit.cli.states import runner

KEYS = 50
VALUES = 3
PARTITIONS = 2
SET, TOPIC, BROKER = 0, 2, 4
FETCH_BY_NAME, PRODUCE_BY_NAME = 12, 8
RATE = "log.cleaner.io.max.bytes.per.second"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def ottla(broker, capsys):
    return runner(capsys, broker.bootstrap_server)


def send(broker, request, version=None):
    async def work():
        host, _, port = broker.bootstrap_server.rpartition(":")
        async with await connect(host, int(port)) as peer:
            return await peer.send(request, version)

    return asyncio.run(work())


def fill(broker, topic, partitions=PARTITIONS):
    """Several values for each key, each round in a batch of its own."""
    now_ms = time.time_ns() // 1_000_000
    for partition in range(partitions):
        for number in range(VALUES):
            records = [
                Record(at, now_ms, b"key-%d" % at, b"value %d of %d in %d" % (number, at, partition))
                for at in range(KEYS)
            ]
            part = ProduceRequest.Topic.Partition(index=partition, records=build(records))
            topics = [ProduceRequest.Topic(name=topic, partition_data=[part])]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
            answer = send(broker, request, PRODUCE_BY_NAME).responses[0].partition_responses[0]
            assert answer.error_code == 0


def read(broker, topic, partition):
    """What a consumer gets that starts at the beginning: offset, key and value of every record."""
    found, offset = [], 0
    while True:
        part = FetchRequest.Topic.Partition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[FetchRequest.Topic(topic=topic, partitions=[part])]
        )
        answer = send(broker, request, FETCH_BY_NAME).responses[0].partitions[0]
        assert answer.error_code == 0
        data = bytes(answer.records or b"")
        for position, header in iter_batches(data, partial=True):
            found += [(each.offset, each.key, each.value) for each in records_of(data, position)]
            offset = header.next_offset
        if not data:
            assert offset == answer.high_watermark
            return found


def newest(partition):
    number = VALUES - 1
    return [
        (number * KEYS + at, b"key-%d" % at, b"value %d of %d in %d" % (number, at, partition))
        for at in range(KEYS)
    ]


def alter(broker, kind, name, **settings):
    changes = [
        IncrementalAlterConfigsRequest.Resource.Setting(
            name=key.replace("_", "."), config_operation=SET, value=str(value)
        )
        for key, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configs=changes
    )
    answer = send(broker, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


def state_of(broker, topic, partition=0):
    asked = CompactTopicsRequest.Topic(name=topic, partitions=[partition])
    answer = send(broker, CompactTopicsRequest(topics=[asked], start=False), 0)
    return answer.topics[0].partitions[0]


def until(is_so):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.02)


# --- what it does ---------------------------------------------------------------------------------------------------


def test_of_three_values_a_reader_sees_the_newest_at_its_old_offset(broker, ottla):
    broker.create_topic("orders", PARTITIONS, cleanup_policy="compact")
    fill(broker, "orders")
    ran = ottla("topic", "compact", "orders", "--wait", "--json")
    rows = ran.json["partitions"]
    assert [row["partition"] for row in rows] == [0, 1]
    for row in rows:
        assert (row["records_before"], row["records_after"]) == (VALUES * KEYS, KEYS)
        assert 60 < row["saved_percent"] < 70
        assert row["bytes_before"] > 2 * row["bytes_after"]
    for partition in range(PARTITIONS):
        assert read(broker, "orders", partition) == newest(partition)
    broker.restart()
    assert read(broker, "orders", 0) == newest(0)


def test_what_is_compact_already_is_done_at_once(broker, ottla):
    broker.create_topic("orders", PARTITIONS, cleanup_policy="compact,delete")
    fill(broker, "orders")
    assert ottla("topic", "compact", "orders", "--wait").code == 0
    again = ottla("topic", "compact", "orders", "--wait")
    assert (again.code, {row["bytes_before"] for row in again.rows}) == (0, {"-"})


def test_one_partition_is_compacted_and_the_other_left_alone(broker, ottla):
    broker.create_topic("orders", PARTITIONS, cleanup_policy="compact")
    fill(broker, "orders")
    assert ottla("topic", "compact", "orders", "--partition", "1", "--wait").code == 0
    assert len(read(broker, "orders", 0)) == VALUES * KEYS
    assert read(broker, "orders", 1) == newest(1)


def test_without_waiting_it_comes_to_the_same_in_the_end(broker, ottla):
    broker.create_topic("orders", cleanup_policy="compact")
    fill(broker, "orders", 1)
    ran = ottla("topic", "compact", "orders")
    assert (ran.code, len(ran.rows)) == (0, 1)
    until(lambda: state_of(broker, "orders").runs == 1)
    assert read(broker, "orders", 0) == newest(0)


def test_a_broker_in_memory_compacts_as_well(capsys):
    with Broker(memory=True) as broker:
        broker.create_topic("orders", cleanup_policy="compact")
        fill(broker, "orders", 1)
        assert runner(capsys, broker.bootstrap_server)("topic", "compact", "orders", "--wait").code == 0
        assert read(broker, "orders", 0) == newest(0)


# --- what it refuses ------------------------------------------------------------------------------------------------


def test_a_topic_is_not_compacted_before_its_policy_says_so(broker, ottla):
    broker.create_topic("orders", PARTITIONS)
    fill(broker, "orders")
    ran = ottla("topic", "compact", "orders", "--wait")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "ottla: orders:0,1: INVALID_CONFIG: topic orders is not compacted: its cleanup.policy is delete; "
        "set it to compact, or to compact,delete, and ask again\n"
    )
    alter(broker, TOPIC, "orders", cleanup_policy="compact")
    assert ottla("topic", "compact", "orders", "--wait").code == 0
    assert read(broker, "orders", 0) == newest(0)


def test_a_broker_that_is_told_to_compact_nothing_says_so(broker, ottla):
    broker.create_topic("orders", cleanup_policy="compact")
    alter(broker, BROKER, "", log_cleaner_enable="false")
    ran = ottla("topic", "compact", "orders")
    assert ran.code == 1
    assert "broker 1 compacts nothing: its log.cleaner.enable is false" in ran.err


def test_a_refusal_by_the_broker_has_its_exit_code(broker, ottla):
    broker.create_topic("orders", cleanup_policy="compact")
    broker.fail_next("CompactTopics", "TOPIC_AUTHORIZATION_FAILED")
    assert ottla("topic", "compact", "orders").code == 5
    ran = ottla("topic", "compact", "nowhere")
    assert (ran.code, ran.err) == (4, "ottla: UNKNOWN_TOPIC_OR_PARTITION: there is no topic nowhere\n")


# --- while it runs --------------------------------------------------------------------------------------------------


def test_a_broker_that_restarts_is_waited_for_and_asked_again(capsys):
    with Broker(config={RATE: 1}) as broker:  # so slow that it does not end by itself
        broker.create_topic("orders", cleanup_policy="compact")
        fill(broker, "orders", 1)
        codes = []
        args = ["topic", "compact", "orders", "--wait", "--timeout", "60", "-b", broker.bootstrap_server]
        waiting = threading.Thread(target=lambda: codes.append(main(args)))
        waiting.start()
        until(lambda: state_of(broker, "orders").state in ("mapping", "copying"))
        broker.restart()
        until(lambda: state_of(broker, "orders").state in ("mapping", "copying"))
        assert codes == []
        alter(broker, BROKER, "", **{RATE: 1e9})
        waiting.join(PATIENCE_SECONDS)
        assert codes == [0], capsys.readouterr().err
        assert read(broker, "orders", 0) == newest(0)


def test_a_cleaner_that_is_paused_stays_where_it_is_until_it_may_go_on(broker, ottla):
    broker.create_topic("orders", cleanup_policy="compact")
    fill(broker, "orders", 1)
    alter(broker, BROKER, "", **{RATE: 1})
    assert ottla("topic", "compact", "orders").code == 0
    until(lambda: state_of(broker, "orders").state in ("mapping", "copying"))
    alter(broker, BROKER, "", log_cleaner_enable="false")
    assert state_of(broker, "orders").state == "paused"
    alter(broker, BROKER, "", log_cleaner_enable="true", **{RATE: 1e9})
    until(lambda: state_of(broker, "orders").state == "idle")
    assert state_of(broker, "orders").error_code == ErrorCode.NONE
    assert read(broker, "orders", 0) == newest(0)
