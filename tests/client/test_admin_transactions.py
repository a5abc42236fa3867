"""Producers and transactions through the admin client, against both servers; the producers are librdkafka's."""

import asyncio

import pytest
from confluent_kafka import KafkaException, Producer

from ottla.client.admin.blocking import Admin
from ottla.client.admin.config_values import ConfigResource
from ottla.client.admin.partitions import OffsetSpec
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import connect
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import InitProducerIdRequest
from ottla.records.builder import BatchBuilder
from tests.interop.brokers import eventually

_BEFORE_VERIFICATION = 9  # of Produce


@pytest.fixture
def admin(server):
    with Admin(bootstrap_servers=server) as client:
        yield client


@pytest.fixture
def opened(server, new_topic, name):
    """A producer with a record in an open transaction, and where that is."""
    topic = new_topic(partitions=2)
    producer = Producer({"bootstrap.servers": server, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"perhaps", partition=1)
    assert producer.flush(30) == 0
    return producer, TopicPartition(topic, 1)


def test_open_transactions_are_listed_and_described(admin, opened, name):
    _, place = opened
    found = admin.describe_transactions([name])[name]
    assert (found.state, found.partitions) == ("Ongoing", {place})
    assert found.transaction_timeout_ms == 60_000 and found.transaction_start_time_ms > 0
    listed = admin.list_transactions(states=["Ongoing"], producer_ids=[found.producer_id])
    assert listed == {name: (name, found.producer_id, "Ongoing")}
    assert name in admin.list_transactions()
    assert name in admin.list_transactions(transactional_id_pattern=f"{name}.*")
    assert name not in admin.list_transactions(transactional_id_pattern="something else")
    assert name not in admin.list_transactions(duration_ms=3_600_000)
    other = TopicPartition(place.topic, 0)
    producers = admin.describe_producers([place, other])
    assert producers[other] == ()
    (one,) = producers[place]
    assert (one.producer_id, one.producer_epoch) == (found.producer_id, found.producer_epoch)
    assert one.current_txn_start_offset == 0 and one.last_sequence == 0
    assert admin.describe_producers([place], broker_id=found.coordinator)[place] == (one,)


def test_what_is_not_there_is_an_error_that_names_it(admin, opened, name):
    with pytest.raises(PartialFailure, match=f"nobody-{name}") as failed:
        admin.describe_transactions([name, f"nobody-{name}"])
    assert failed.value.results[name].transactional_id == name
    assert failed.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    with pytest.raises(KafkaError, match="Sleepy") as error:
        admin.list_transactions(states=["Sleepy"])
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_a_fenced_producer_cannot_commit_and_its_records_are_aborted(admin, opened, name):
    producer, place = opened
    before = admin.describe_transactions([name])[name]
    fenced = admin.fence_producers([name])[name]
    newer = fenced.producer_id != before.producer_id or fenced.producer_epoch > before.producer_epoch
    assert newer, (before, fenced)
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    end = admin.list_offsets({place: OffsetSpec.LATEST}, isolation_level="read_committed")[place]
    assert end.offset == 2, "the record and its marker"


@pytest.fixture
def unverified(admin):
    """The broker takes records of transactions that no coordinator was told of, as all did before Kafka 3.6."""
    everyone = ConfigResource.broker()
    key = "transaction.partition.verification.enable"
    admin.incremental_alter_configs({everyone: {key: False}})
    (broker,) = admin.describe_cluster().brokers
    one = ConfigResource.broker(broker.node_id)
    assert eventually(lambda: admin.describe_configs([one], config_names=[key])[one][key].value == "false")
    yield
    admin.incremental_alter_configs({everyone: {key: None}})


async def hang(server, place, transactional_id):
    """Write a record to a partition that was never added to the transaction. Returns the producer's id."""
    host, _, port = server.rpartition(":")
    async with await connect(host, int(port)) as peer:
        made = await peer.send(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        )
        assert made.error_code == 0
        batch = BatchBuilder(
            producer_id=made.producer_id,
            producer_epoch=made.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        batch.append(1_000, None, b"lost")
        kind = ProduceRequest.Topic
        part = kind.Partition(index=place.partition, records=batch.build())
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[kind(name=place.topic, partition_data=[part])],
        )
        answer = await peer.send(request, _BEFORE_VERIFICATION)
        assert [row.error_code for row in answer.responses[0].partition_responses] == [0]
        return made.producer_id


def test_a_transaction_that_no_coordinator_knows_is_aborted_in_its_partition(
    admin, server, new_topic, opened, name, unverified
):
    place = TopicPartition(new_topic(), 0)  # a producer has the coordinator up already
    producer_id = asyncio.run(hang(server, place, f"{name}-hangs"))
    (one,) = admin.describe_producers([place])[place]
    assert (one.producer_id, one.current_txn_start_offset) == (producer_id, 0)
    admin.abort_transaction(
        place,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        coordinator_epoch=one.coordinator_epoch,
    )
    (one,) = admin.describe_producers([place])[place]
    assert one.current_txn_start_offset is None
    with pytest.raises(KafkaError, match="4711"):
        admin.abort_transaction(TopicPartition(place.topic, 4711), producer_id=1, producer_epoch=0)
