"""Produce: every version, the order of appends, what is waited for, and what goes wrong."""

import asyncio
import errno
import threading
import uuid

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records import legacy
from ottla.records.batch import check, records_of
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.replication.state import PartitionState
from tests.unit.broker.handlers.fakes import node
from tests.unit.broker.handlers.logs import EPOCH, copied, led_partition
from tests.unit.broker.handlers.serving import Client, Watching, scenario, serving
from tests.unit.storage.helpers import NOW, marker, values_of

LARGE = 200_000
"""Bytes of a value that is not recompressed on the spot."""


def records(*values, codec=Codec.NONE, **how):
    return build(
        [Record(i, NOW, b"k", value) for i, value in enumerate(values or (b"tea",))], codec=codec, **how
    )


def request(*parts, acks=-1, timeout_ms=10_000):
    """`parts` are (partition, records)."""
    topics = []
    for partition, data in parts:
        part = ProduceRequest.Topic.Partition(index=partition.topic_partition.partition, records=data)
        topics.append(
            ProduceRequest.Topic(
                name=partition.topic_partition.topic, topic_id=partition.topic_id, partition_data=[part]
            )
        )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


async def answers(future):
    return [topic.partition_responses[0] for topic in (await future).responses]


async def produced(partition, data=None, *, version=9, broker=None, acks=-1, timeout_ms=10_000):
    client = Client(broker or serving(partition))
    sent = request((partition, records() if data is None else data), acks=acks, timeout_ms=timeout_ms)
    (answer,) = await answers(client.post(sent, version))
    return answer


# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
@scenario
async def test_batches_get_the_next_offsets_in_every_version(version, acks):
    partition = led_partition()
    for first in (0, 2, 4):
        answer = await produced(partition, records(b"a", b"b"), version=version, acks=acks)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, first, -1)
    assert values_of(partition.log) == {0: b"a", 1: b"b", 2: b"a", 3: b"b", 4: b"a", 5: b"b"}


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
@scenario
async def test_old_message_sets_become_batches(version, magic, codec):
    partition = led_partition()
    old = legacy.build([Record(i, NOW, b"k", b"%d" % i) for i in range(3)], magic, codec=codec)
    answer = await produced(partition, old, version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert check(partition.log.read(0, 1 << 20).read()).codec is codec
    assert values_of(partition.log) == {0: b"0", 1: b"1", 2: b"2"}


@scenario
async def test_several_topics_are_answered_in_the_order_in_which_they_were_asked_for():
    orders, visits = led_partition("orders"), led_partition("visits")
    client = Client(serving(orders, visits))
    sent = request((visits, records()), (orders, records(b"a", b"b")), (visits, records()))
    response = await client.send(sent, 12)
    assert [topic.name for topic in response.responses] == ["visits", "orders", "visits"]
    assert [topic.partition_responses[0].base_offset for topic in response.responses] == [0, 0, 1]


@scenario
async def test_topics_are_known_by_their_id():
    partition = led_partition()
    client = Client(serving(partition))
    response = await client.send(request((partition, records())), 13)
    assert response.responses[0].topic_id == partition.topic_id
    partition.topic_id = uuid.uuid4()
    (answer,) = await answers(client.post(request((partition, records())), 13))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert partition.log.end_offset == 1


@scenario
async def test_a_topic_that_was_created_again_gets_nothing_that_was_meant_for_the_one_before():
    """Orders for the new one have come, but Metadata still has the id of the old one."""
    before, after = led_partition(), led_partition()
    broker = serving(before)
    broker.replicas.partitions[after.topic_partition] = after
    (answer,) = await answers(Client(broker).post(request((before, records())), 13))
    assert (answer.error_code, after.log.end_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, 0)


@scenario
async def test_a_request_for_nothing_is_answered_with_nothing():
    assert (await Client(serving()).send(request(), 9)).responses == []


@scenario
async def test_log_append_time_is_the_brokers_and_is_told():
    partition = led_partition(settings={"message.timestamp.type": "LogAppendTime"})
    broker = serving(partition)
    answer = await produced(partition, broker=broker)
    assert abs(answer.log_append_time_ms - broker.clock.now_ms()) < 60_000
    (record,) = records_of(partition.log.read(0, 1 << 20).read())
    assert record.timestamp == answer.log_append_time_ms


@scenario
async def test_the_start_of_the_log_is_told():
    partition = led_partition()
    await produced(partition, records(b"a", b"b"))
    partition.log.advance_log_start(1)
    assert (await produced(partition)).log_start_offset == 1


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [2, -2, 77])
@scenario
async def test_other_acks_are_refused(acks):
    partition = led_partition()
    with pytest.raises(KafkaError) as caught:
        await produced(partition, acks=acks)
    assert caught.value.code is ErrorCode.INVALID_REQUIRED_ACKS
    assert partition.log.end_offset == 0


