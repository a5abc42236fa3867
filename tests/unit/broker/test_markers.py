"""A transaction that was decided gets its marker everywhere, whatever it takes, and never ends another one."""

import asyncio

import pytest

from ottla.broker.markers import MarkerWriter, TransactionEnder
from ottla.broker.verification import Guards
from ottla.core.clock import ManualClock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import WriteTxnMarkersRequest
from ottla.records.batch import iter_batches
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.replication.machine import Producer
from ottla.transactions.markers import WriteMarkers
from tests.unit.broker.handlers import serving
from tests.unit.broker.handlers.logs import copied, led_partition
from tests.unit.broker.handlers.serving import scenario
from tests.unit.storage.helpers import NOW

KNOWN, GONE = (lambda place: False), (lambda place: True)
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)


def begin(partition, *, epoch=0):
    """Open a transaction of producer 7."""
    data = build(
        [Record(0, NOW, b"k", b"v")],
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    partition.append(data, -1, NOW)


def marker_for(*places, epoch=0, commit=True, coordinator_epoch=3, version=0):
    topics = [
        WriteTxnMarkersRequest.Marker.Topic(name=place.topic, partition_indexes=[place.partition])
        for place in places
    ]
    return WriteTxnMarkersRequest.Marker(
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=topics,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def writer_on(*partitions, timeout_ms=60_000):
    return MarkerWriter(serving.Replicas(partitions), ManualClock(NOW), Guards(), lambda: timeout_ms)


@scenario
async def test_a_marker_ends_the_transaction_and_lets_readers_go_on():
    orders = led_partition()
    begin(orders)
    writer, told = writer_on(orders), []
    writer.on_written = lambda *what: told.append(what)
    assert orders.log.last_stable_offset == 0
    assert await writer.write(marker_for(ORDERS)) == {ORDERS: ErrorCode.NONE}
    assert orders.log.last_stable_offset == 2
    assert told == [(ORDERS, Producer(7, 0), True)]
    data = orders.log.load(orders.log.read(0, 1 << 20))
    assert [header.is_control for _, header in iter_batches(data)] == [False, True]


@scenario
async def test_an_abort_is_remembered_for_readers():
    orders = led_partition()
    begin(orders)
    await writer_on(orders).write(marker_for(ORDERS, commit=False))
    assert [txn.producer_id for txn in orders.log.aborted_txns(0, 2)] == [7]


@scenario
async def test_each_partition_has_its_own_outcome():
    orders = led_partition()
    codes = await writer_on(orders).write(marker_for(ORDERS, PAYMENTS))
    assert codes == {ORDERS: ErrorCode.NONE, PAYMENTS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@scenario
async def test_a_coordinator_that_was_replaced_ends_nothing():
    orders = led_partition()
    writer = writer_on(orders)
    begin(orders)
    await writer.write(marker_for(ORDERS, coordinator_epoch=3))
    begin(orders, epoch=1)
    codes = await writer.write(marker_for(ORDERS, epoch=1, coordinator_epoch=2))
    assert codes == {ORDERS: ErrorCode.TRANSACTION_COORDINATOR_FENCED}


@scenario
async def test_a_late_marker_does_not_end_the_next_transaction():
    orders = led_partition()
    writer = writer_on(orders)
    begin(orders, epoch=0)
    await writer.write(marker_for(ORDERS, epoch=1, version=2))
    assert await writer.write(marker_for(ORDERS, epoch=1, version=2)) == {ORDERS: ErrorCode.NONE}  # a retry
    begin(orders, epoch=1)
    late = await writer.write(marker_for(ORDERS, epoch=1, version=2))
    assert late == {ORDERS: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert orders.log.last_stable_offset < orders.log.end_offset


@pytest.mark.parametrize(("version", "is_broken"), [(0, True), (2, False)])
@scenario
async def test_a_marker_with_an_epoch_of_its_own_does_not_end_what_begins_with_that_epoch(version, is_broken):
    """A newer producer goes on with the marker's epoch before the marker is written."""
    orders, guards = led_partition(), Guards()
    writer = MarkerWriter(serving.Replicas([orders]), ManualClock(NOW), guards, lambda: 1000)
    before, after = (guards.hold(ORDERS, Producer(7, epoch)) for epoch in (0, 1))
    await writer.write(marker_for(ORDERS, epoch=1, version=version))
    assert (before.is_broken, after.is_broken) == (True, is_broken)


@scenario
async def test_a_marker_counts_when_the_replicas_have_it():
    orders = led_partition(replicas=(1, 2))
    writing = asyncio.ensure_future(writer_on(orders).write(marker_for(ORDERS)))
    await asyncio.sleep(0)
    assert not writing.done()
    copied(orders, 2, 1)
    assert await writing == {ORDERS: ErrorCode.NONE}


@scenario
async def test_replicas_that_do_not_come_are_waited_for_in_vain():
    orders = led_partition(replicas=(1, 2))
    codes = await writer_on(orders, timeout_ms=1).write(marker_for(ORDERS))
    assert codes == {ORDERS: ErrorCode.REQUEST_TIMED_OUT}


# --- carrying out what was decided


def effect_on(*places, commit=True):
    return WriteMarkers("t", Producer(7, 0), commit, places, 3, 0)


class Told:
    """A coordinator that hears which partitions have their marker."""

    def __init__(self, error=None):
        self.places = []
        self.error = error
        self.changed = asyncio.Event()

    async def __call__(self, effect, done):
        if self.error is not None:
            raise self.error
        self.places.append(sorted(done))
        self.changed.set()


@scenario
async def test_where_nothing_is_waited_for_the_transaction_is_over_at_once():
    orders, told = led_partition(), Told()
    begin(orders)
    TransactionEnder(writer_on(orders), KNOWN, told).carry_out(effect_on(ORDERS))
    assert told.places == [[ORDERS]]
    assert orders.log.last_stable_offset == 2


@scenario
async def test_a_transaction_that_wrote_nothing_is_complete_without_markers():
    told = Told()
    TransactionEnder(writer_on(), KNOWN, told).carry_out(effect_on())
    assert told.places == [[]]


@scenario
async def test_a_deleted_topic_needs_no_marker():
    told = Told()
    TransactionEnder(writer_on(), GONE, told).carry_out(effect_on(PAYMENTS))
    assert told.places == [[PAYMENTS]]


@scenario
async def test_a_partition_that_is_not_there_yet_gets_its_marker_when_it_comes():
    orders, payments, told = led_partition(), led_partition("payments"), Told()
    replicas = serving.Replicas([orders])
    writer = MarkerWriter(replicas, ManualClock(NOW), Guards(), lambda: 1000)
    ender = TransactionEnder(writer, KNOWN, told)
    ender.carry_out(effect_on(ORDERS, PAYMENTS))
    assert told.places == [[ORDERS]]
    told.changed.clear()
    replicas.partitions[PAYMENTS] = payments
    await told.changed.wait()
    assert told.places == [[ORDERS], [PAYMENTS]]
    assert orders.log.end_offset == 1, "a partition that has its marker is left alone"
    await ender.close()


@scenario
async def test_nobody_tries_again_once_the_coordinator_has_moved():
    told = Told(KafkaError(ErrorCode.NOT_COORDINATOR, "moved"))
    ender = TransactionEnder(writer_on(led_partition()), KNOWN, told)
    ender.carry_out(effect_on(ORDERS, PAYMENTS))
    assert len(ender) == 0


@scenario
async def test_a_coordinator_that_is_slow_to_replicate_does_not_keep_the_others_from_their_markers():
    orders, payments = led_partition(), led_partition("payments")
    told = Told(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not replicated in time"))
    replicas = serving.Replicas([orders])
    writer = MarkerWriter(replicas, ManualClock(NOW), Guards(), lambda: 1000)
    ender = TransactionEnder(writer, KNOWN, told)
    ender.carry_out(effect_on(ORDERS, PAYMENTS))
    told.error, replicas.partitions[PAYMENTS] = None, payments
    assert len(ender) == 1
    await told.changed.wait()
    assert (told.places, payments.log.end_offset) == ([[PAYMENTS]], 1)


@scenario
async def test_closing_leaves_no_task_behind():
    ender = TransactionEnder(writer_on(), KNOWN, Told())
    ender.carry_out(effect_on(PAYMENTS))
    assert len(ender) == 1
    await ender.close()
    assert len(ender) == 0


@scenario
async def test_a_new_order_for_an_id_replaces_the_old_one():
    told = Told()
    replicas = serving.Replicas([])
    writer = MarkerWriter(replicas, ManualClock(NOW), Guards(), lambda: 1000)
    ender = TransactionEnder(writer, KNOWN, told)
    ender.carry_out(effect_on(PAYMENTS))
    ender.carry_out(effect_on(ORDERS))
    assert len(ender) == 1
    replicas.partitions |= {ORDERS: led_partition(), PAYMENTS: led_partition("payments")}
    await told.changed.wait()
    while len(ender):
        await asyncio.sleep(0)
    assert told.places == [[ORDERS]], "what the old order was about is nobody's business any more"


@scenario
async def test_a_partition_that_knows_a_newer_epoch_does_not_keep_a_transaction_from_ending():
    orders, payments, told = led_partition(), led_partition("payments"), Told()
    begin(orders)
    begin(payments, epoch=5)  # of whoever knows the producer id, or of an abort by hand
    TransactionEnder(writer_on(orders, payments), KNOWN, told).carry_out(effect_on(ORDERS, PAYMENTS))
    assert told.places == [[ORDERS, PAYMENTS]]
    assert payments.log.end_offset == 1, "the newer transaction is left alone"


@scenario
async def test_a_coordinator_that_was_replaced_leaves_the_rest_to_the_next():
    orders, told = led_partition(), Told()
    begin(orders)
    writer = writer_on(orders)
    await writer.write(marker_for(ORDERS, coordinator_epoch=9))
    begin(orders, epoch=1)
    ender = TransactionEnder(writer, KNOWN, told)
    ender.carry_out(WriteMarkers("t", Producer(7, 1), True, (ORDERS,), 3, 0))
    assert told.places == [] and len(ender) == 0
