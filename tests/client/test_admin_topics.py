"""Topics and partitions through the admin client, against both servers; some answers checked with librdkafka."""

import asyncio
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ottla.client.admin.admin import AsyncAdmin
from ottla.client.admin.blocking import Admin
from ottla.client.admin.describing import described, described_all
from ottla.client.admin.partitions import OffsetSpec
from ottla.client.admin.topic_values import ElectionType, NewPartitions, NewTopic
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID, TopicPartition
from tests.interop.brokers import eventually


@pytest.fixture
def admin(server):
    with Admin(bootstrap_servers=server) as client:
        yield client


def write(server, topic, values, partition=0, timestamp=0):
    producer = Producer({"bootstrap.servers": server, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=timestamp + number)
    assert producer.flush(30) == 0


def test_topics_are_made_with_partitions_and_settings_and_can_be_used_at_once(admin, name):
    wanted = NewTopic(name, 3, 1, topic_configs={"retention.ms": 3_600_000, "preallocate": False})
    made = admin.create_topics([wanted, f"{name}-plain"])
    assert made[name].num_partitions == 3 and made[name].replication_factor == 1
    assert made[name].configs["retention.ms"].value == "3600000"
    assert made[name].topic_id != NULL_ID
    found = admin.describe_topics([name, f"{name}-plain"])
    assert found[name].topic_id == made[name].topic_id
    assert [each.partition for each in found[name].partitions] == [0, 1, 2]
    assert all(each.leader >= 0 for topic in found.values() for each in topic.partitions)


def test_replicas_can_be_placed_by_hand(admin, name):
    (broker,) = admin.describe_cluster().brokers
    admin.create_topics([NewTopic(name, replica_assignments={0: [broker.node_id], 1: [broker.node_id]})])
    topic = admin.describe_topic(name)
    assert [each.replicas for each in topic.partitions] == [(broker.node_id,)] * 2
    assert [each.isr for each in topic.partitions] == [(broker.node_id,)] * 2


def test_what_is_only_validated_is_not_made(admin, name):
    made = admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)
    assert made[name].num_partitions == 2
    assert name not in admin.list_topics()
    with pytest.raises(PartialFailure) as failed:
        admin.create_topics([NewTopic(name, 2, 100)], validate_only=True)
    assert failed.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_of_many_topics_each_has_its_result(admin, name):
    admin.create_topic(name)
    with pytest.raises(PartialFailure) as failed:
        admin.create_topics([name, f"{name}-new", "no/such name"])
    results = failed.value.results
    assert results[name].code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert results["no/such name"].code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert results[f"{name}-new"].name == f"{name}-new"
    assert name in str(failed.value) and "no/such name" in str(failed.value) and "2 of 3" in str(failed.value)
    with pytest.raises(KafkaError) as plain:
        admin.create_topic(name)
    assert type(plain.value) is KafkaError and plain.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_topics_are_deleted_by_name_and_by_id(admin, name):
    first, second = admin.create_topics([name, f"{name}-2"]).values()
    admin.delete_topics([first.name, second.topic_id])
    assert eventually(lambda: not {name, f"{name}-2"} & admin.list_topics().keys())
    with pytest.raises(PartialFailure) as failed:
        admin.delete_topics([name, second.topic_id])
    codes = {key: each.code for key, each in failed.value.results.items()}
    assert codes == {
        name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        second.topic_id: ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_a_topic_that_is_made_again_at_once_is_another_one(admin, name):
    first = admin.create_topic(name, 2)
    admin.delete_topic(name)
    second = admin.create_topic(name, 1)
    assert admin.describe_topic(name).topic_id == second.topic_id != first.topic_id
    assert len(admin.describe_topic(name).partitions) == 1


def test_a_topic_that_is_not_there_is_an_error_at_once_whatever_is_asked(admin, name):
    nowhere = TopicPartition(name, 0)
    for call in (
        lambda: admin.describe_topic(name),
        lambda: admin.delete_topic(name),
        lambda: admin.create_partitions({name: 2}),
        lambda: admin.list_offsets({nowhere: OffsetSpec.LATEST}),
        lambda: admin.delete_records({nowhere: 0}),
        lambda: admin.describe_producers([nowhere]),
        lambda: admin.elect_leaders(ElectionType.PREFERRED, [nowhere]),
    ):
        with pytest.raises(KafkaError, match=name) as error:
            call()
        assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as error:
        admin.describe_topic(uuid.uuid4())
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_topics_are_described_by_name_and_id_as_librdkafka_lists_them(admin, server, new_topic):
    topic = new_topic(partitions=5)
    by_name = admin.describe_topic(topic, include_authorized_operations=True)
    assert by_name.authorized_operations
    by_id = admin.describe_topics([by_name.topic_id])[topic]
    assert by_id.partitions == tuple(
        each._replace(eligible_leader_replicas=None, last_known_eligible_leader_replicas=None)
        for each in by_name.partitions
    )
    theirs = AdminClient({"bootstrap.servers": server, "log_level": 0}).list_topics(timeout=20)
    assert admin.list_topics(include_internal=True).keys() == theirs.topics.keys()
    assert [each.leader for each in by_name.partitions] == [
        each.leader for _, each in sorted(theirs.topics[topic].partitions.items())
    ]


def test_descriptions_come_in_pages_and_are_put_together(server, new_topic):
    names = [new_topic(partitions=4) for _ in range(3)]

    async def run():
        async with AsyncAdmin(bootstrap_servers=server) as admin:
            routes = admin._routes
            deadline = routes.deadline(None)
            paged = await described(routes, [*names, "not-there"], False, deadline, page_partitions=3)
            assert [len(paged[name].partitions) for name in names] == [4, 4, 4]
            assert paged["not-there"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            everything = await described_all(routes, False, deadline, page_partitions=3)
            assert {name: everything[name] for name in names} == {name: paged[name] for name in names}
            assert everything == await admin.describe_topics()

    asyncio.run(run())


def test_topics_grow(admin, new_topic):
    topic = new_topic()
    (broker,) = admin.describe_cluster().brokers
    admin.create_partitions({topic: 2}, validate_only=True)
    assert len(admin.describe_topic(topic).partitions) == 1
    admin.create_partitions({topic: NewPartitions(3, [[broker.node_id], [broker.node_id]])})
    assert [each.leader for each in admin.describe_topic(topic).partitions] == [broker.node_id] * 3
    with pytest.raises(PartialFailure) as failed:
        admin.create_partitions({topic: 3})
    assert failed.value.code is ErrorCode.INVALID_PARTITIONS


def test_offsets_are_found_by_place_and_by_time(admin, server, new_topic):
    topic = new_topic(partitions=2)
    write(server, topic, [b"a", b"b", b"c"], timestamp=1_000_000)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.list_offsets({first: OffsetSpec.EARLIEST})[first].offset == 0
    found = admin.list_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.LATEST})
    assert (found[first].offset, found[second].offset) == (3, 0)
    assert admin.list_offsets({first: 1_000_001})[first][:2] == (1, 1_000_001)
    assert admin.list_offsets({first: 2_000_000})[first].offset == -1
    assert admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP})[first][:2] == (2, 1_000_002)
    committed = admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")
    assert committed[first].offset == 3
    with pytest.raises(PartialFailure) as failed:
        admin.list_offsets({first: OffsetSpec.LATEST, TopicPartition(topic, 2): OffsetSpec.LATEST})
    assert failed.value.results[first].offset == 3
    with pytest.raises(KafkaError, match="isolation level"):
        admin.list_offsets({first: 0}, isolation_level="serializable")
    with pytest.raises(KafkaError, match="-7"):
        admin.list_offsets({first: -7})


def test_records_are_deleted_up_to_an_offset_or_the_end(admin, server, new_topic):
    topic = new_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(server, topic, [b"x"] * 4)
    write(server, topic, [b"x"] * 2, partition=1)
    assert admin.delete_records({first: 3, second: -1}) == {first: 3, second: 2}
    assert admin.list_offsets({first: OffsetSpec.EARLIEST})[first].offset == 3
    with pytest.raises(PartialFailure) as failed:
        admin.delete_records({first: 100})
    assert failed.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_election_that_is_not_needed_changes_nothing(admin, new_topic):
    topic = new_topic(partitions=2)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for kind in ElectionType:
        assert admin.elect_leaders(kind, partitions) == dict.fromkeys(partitions, False)
    assert not any(admin.elect_leaders().values())
    assert admin.list_partition_reassignments() == {}
    with pytest.raises(PartialFailure) as failed:
        admin.alter_partition_reassignments({partitions[0]: [4711], partitions[1]: None})
    codes = [each.code for each in failed.value.results.values()]
    assert codes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
