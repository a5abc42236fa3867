"""Brokers that offer less: what they lack is done in another way, or refused in a sentence."""

import asyncio
import uuid

import pytest

from ottla.client.admin.config_values import ConfigResource, ConfigResourceType
from ottla.client.admin.group_values import GroupType
from ottla.client.admin.partitions import OffsetSpec
from ottla.client.admin.topic_values import NewTopic
from ottla.client.errors import UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from tests.unit.client.admin.brokers import admin_of_a_broker, make_old

PLACE = TopicPartition("orders", 0)
KAFKA_2_4 = {
    2: 5,  # ListOffsets
    3: 9,  # Metadata
    8: 8,  # OffsetCommit
    9: 6,  # OffsetFetch
    10: 3,  # FindCoordinator
    13: 4,  # LeaveGroup
    15: 5,  # DescribeGroups
    16: 3,  # ListGroups
    19: 5,  # CreateTopics
    20: 4,  # DeleteTopics
    32: 2,  # DescribeConfigs
    45: 0,  # AlterPartitionReassignments
    60: None,  # DescribeCluster
    61: None,  # DescribeProducers
    65: None,  # DescribeTransactions
    66: None,  # ListTransactions
    69: None,  # ConsumerGroupDescribe
    74: None,  # ListConfigResources
    75: None,  # DescribeTopicPartitions
}
KAFKA_0_10 = {
    2: 0,  # ListOffsets
    3: 2,  # Metadata
    9: 1,  # OffsetFetch
    13: 0,  # LeaveGroup
    16: 0,  # ListGroups
    19: 1,  # CreateTopics
    20: 1,  # DeleteTopics
    **dict.fromkeys((21, 32, 33, 34, 35, 37, 42, 43, 44, 45, 46, 47, 60, 61, 65, 66, 69, 74, 75)),
}


@pytest.mark.parametrize("versions", [KAFKA_2_4, KAFKA_0_10], ids=["2.4", "0.10"])
def test_what_they_can_do_they_do(monkeypatch, versions):
    make_old(monkeypatch, versions)

    async def run():
        async with admin_of_a_broker() as (admin, _):
            await admin.create_topics([NewTopic("orders", 2, 1), NewTopic("gone", 1, 1)])
            await admin.delete_topic("gone")
            assert list(await admin.list_topics()) == ["orders"]
            found = await admin.describe_topics()
            assert [each.leader for each in found["orders"].partitions] == [0, 0] or found[
                "orders"
            ].partitions
            assert found["orders"].partitions[0].eligible_leader_replicas is None
            with pytest.raises(KafkaError) as error:
                await admin.describe_topic("gone")
            assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert list(await admin.list_topics()) == ["orders"], "to ask for a topic does not create it"
            cluster = await admin.describe_cluster()
            assert cluster.controller == cluster.brokers[0]
            assert (await admin.list_offsets({PLACE: OffsetSpec.LATEST}))[PLACE].offset == 0
            await admin.alter_group_offsets("billing", {PLACE: 3})
            assert (await admin.list_group_offsets("billing", [PLACE]))[PLACE].offset == 3
            assert (await admin.list_groups())["billing"].type is GroupType.UNKNOWN
            assert (await admin.describe_group("billing")).type is GroupType.CLASSIC
            with pytest.raises(KafkaError) as error:
                await admin.describe_group("nobody")
            assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    asyncio.run(run())


def test_what_they_cannot_do_is_refused_in_a_sentence(monkeypatch):
    make_old(monkeypatch, KAFKA_2_4)

    async def run():
        async with admin_of_a_broker() as (admin, _):
            await admin.create_topic("orders", 1, 1)
            for words, asking in {
                "DeleteTopicsRequest.topics is set, but version 4": admin.delete_topics([uuid.uuid4()]),
                "by name only": admin.describe_topic(uuid.uuid4()),
                "takes ListOffsets v7, it has v5": admin.list_offsets({PLACE: OffsetSpec.MAX_TIMESTAMP}),
                "cannot choose groups by state": admin.list_groups(states=["Empty"]),
                "require_stable is set": admin.list_group_offsets("g", require_stable=True),
                "does not offer DescribeProducers": admin.describe_producers([PLACE]),
                "does not offer ListTransactions": admin.list_transactions(),
                "does not offer DescribeTransactions": admin.describe_transactions(["x"]),
                "does not offer ListConfigResources": admin.list_config_resources(),
                "does not offer DescribeCluster": admin.describe_cluster(include_fenced_brokers=True),
                "include_documentation is set": admin.describe_configs(
                    [ConfigResource.topic("orders")], include_documentation=True
                ),
                "allow_replication_factor_change is set": admin.alter_partition_reassignments(
                    {PLACE: [1]}, allow_replication_factor_change=False
                ),
            }.items():
                with pytest.raises(UnsupportedVersionError, match=words):
                    await asking
            operations = (
                await admin.describe_cluster(include_authorized_operations=True)
            ).authorized_operations
            assert operations

    asyncio.run(run())


def test_the_oldest_listing_of_config_resources_knows_client_metrics_only(monkeypatch):
    make_old(monkeypatch, {74: 0, 13: 2})

    async def run():
        async with admin_of_a_broker() as (admin, _):
            metrics = ConfigResource.client_metrics("all")
            await admin.incremental_alter_configs({metrics: {"interval.ms": 1000}})
            assert await admin.list_config_resources() == [metrics]
            with pytest.raises(UnsupportedVersionError, match="no other config resources"):
                await admin.list_config_resources([ConfigResourceType.TOPIC])
            with pytest.raises(UnsupportedVersionError, match="leave by themselves only"):
                await admin.remove_group_members("billing", ["one"])

    asyncio.run(run())
