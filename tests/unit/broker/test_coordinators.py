"""Shards come and go with leadership, and are loaded before they answer."""

import asyncio
import uuid

import pytest

from ottla.broker.coordinators import java_hash, place_of
from ottla.broker.metadata import Metadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.state import BrokerImage, TopicImage
from tests.unit.broker.handlers.logs import led_partition
from tests.unit.broker.handlers.serving import scenario
from tests.unit.broker.machines import coordinator_of
from tests.unit.broker.test_shards import moved_to


async def settled(coordinator):
    while coordinator.is_loading:
        await asyncio.sleep(0)


def refusal_of(coordinator, key="k"):
    with pytest.raises(KafkaError) as refused:
        coordinator.shard_of(key)
    return refused.value.code


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(1 << 31)),
        ("größe", 98762257),
        ("😀", 1772899),
    ],
)
def test_keys_are_placed_by_the_hash_of_java(text, number):
    assert java_hash(text) == number


def test_a_hash_without_a_positive_counterpart_means_the_first_partition():
    assert place_of("polygenelubricants", 50) == 0
    assert place_of("group", 50) == 98629247 % 50


@scenario
async def test_a_partition_without_records_is_ready_at_once():
    coordinator = coordinator_of(led_partition("names"))
    assert coordinator.shards[0].machine.is_active and not coordinator.is_loading


@scenario
async def test_a_shard_that_is_not_led_here_is_not_here():
    coordinator = coordinator_of(led_partition("names", leader=2, replicas=(1, 2)))
    assert refusal_of(coordinator) is ErrorCode.NOT_COORDINATOR


@scenario
async def test_clients_come_again_while_a_shard_is_loaded_and_then_find_everything():
    partition = led_partition("names")
    coordinator = coordinator_of(partition)
    coordinator.shards[0].run(lambda names, now: names.decide_add("a", "b"))
    moved_to(partition, leader=1, epoch=8)
    coordinator.follow(partition)
    assert refusal_of(coordinator) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await settled(coordinator)
    machine = coordinator.shards[0].machine
    assert (list(machine.names), machine.leader_epoch, machine.is_active) == (["a", "b"], 8, True)


@scenario
async def test_the_same_news_twice_disturbs_nobody():
    partition = led_partition("names")
    coordinator = coordinator_of(partition)
    shard = coordinator.shards[0]
    coordinator.follow(partition)
    assert coordinator.shards[0] is shard


@scenario
async def test_a_load_that_leadership_overtook_never_takes_charge():
    partition = led_partition("names", replicas=(1, 2))
    coordinator = coordinator_of(partition)
    coordinator.shards[0].run(lambda names, now: names.decide_add("a"))
    moved_to(partition, leader=1, epoch=8)
    coordinator.follow(partition)
    moved_to(partition, leader=2, epoch=9)
    coordinator.follow(partition)
    await asyncio.sleep(0)
    await settled(coordinator)
    assert coordinator.shards == {}
    assert refusal_of(coordinator) is ErrorCode.NOT_COORDINATOR


@scenario
async def test_a_marker_is_applied_by_the_shard_in_charge():
    partition = led_partition("names")
    coordinator = coordinator_of(partition)
    coordinator.apply_end(0, "producer", is_commit=True)
    assert coordinator.shards[0].machine.ends == [("producer", True)]
    coordinator.apply_end(1, "producer", is_commit=True)  # of a shard that is not here: nothing to do


@scenario
async def test_the_coordinator_is_whoever_leads_the_partition_of_the_key():
    metadata, partition = Metadata(), led_partition("names")
    image = TopicImage("names", partition.topic_id, (partition.state,))
    metadata.update(topics=[image], brokers=[BrokerImage(1, 0, ())])
    coordinator = coordinator_of(partition, metadata=metadata)
    assert await coordinator.find("anything") == 1
    metadata.update(brokers=[])
    with pytest.raises(KafkaError) as nobody:
        await coordinator.find("anything")
    assert nobody.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@scenario
async def test_the_topic_is_created_for_the_first_who_looks_for_a_coordinator():
    metadata, partition = Metadata(), led_partition("names")
    image = TopicImage("names", uuid.uuid4(), (partition.state,))
    asked = []

    async def create(name):
        asked.append(name)
        metadata.update(topics=[image], brokers=[BrokerImage(1, 0, ())])
        return image

    coordinator = coordinator_of(metadata=metadata, create=create)
    assert await coordinator.find("k") == 1
    assert await coordinator.find("k") == 1
    assert asked == ["names"]


@scenario
async def test_a_topic_that_cannot_be_created_means_that_nobody_coordinates():
    async def create(name):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")

    with pytest.raises(KafkaError) as refused:
        await coordinator_of(create=create).find("k")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "too few brokers" in refused.value.detail


@scenario
async def test_every_shard_in_charge_is_asked():
    coordinator = coordinator_of(led_partition("names"))
    coordinator.shards[0].run(lambda names, now: names.decide_add("a"))
    assert await coordinator.read_all(lambda names: list(names.names)) == [["a"]]
