"""The coordinator vouches for the first batch of a transaction, and a marker that comes meanwhile takes that back."""

import threading

import pytest

from ottla.broker.coordinators import Coordinator
from ottla.broker.verification import Guards, TransactionalBatch, Verifier, is_open
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.replication.machine import Producer
from tests.unit.broker.handlers.logs import led_partition
from tests.unit.broker.handlers.serving import Client, scenario, serving
from tests.unit.storage.helpers import NOW, marker

PLACE = TopicPartition("orders", 0)
PRODUCER = Producer(7, 0)


def records(sequence=0, epoch=0, value=b"v"):
    return build(
        [Record(0, NOW, b"k", value)],
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


class Transactions(Coordinator):
    """Answers as it is told to, in turn; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def _next(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ErrorCode) and answer:
            raise KafkaError(answer, "as told")

    async def run(self, key, decide):
        self.asked.append(("add", key))
        self._next()

    async def read(self, key, ask):
        self.asked.append(("verify", key))
        self._next()
        return {PLACE: ErrorCode.NONE}


async def verdict(*answers, version=12):
    transactions = Transactions(*answers)
    refused = await Verifier(transactions, Guards(), lambda: True).verify("t", PRODUCER, [PLACE], version)
    return transactions.asked, refused[PLACE].code if PLACE in refused else ErrorCode.NONE


@scenario
async def test_newer_producers_have_their_partition_added_and_older_ones_are_verified():
    assert await verdict(ErrorCode.NONE, version=12) == ([("add", "t")], ErrorCode.NONE)
    assert await verdict(ErrorCode.NONE, version=11) == ([("verify", "t")], ErrorCode.NONE)


@pytest.mark.parametrize(
    ("answer", "version", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NOT_COORDINATOR, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
@scenario
async def test_producers_are_told_what_they_can_act_on(answer, version, told):
    assert (await verdict(answer, version=version))[1] is told


@scenario
async def test_the_end_of_the_transaction_before_is_waited_for():
    asked, code = await verdict(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)
    assert (len(asked), code) == (2, ErrorCode.NONE)
    asked, code = await verdict(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert len(asked) > 2 and code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_only_the_first_batch_of_a_transaction_needs_anybodys_word():
    partition, verifier = led_partition(), Verifier(Transactions(), Guards(), lambda: True)
    batch = TransactionalBatch.of(records())
    assert verifier.is_due(partition, batch, 9)
    partition.append(records(), -1, NOW)
    assert not verifier.is_due(partition, batch, 9)
    assert verifier.is_due(partition, TransactionalBatch.of(records(epoch=1)), 9)
    partition.append(marker(7, commit=True), -1, NOW, client=False)
    assert verifier.is_due(partition, batch, 9) and not is_open(partition, PRODUCER)


def test_older_producers_need_not_be_verified_if_nobody_wants_that_but_newer_ones_must():
    partition, verifier = led_partition(), Verifier(Transactions(), Guards(), lambda: False)
    assert not verifier.is_due(partition, TransactionalBatch.of(records()), 11)
    assert verifier.is_due(partition, TransactionalBatch.of(records()), 12)


def test_a_transaction_of_its_own_epoch_begins_with_its_first_record():
    partition, verifier = led_partition(), Verifier(Transactions(), Guards(), lambda: True)
    late = TransactionalBatch.of(records(sequence=5))
    verifier.check_sequence(partition, late, 11)
    with pytest.raises(KafkaError) as refused:
        verifier.check_sequence(partition, late, 12)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append(records(), -1, NOW)
    verifier.check_sequence(partition, late, 12)  # now the log itself knows what comes next


def test_a_marker_breaks_the_guards_of_its_producer_only():
    guards = Guards()
    mine, other, elsewhere = (
        guards.hold(PLACE, PRODUCER),
        guards.hold(PLACE, Producer(8, 0)),
        guards.hold(TopicPartition("orders", 1), PRODUCER),
    )
    guards.end(PLACE, PRODUCER)
    assert (mine.is_broken, other.is_broken, elsewhere.is_broken) == (True, False, False)
    for guard in mine, other, elsewhere:
        guards.release(guard)
    assert len(guards) == 0


def test_the_marker_of_one_transaction_leaves_the_next_one_alone():
    guards = Guards()
    late, next_one = guards.hold(PLACE, Producer(7, 0)), guards.hold(PLACE, Producer(7, 1))
    guards.end(PLACE, Producer(7, 0))
    assert (late.is_broken, next_one.is_broken) == (True, False)


def test_a_batch_whose_guard_is_broken_is_not_written():
    batch = TransactionalBatch.of(records())
    batch.check()
    batch.guard = Guards().hold(PLACE, PRODUCER)
    batch.check()
    batch.guard.is_broken = True
    with pytest.raises(KafkaError) as late:
        batch.check()
    assert late.value.code is ErrorCode.INVALID_TXN_STATE


@scenario
async def test_a_batch_whose_transaction_ends_while_it_is_opened_is_too_late():
    """Older producers keep their epoch over transactions, so the log alone could not tell."""
    partition = led_partition(settings={"compression.type": "gzip"})
    broker, guards, opened = serving(partition), Guards(), threading.Event()
    broker.verifier = Verifier(Transactions(ErrorCode.NONE), guards, lambda: True)
    broker.openers.submit(opened.wait, 60)
    partition.append(records(), -1, NOW)
    part = ProduceRequest.Topic.Partition(index=0, records=records(1, value=b"x" * 200_000))
    topic = ProduceRequest.Topic(name="orders", partition_data=[part])
    request = ProduceRequest(transactional_id="t", acks=-1, timeout_ms=10_000, topic_data=[topic])
    late = Client(broker).post(request, 9)
    partition.append(marker(7, commit=False), -1, NOW, client=False)
    guards.end(PLACE, PRODUCER)
    opened.set()
    answer = (await late).responses[0].partition_responses[0]
    assert (answer.error_code, partition.log.end_offset) == (ErrorCode.INVALID_TXN_STATE, 2)
    assert partition.log.last_stable_offset == 2 and len(guards) == 0
