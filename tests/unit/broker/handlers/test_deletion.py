"""DeleteRecords: what goes, what may not, and that it stays away whoever leads."""

import asyncio

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offsets import DeleteRecordsRequest
from ottla.replication.exchange import BrokerLife, FetchQuestion
from tests.unit.broker.handlers.fakes import ask, node
from tests.unit.broker.handlers.logs import EPOCH, broker_of, copied, led_partition
from tests.unit.broker.handlers.serving import Client, scenario, serving
from tests.unit.storage.helpers import NOW, batch

LONG_MS = 60_000


def put(partition, count=1):
    for _ in range(count):
        partition.append(batch(b"tea"), 1, NOW)


@pytest.fixture
def orders():
    """Offsets 0 to 5."""
    partition = led_partition()
    put(partition, 6)
    return partition


def delete(partition, offset, *, version=2, broker=None):
    asked = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.Topic(name=partition.topic_partition.topic, partitions=[asked])
    response = ask(broker or broker_of(partition), "DeleteRecords", version, topics=[topic], timeout_ms=1000)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_below_an_offset_go(orders, version):
    assert delete(orders, 4, version=version) == (0, 4)
    assert delete(orders, 2, version=version) == (0, 4)  # it never moves back
    assert delete(orders, -1, version=version) == (0, 6)
    assert orders.log.log_start_offset == 6


def test_a_deletion_is_noted_on_the_disk_before_it_is_acknowledged(orders):
    broker = broker_of(orders)
    assert delete(orders, 4, broker=broker) == (0, 4)
    assert broker.replicas.noted == {orders.topic_partition: 4}
    broker.replicas.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "broken")
    assert delete(orders, 5, broker=broker) == (56, -1)


@pytest.mark.parametrize("offset", [7, -2])
def test_what_is_not_there_cannot_be_deleted(orders, offset):
    assert delete(orders, offset) == (1, -1)


def test_what_is_not_committed_cannot_be_deleted():
    partition = led_partition(replicas=(1, 2))
    put(partition, 2)
    copied(partition, 2, 1)
    assert delete(partition, 2) == (1, -1)
    assert delete(partition, -1) == (0, 1)


def test_topics_that_only_compact_delete_nothing_by_offset():
    partition = led_partition(settings={"cleanup.policy": "compact"})
    put(partition)
    assert delete(partition, 1) == (44, -1)
    both = led_partition(settings={"cleanup.policy": "compact,delete"})
    put(both)
    assert delete(both, 1) == (0, 1)


def test_records_of_the_brokers_own_topics_stay(orders):
    assert delete(orders, 1, broker=broker_of(orders, internal=["orders"])) == (17, -1)


def test_only_the_leader_deletes_and_only_for_those_who_may(orders):
    assert delete(led_partition(leader=2), 0) == (6, -1)
    broker = broker_of(orders)
    broker.authorizer.deny(Operation.DELETE)
    assert delete(orders, 1, broker=broker) == (29, -1)
    assert delete(orders, 1, broker=broker_of()) == (3, -1)


# --- followers ----------------------------------------------------------------------------------------------------


class Upkeep:
    def look_at(self, topics):
        self.seen = list(topics)


def replicated(count=2):
    """A partition with 4 records that we lead and all others have, and its broker."""
    replicas = tuple(range(1, count + 1))
    partition = led_partition(replicas=replicas)
    put(partition, 4)
    for replica in replicas[1:]:
        fetches(partition, replica, 0)
    broker = serving(partition, nodes=[node(id) for id in replicas])
    broker.upkeep = Upkeep()
    return partition, broker


def fetches(partition, replica, log_start, broker=None):
    """A follower at the end says where its log starts."""
    partition.follower_fetch(BrokerLife(replica), FetchQuestion(4, -1, EPOCH, log_start), 0)
    if broker is not None:
        broker.replication.fetched(partition, 0)


