"""What this broker is told is done; what others are told is not."""

import asyncio
import uuid

import pytest

from ottla.broker.orders import Order, Orders, failed
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.decision import ConfigChange, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.state import BrokerImage, TopicImage
from tests.unit.broker.controlled import FakeConfigs, FakeReplicas, WatchedMetadata
from tests.unit.controller.helpers import state

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "")


class Told:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.replicas = FakeReplicas(self.calls)
        self.metadata = WatchedMetadata(self.calls)
        self.configs = FakeConfigs(self.calls)
        self.orders = Orders(0, self.replicas, self.metadata, self.configs)

    def tell(self, effect, epoch=8, number=-1, broker_epoch=-1):
        return asyncio.run(self.orders.follow(Order(effect, 3, epoch, broker_epoch, number)))


def test_partitions_are_led_and_stopped():
    told = Told()
    assert told.tell(LeaderAndIsr(0, (state(0, "0", "0"),))) == {TopicPartition("t", 0): ErrorCode.NONE}
    assert told.replicas.controller_epoch == 8
    told.tell(StopReplicas(0, {TopicPartition("t", 0): True}))
    assert told.replicas.states == {}
    assert told.replicas.deleted == {TopicPartition("t", 0)}


def test_a_late_copy_of_an_order_does_not_delete_what_was_given_back_since():
    told = Told()
    stop, again = StopReplicas(0, {TopicPartition("t", 0): True}), LeaderAndIsr(0, (state(1, "10", "1"),))
    told.tell(stop, number=4)
    told.tell(stop, number=4)  # nobody has heard the answer: that is no late copy
    told.tell(again, number=7)
    with pytest.raises(KafkaError, match="STALE_CONTROLLER_EPOCH"):
        told.tell(stop, number=4)
    assert TopicPartition("t", 0) in told.replicas.states
    told.tell(stop, epoch=9, number=0)  # the next controller counts anew
    assert told.replicas.states == {}


def test_an_order_that_waits_for_settings_is_late_when_another_was_followed_meanwhile():
    """The controller has asked again, was answered, and has deleted the topic since: what waited must not revive it."""
    told = Told()
    lead = LeaderAndIsr(0, (state(0, "0", "0")._replace(is_new=True),))

    async def scenario():
        reads = []

        async def read(topics):
            reads.append(asyncio.Event())
            if len(reads) == 1:
                await reads[0].wait()
            return {TOPIC: {"a": "b"}}

        told.orders.read_settings = read
        waiting = asyncio.ensure_future(told.orders.follow(Order(lead, 3, 8, -1, 4)))
        while not reads:
            await asyncio.sleep(0)
        await told.orders.follow(Order(lead, 3, 8, -1, 4))
        await told.orders.follow(Order(StopReplicas(0, {TopicPartition("t", 0): True}), 3, 8, -1, 5))
        told.orders.follow_config(TOPIC, None)
        reads[0].set()
        with pytest.raises(KafkaError, match="STALE_CONTROLLER_EPOCH"):
            await waiting

    asyncio.run(scenario())
    assert told.replicas.states == told.configs.applied == {}


def test_what_is_begun_is_finished_though_the_controller_has_hung_up():
    """Half an order leaves half a log, of which nobody knows."""
    told = Told()

    async def scenario():
        is_begun, goes_on = asyncio.Event(), asyncio.Event()
        lead = told.replicas.leader_and_isr

        async def slow(controller_epoch, states):
            is_begun.set()
            await goes_on.wait()
            return await lead(controller_epoch, states)

        told.replicas.leader_and_isr = slow
        asked = asyncio.ensure_future(
            told.orders.follow_to_the_end(Order(LeaderAndIsr(0, (state(0, "0", "0"),)), 3, 8, -1, 4))
        )
        await is_begun.wait()
        asked.cancel()
        await asyncio.wait([asked])
        goes_on.set()
        await told.orders.rest()

    asyncio.run(scenario())
    assert TopicPartition("t", 0) in told.replicas.states


def test_orders_without_a_number_are_followed_as_they_come():
    told = Told()
    told.tell(LeaderAndIsr(0, (state(0, "0", "0"),)), number=7)
    told.tell(StopReplicas(0, {TopicPartition("t", 0): True}))
    assert told.replicas.states == {}


def test_partitions_on_a_failed_disk_are_returned(caplog):
    told = Told()
    told.replicas.failing = {TopicPartition("t", 0)}
    assert failed(told.tell(LeaderAndIsr(0, (state(0, "0", "0"),)))) == [TopicPartition("t", 0)]
    assert "t-0 was answered with KAFKA_STORAGE_ERROR" in caplog.text


def test_metadata_follows():
    told = Told()
    told.tell(UpdateMetadata(0, brokers=(BrokerImage(0, 1, ()),)))
    assert told.metadata.controller_id == 3
    assert list(told.metadata.brokers) == [0]


def topic(name):
    return TopicImage(name, uuid.uuid4(), ())


def test_what_the_first_word_of_a_controller_does_not_name_is_gone():
    """Whoever deleted it may have died before it could tell us."""
    told, alive = Told(), (BrokerImage(0, 1, ()),)
    told.tell(UpdateMetadata(0, (topic("t"), topic("u")), brokers=alive))
    told.tell(ConfigChange(TOPIC, {"a": "1"}))
    told.tell(UpdateMetadata(0, (topic("v"),), brokers=alive))
    assert told.metadata.topics.keys() == {"t", "u", "v"}, "later words are about what has changed"
    told.tell(UpdateMetadata(0, (topic("w"),)), epoch=9)
    assert not told.orders.is_told
    told.tell(UpdateMetadata(0, (topic("u"),), brokers=alive), epoch=9)
    assert told.metadata.topics.keys() == {"u"} and told.orders.is_told
    assert TOPIC not in told.orders.configs
    told.tell(UpdateMetadata(0, (topic("x"),), brokers=alive), epoch=9)
    assert told.metadata.topics.keys() == {"u", "x"}


def test_in_another_life_everything_is_told_anew():
    told, alive = Told(), (BrokerImage(0, 1, ()),)
    told.tell(UpdateMetadata(0, (topic("t"), topic("u")), brokers=alive), broker_epoch=4)
    told.tell(UpdateMetadata(0, (topic("u"),), brokers=alive), broker_epoch=5)
    assert told.metadata.topics.keys() == {"u"}


def test_what_concerns_other_brokers_is_not_for_us():
    told = Told()
    for effect in (LeaderAndIsr(1, ()), StopReplicas(1, {}), UpdateMetadata(1)):
        told.tell(effect)
    assert told.calls == []


def test_settings_follow_and_are_forgotten_with_their_topic():
    told = Told()
    told.tell(ConfigChange(TOPIC, {"a": "1"}))
    told.tell(ConfigChange(BROKER, {"b": "2"}))
    assert told.configs.applied == told.orders.configs == {TOPIC: {"a": "1"}, BROKER: {"b": "2"}}
    told.tell(ConfigChange(TOPIC, None))
    told.tell(ConfigChange(BROKER, None))
    assert told.configs.applied == {BROKER: {}}
    assert told.orders.configs == {}


def test_of_all_settings_only_those_that_changed_are_applied():
    told = Told()
    told.orders.follow_configs({TOPIC: {"a": "1"}, BROKER: {"b": "2"}})
    told.calls.clear()
    told.orders.follow_configs({BROKER: {"b": "3"}})
    assert told.calls == ["forget_topic", "apply"]
    assert told.configs.applied == {BROKER: {"b": "3"}}