@pytest.mark.parametrize(
    ("settings", "data", "code"),
    [
        ({"max.message.bytes": "1000"}, records(b"x" * 1000), ErrorCode.MESSAGE_TOO_LARGE),
        ({}, records()[:-1], ErrorCode.CORRUPT_MESSAGE),
        ({}, records()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        ({}, b"", ErrorCode.INVALID_RECORD),
        ({}, records(producer_id=7), ErrorCode.INVALID_RECORD),
        ({}, records() + records(), ErrorCode.INVALID_RECORD),
        (
            {"message.timestamp.after.max.ms": "1"},
            build([Record(0, 2**60, None, b"")]),
            ErrorCode.INVALID_TIMESTAMP,
        ),
        ({"min.insync.replicas": "2"}, records(), ErrorCode.NONE),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
@scenario
async def test_what_the_topic_does_not_take_is_refused_with_a_reason(settings, data, code):
    partition = led_partition(settings=settings)
    answer = await produced(partition, data, version=8)
    assert answer.error_code == code
    if code:
        assert (answer.base_offset, partition.log.end_offset) == (-1, 0)
        assert answer.error_message


@pytest.mark.parametrize(
    ("settings", "data", "start"),
    [
        ({}, records(producer_id=7), 1),
        ({"cleanup.policy": "compact"}, build([Record(0, NOW, None, b"")]), 1),
        ({"max.message.bytes": "1000"}, records(b"x" * 1000), -1),
        ({}, records() + records(), -1),
    ],
    ids=["a contradiction", "no key", "too large", "two batches"],
)
@scenario
async def test_who_is_refused_by_the_log_is_told_where_it_starts(settings, data, start):
    partition = led_partition(settings=settings)
    await produced(partition)
    partition.log.advance_log_start(1)
    assert (await produced(partition, data)).log_start_offset == start


@scenario
async def test_one_partition_that_is_refused_does_not_hold_up_the_others():
    orders, visits = led_partition("orders"), led_partition("visits")
    gone = led_partition("gone")
    client = Client(serving(orders, visits))
    sent = request((orders, b"nonsense" * 20), (gone, records()), (visits, records()))
    codes = [answer.error_code for answer in await answers(client.post(sent, 9))]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert visits.log.end_offset == 1


@scenario
async def test_records_without_a_key_are_named_one_by_one():
    partition = led_partition(settings={"cleanup.policy": "compact"})
    data = build([Record(0, NOW, b"k", b"1"), Record(1, NOW, None, b"2"), Record(2, NOW, None, b"3")])
    answer = await produced(partition, data, version=8)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert all(error.batch_index_error_message for error in answer.record_errors)
    old = await produced(partition, data, version=7)
    assert (old.error_code, old.record_errors) == (ErrorCode.INVALID_RECORD, [])


@scenario
async def test_who_may_not_write_does_not():
    partition = led_partition()
    broker = serving(partition)
    broker.authorizer.deny(Operation.WRITE, "orders")
    answer = await produced(partition, broker=broker)
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert partition.log.end_offset == 0


@scenario
async def test_internal_topics_are_written_by_brokers_and_by_whoever_says_to_be_an_administrator():
    partition = led_partition("__transaction_state")
    refused = await produced(partition)
    assert (refused.error_code, partition.log.end_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)
    admin = Client(serving(partition), client_id="__admin_client")
    (taken,) = await answers(admin.post(request((partition, records())), 9))
    assert (taken.error_code, partition.log.end_offset) == (0, 1)


@scenario
async def test_too_few_in_sync_replicas_are_refused_before_anything_is_written():
    partition = led_partition(replicas=(1, 2), settings={"min.insync.replicas": "2"})
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    assert (await produced(partition)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await produced(partition, acks=1)).error_code == 0


@scenario
async def test_who_asks_the_wrong_broker_is_told_the_right_one():
    partition = led_partition(leader=2, replicas=(1, 2), epoch=9)
    client = Client(serving(partition, nodes=[node(1), node(2, rack="r2")]))
    response = await client.send(request((partition, records())), 10)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 9)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (2, "plaintext2", 9002, "r2")
    old = await client.send(request((partition, records())), 9)
    assert old.responses[0].partition_responses[0].current_leader is None


# --- acks=0 -------------------------------------------------------------------------------------------------------


@scenario
async def test_who_wants_no_answer_gets_none():
    partition = led_partition()
    client = Client(serving(partition))
    assert await client.send(request((partition, records()), acks=0), 9) is None
    assert (partition.log.end_offset, client.connection.closed) == (1, [])


@pytest.mark.parametrize("data", [b"nonsense" * 20, records(b"x" * 2000), records(b"x" * LARGE)])
@scenario
async def test_who_wants_no_answer_learns_of_a_failure_by_losing_the_connection(data):
    partition = led_partition(settings={"max.message.bytes": "1000", "compression.type": "gzip"})
    client = Client(serving(partition))
    assert await client.send(request((partition, data), acks=0), 9) is None
    (reason,) = client.connection.closed
    assert "orders-0" in reason
    assert partition.log.end_offset == 0


# --- order --------------------------------------------------------------------------------------------------------


class Gate:
    """Holds up the thread that opens batches."""

    def __init__(self, broker):
        self.opened = threading.Event()
        broker.openers.submit(self.opened.wait, 60)


@scenario
async def test_a_small_batch_does_not_overtake_a_large_one_that_is_compressed_anew():
    zipped = led_partition("zipped", settings={"compression.type": "gzip"})
    plain = led_partition("plain")
    broker = serving(zipped, plain)
    client, gate, watching = Client(broker), Gate(broker), Watching()
    broker.observers.append(watching)
    first = client.post(request((zipped, records(b"x" * LARGE))), 9)
    second = client.post(request((zipped, records(b"small"))), 9)
    third = client.post(request((plain, records(b"other"))), 9)
    fourth = client.post(request((zipped, records(b"y" * LARGE)), (plain, records(b"last"))), 9)
    await asyncio.sleep(0)
    assert (zipped.log.end_offset, plain.log.end_offset) == (0, 0)
    gate.opened.set()
    offsets = [
        [answer.base_offset for answer in await answers(each)] for each in (first, second, third, fourth)
    ]
    assert offsets == [[0], [1], [0], [2, 1]]
    order = [(what, where, first) for what, where, first, _ in watching.seen]
    assert order == [
        ("appended", "zipped-0", 0),
        ("appended", "zipped-0", 1),
        ("appended", "plain-0", 0),
        ("appended", "zipped-0", 2),
        ("appended", "plain-0", 1),
    ]
    assert client.connection.appending is None


@scenario
async def test_other_connections_do_not_wait_for_it():
    partition = led_partition(settings={"compression.type": "gzip"})
    broker = serving(partition)
    gate = Gate(broker)
    slow = Client(broker).post(request((partition, records(b"x" * LARGE))), 9)
    (quick,) = await answers(Client(broker).post(request((partition, records(b"small"))), 9))
    gate.opened.set()
    assert (quick.base_offset, (await answers(slow))[0].base_offset) == (0, 1)


@scenario
async def test_one_that_cannot_be_opened_lets_the_next_one_pass():
    partition = led_partition(settings={"compression.type": "gzip"})
    client = Client(serving(partition))
    bad = bytearray(records(b"x" * LARGE))
    bad[-1] ^= 1
    (first,), (second,) = [
        await answers(each)
        for each in [
            client.post(request((partition, bytes(bad))), 9),
            client.post(request((partition, records())), 9),
        ]
    ]
    assert (first.error_code, second.error_code) == (ErrorCode.CORRUPT_MESSAGE, 0)
    assert client.connection.appending is None


@scenario
async def test_a_client_that_hangs_up_leaves_nothing_waiting():
    partition = led_partition(settings={"compression.type": "gzip"})
    broker = serving(partition)
    client, gate = Client(broker), Gate(broker)
    posted = [client.post(request((partition, records(b"x" * LARGE))), 9) for _ in range(3)]
    await asyncio.sleep(0)
    for each in posted:
        each.cancel()
    await asyncio.wait(posted)
    gate.opened.set()
    assert client.connection.appending is None
    assert (await produced(partition, broker=broker)).base_offset == 0


@scenario
async def test_a_topic_that_goes_while_a_batch_is_opened_takes_nothing_more():
    partition = led_partition(settings={"compression.type": "gzip"})
    broker = serving(partition)
    gate = Gate(broker)
    posted = Client(broker).post(request((partition, records(b"x" * LARGE))), 9)
    broker.replicas.drop(partition)
    gate.opened.set()
    assert (await answers(posted))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.end_offset == 0


# --- waiting for the disk -----------------------------------------------------------------------------------------

FLUSHED = {"flush.messages": "1"}


@pytest.mark.parametrize("acks", [1, -1])
@scenario
async def test_a_topic_that_flushes_is_acknowledged_when_the_disk_has_it(acks):
    partition = led_partition(settings=FLUSHED)
    answer = await produced(partition, acks=acks)
    assert (answer.error_code, partition.log.recovery_point) == (0, 1)


@scenario
async def test_what_is_to_be_synced_can_be_read_when_it_is():
    partition = led_partition(settings=FLUSHED)
    partition.append(records(), 1, NOW)
    assert (partition.high_watermark.value, partition.log.end_offset) == (0, 1)
    partition.log.flush()
    partition.synced()
    assert partition.high_watermark.value == 1


@scenario
async def test_those_that_come_while_the_disk_works_share_the_next_sync(monkeypatch):
    partition = led_partition(settings=FLUSHED)
    broker, jobs, begin = serving(partition), [], partition.log.begin_flush
    monkeypatch.setattr(partition.log, "begin_flush", lambda: jobs.append(1) or begin())
    posted = [Client(broker).post(request((partition, records())), 9) for _ in range(20)]
    offsets = [(await answers(each))[0].base_offset for each in posted]
    assert offsets == list(range(20))
    assert (len(jobs), partition.log.recovery_point) == (1, 20)


@scenario
async def test_when_a_sync_fails_nothing_is_acknowledged_and_nothing_more_is_taken():
    partition = led_partition(settings=FLUSHED)
    broker = serving(partition)
    await produced(partition, broker=broker)
    partition.log.files.fail_next("sync", errno.EIO)
    posted = [Client(broker).post(request((partition, records())), 9) for _ in range(3)]
    codes = [(await answers(each))[0].error_code for each in posted]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert set(broker.replicas.failed) == {partition.topic_partition}
    assert (await produced(partition, broker=broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@scenario
async def test_a_retry_of_what_is_not_synced_yet_waits_as_well():
    partition = led_partition(settings=FLUSHED)
    broker = serving(partition)
    data = records(producer_id=7, producer_epoch=0, base_sequence=0)
    partition.append(data, 1, NOW)
    answer = await produced(partition, data, broker=broker)
    assert (answer.error_code, answer.base_offset, partition.log.recovery_point) == (0, 0, 1)


@scenario
async def test_a_full_disk_is_told_and_does_not_count_as_failed():
    partition = led_partition()
    broker = serving(partition)
    disk = partition.log.files
    await produced(partition, broker=broker)
    disk.capacity = disk.used
    assert (await produced(partition, broker=broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.replicas.failed == []
    disk.capacity = None
    assert (await produced(partition, broker=broker)).base_offset == 1


@scenario
async def test_a_topic_that_goes_while_others_are_synced_is_not_acknowledged():
    orders, visits = led_partition("orders", settings=FLUSHED), led_partition("visits", settings=FLUSHED)
    broker = serving(orders, visits)
    posted = Client(broker).post(request((orders, records()), (visits, records())), 9)
    broker.replicas.drop(visits)
    codes = [answer.error_code for answer in await answers(posted)]
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


# --- waiting for replicas -----------------------------------------------------------------------------------------


@scenario
async def test_all_replicas_are_waited_for():
    partition = led_partition(replicas=(1, 2))
    broker = serving(partition)
    posted = Client(broker).post(request((partition, records())), 9)
    quick = await produced(partition, broker=broker, acks=1)
    assert (quick.error_code, posted.done()) == (0, False)
    copied(partition, 2, 1)
    assert (await answers(posted))[0].base_offset == 0


@scenario
async def test_patience_has_an_end_for_the_whole_request():
    parts = [led_partition(name, replicas=(1, 2)) for name in ("a", "b", "c", "d")]
    client = Client(serving(*parts))
    posted = client.post(request(*((part, records()) for part in parts), timeout_ms=50), 9)
    assert {answer.error_code for answer in await answers(posted)} == {ErrorCode.REQUEST_TIMED_OUT}
    assert [part.high_watermark.waiting for part in parts] == [0] * 4
    assert [part.log.end_offset for part in parts] == [1] * 4, "they may be replicated yet"


@scenario
async def test_a_leader_that_is_replaced_meanwhile_says_so():
    partition = led_partition(replicas=(1, 2))
    posted = Client(serving(partition)).post(request((partition, records())), 9)
    topic = partition.topic_partition.topic
    partition.follow_orders(PartitionState(topic, partition.topic_id, 0, 2, EPOCH + 1, 2, (1, 2), (2,)))
    assert (await answers(posted))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@scenario
async def test_replicas_that_fall_behind_meanwhile_are_told_of():
    partition = led_partition(replicas=(1, 2), settings={"min.insync.replicas": "2"})
    posted = Client(serving(partition)).post(request((partition, records())), 9)
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    assert (await answers(posted))[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@scenario
async def test_too_few_in_sync_while_the_disk_works_are_told_of_at_once():
    partition = led_partition(replicas=(1, 2), settings={"min.insync.replicas": "2", "flush.messages": "1"})
    broker = serving(partition)
    posted = Client(broker).post(request((partition, records())), 9)
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    assert (await answers(posted))[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@scenario
async def test_a_leader_that_was_another_meanwhile_does_not_know_what_became_of_the_records():
    """While the disk worked, leadership went and came back: somebody else may have written in the same place."""
    partition = led_partition(replicas=(1, 2), settings={"flush.messages": "1"})
    posted = Client(serving(partition)).post(request((partition, records()), acks=1), 9)
    for epoch, leader in ((EPOCH + 1, 2), (EPOCH + 2, 1)):
        partition.follow_orders(
            partition.state._replace(leader=leader, leader_epoch=epoch, partition_epoch=epoch)
        )
    assert (await answers(posted))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("acks", [0, 1])
@scenario
async def test_a_leader_that_is_cut_off_takes_nothing_that_others_would_not_have(acks):
    """Another leader may have been elected. With acks=all followers have a say: those that left do not ask any more."""
    partition = led_partition(replicas=(1, 2))
    broker = serving(partition)
    broker.may_lead = lambda: False
    if acks:
        assert (await produced(partition, broker=broker, acks=acks)).error_code == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
    else:
        await Client(broker).send(request((partition, records()), acks=0), 9)
    assert partition.log.end_offset == 0
    posted = Client(broker).post(request((partition, records())), 9)
    copied(partition, 2, 1)
    assert (await answers(posted))[0].error_code == 0


@scenario
async def test_a_leader_that_is_cut_off_may_be_told_to_go_on_as_kafka_does():
    partition = led_partition(replicas=(1, 2))
    broker = serving(partition)
    broker.may_lead = lambda: False
    broker.config.update({"replication.session.lost.refuse": "false"})
    assert (await produced(partition, broker=broker, acks=1)).error_code == 0


@scenario
async def test_a_partition_with_one_replica_cannot_be_led_by_anybody_else():
    partition = led_partition()
    broker = serving(partition)
    broker.may_lead = lambda: False
    assert (await produced(partition, broker=broker, acks=1)).error_code == 0


# --- idempotence, counting ----------------------------------------------------------------------------------------


@scenario
async def test_a_batch_that_is_sent_again_is_written_once_and_counted_once():
    partition = led_partition()
    broker, watching = serving(partition), Watching()
    broker.observers.append(watching)
    for sequence in (0, 1, 0, 1):
        data = records(producer_id=7, producer_epoch=0, base_sequence=sequence)
        answer = await produced(partition, data, broker=broker)
        assert (answer.error_code, answer.base_offset) == (0, sequence)
    skipped = records(producer_id=7, producer_epoch=0, base_sequence=5)
    assert (await produced(partition, skipped, broker=broker)).error_code == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert watching.seen == [("appended", "orders-0", 0, 0), ("appended", "orders-0", 1, 1)]
    assert broker.topic_meters["orders"].records_in.value == 2


@pytest.mark.parametrize(
    "data",
    [
        marker(7, commit=True),
        records(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
    ],
)
@scenario
async def test_records_of_a_transaction_need_its_id_or_nothing_of_the_request_is_written(data):
    partition = led_partition()
    with pytest.raises(KafkaError) as refused:
        await produced(partition, data, version=8)
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert partition.log.end_offset == 0