def post(broker, *asked, timeout_ms=LONG_MS):
    """What is told of each partition, when it is: error and low watermark."""
    topics = [
        DeleteRecordsRequest.Topic(
            name=partition.topic_partition.topic,
            partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)],
        )
        for partition, offset in asked
    ]
    posted = Client(broker).post(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), 2)

    async def answers():
        response = await posted
        return [
            (part.error_code, part.low_watermark) for topic in response.topics for part in topic.partitions
        ]

    return asyncio.ensure_future(answers())


async def idle():
    for _ in range(10):
        await asyncio.sleep(0)


@scenario
async def test_the_answer_waits_for_all_followers_that_live():
    partition, broker = replicated(3)
    answered = post(broker, (partition, 3))
    await idle()
    assert partition.log.log_start_offset == 3 and broker.upkeep.seen == ["orders"]
    fetches(partition, 2, 3, broker)
    await idle()
    assert not answered.done()
    fetches(partition, 3, 3, broker)
    assert await answered == [(0, 3)]
    assert not broker.replication.low_watermarks, "nobody waits any more"


@scenario
async def test_a_follower_that_is_dead_is_not_waited_for():
    partition, broker = replicated(3)
    broker.metadata.update(brokers=[node(1), node(2)])
    fetches(partition, 2, 3)
    assert await post(broker, (partition, 3)) == [(0, 3)]


@scenario
async def test_a_follower_that_dies_is_not_waited_for_any_longer():
    partition, broker = replicated()
    answered = post(broker, (partition, 3))
    await idle()
    broker.metadata.update(brokers=[node(1)])
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    broker.replication.moved(partition)
    assert await answered == [(0, 3)]
    await broker.replication.close()


@scenario
async def test_a_follower_that_dies_without_orders_is_noticed_too():
    partition, broker = replicated()
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    answered = post(broker, (partition, 3))
    await idle()
    broker.metadata.update(brokers=[node(1)])
    assert await answered == [(0, 3)]


@scenario
async def test_a_follower_of_whom_nothing_was_heard_yet_is_waited_for():
    partition, broker = replicated()
    partition.follow_orders(partition.state._replace(leader_epoch=EPOCH + 1, partition_epoch=2))
    assert await post(broker, (partition, 3), timeout_ms=0) == [(7, -1)]


@scenario
async def test_patience_has_an_end_and_the_answer_says_how_far_all_are():
    partition, broker = replicated()
    fetches(partition, 2, 1)
    assert await post(broker, (partition, 3), timeout_ms=1) == [(7, 1)]
    assert partition.log.log_start_offset == 3, "the leader has deleted all the same"


@scenario
async def test_partitions_are_waited_for_at_the_same_time():
    orders, broker = replicated()
    visits = led_partition("visits")
    put(visits, 2)
    broker.replicas.partitions[visits.topic_partition] = visits
    fetches(orders, 2, 1)
    assert await post(broker, (orders, 3), (visits, 2), timeout_ms=1) == [(7, 1), (0, 2)]


@scenario
async def test_two_who_delete_are_answered_each_in_its_time():
    partition, broker = replicated()
    first, second = post(broker, (partition, 1)), post(broker, (partition, 3))
    await idle()
    fetches(partition, 2, 1, broker)
    assert await first == [(0, 1)]
    await idle()
    assert not second.done()
    fetches(partition, 2, 3, broker)
    assert await second == [(0, 3)]


@scenario
async def test_a_leader_that_is_replaced_meanwhile_says_so():
    partition, broker = replicated()
    answered = post(broker, (partition, 3))
    await idle()
    partition.stop()
    broker.replication.moved(partition)
    assert await answered == [(6, -1)]


@scenario
async def test_what_is_below_already_is_answered_at_once():
    partition, broker = replicated()
    partition.log.advance_log_start(3)
    fetches(partition, 2, 2)
    assert await post(broker, (partition, 2)) == [(0, 2)]
