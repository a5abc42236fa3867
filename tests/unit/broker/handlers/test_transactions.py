import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.producer_ids import ProducerIds
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import DescribeProducersRequest
from ottla.records.builder import build
from ottla.records.record import Record
from tests.unit.broker.handlers.fakes import ask, refusal
from tests.unit.broker.handlers.logs import broker_of, led_partition

NOW = 1_700_000_000_000


@pytest.fixture
def broker():
    broker = broker_of(led_partition())
    blocks = iter([range(4000, 4002), range(5000, 5002)])

    async def allocate():
        return next(blocks)

    broker.producer_ids = ProducerIds(allocate)
    return broker


def init(transactional_id=None, **how):
    return {"transactional_id": transactional_id, "transaction_timeout_ms": 1000, **how}


@pytest.mark.parametrize("version", range(7))
def test_every_producer_gets_an_id_of_its_own(broker, version):
    given = [ask(broker, "InitProducerId", version, **init()) for _ in range(3)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in given] == [
        (0, 4000, 0),
        (0, 4001, 0),
        (0, 5000, 0),
    ]


def test_a_producer_that_brings_an_old_id_gets_a_new_one(broker):
    given = ask(broker, "InitProducerId", 3, **init(producer_id=77, producer_epoch=3))
    assert (given.producer_id, given.producer_epoch) == (4000, 0)


@pytest.mark.parametrize("half", [{"producer_id": 7}, {"producer_epoch": 7}])
def test_id_and_epoch_come_together(broker, half):
    assert refusal(broker, "InitProducerId", 3, **init(**half)) == 42


def test_there_are_no_transactions_yet(broker):
    assert refusal(broker, "InitProducerId", 4, **init("mine")) == 15
    assert refusal(broker, "InitProducerId", 4, **init("")) == 42


def test_ids_are_for_those_who_may_write_something(broker):
    broker.authorizer.deny(Operation.IDEMPOTENT_WRITE)
    assert refusal(broker, "InitProducerId", 4, **init()) == 0
    broker.authorizer.deny(Operation.WRITE)
    assert refusal(broker, "InitProducerId", 4, **init()) == 31
    assert refusal(broker, "InitProducerId", 4, **init("mine")) == 53


def test_without_a_controller_there_are_no_ids(broker):
    async def fail():
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "gone")

    broker.producer_ids = ProducerIds(fail)
    assert refusal(broker, "InitProducerId", 4, **init()) == 41


def described(broker, name="orders", index=0):
    topic = DescribeProducersRequest.Topic(name=name, partition_indexes=[index])
    (answer,) = ask(broker, "DescribeProducers", 0, topics=[topic]).topics[0].partitions
    return answer


def test_a_partition_tells_who_writes_to_it(broker):
    partition = broker.replicas.get("orders", 0)
    for producer_id, is_transactional in [(5, False), (6, True)]:
        records = [Record(i, NOW, b"k", b"v") for i in range(3)]
        batch = build(
            records,
            producer_id=producer_id,
            producer_epoch=2,
            base_sequence=0,
            is_transactional=is_transactional,
        )
        partition.append(batch, 1, NOW)
    answer = described(broker)
    assert answer.error_code == 0
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.current_txn_start_offset)
        for each in answer.active_producers
    ] == [(5, 2, 2, -1), (6, 2, 2, 3)]
    assert {each.last_timestamp for each in answer.active_producers} == {NOW}


def test_what_cannot_be_described_says_why(broker):
    assert described(broker, "nothing").error_code == 3
    assert described(broker, "no/name").error_code == 17
    assert described(broker, "orders", 4).error_code == 3
    assert described(broker_of(led_partition(leader=2))).error_code == 6
    broker.authorizer.deny(Operation.READ)
    answer = described(broker)
    assert (answer.error_code, answer.active_producers) == (29, [])
    assert answer.error_message
