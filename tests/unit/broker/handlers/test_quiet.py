"""Followers at the end of partitions in which nothing moves: looked at little, and noted all the same."""

import asyncio

from ottla.core.clock import ManualClock
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from tests.unit.broker.handlers.logs import EPOCH, led_partition
from tests.unit.broker.handlers.serving import Client, scenario, serving
from tests.unit.broker.handlers.test_fetch import LONG_MS, codes, request, values, wants
from tests.unit.storage.helpers import NOW, batch

VERSION = 18
LIFE = 31


class Follower:
    """Broker 2, with a fetch session. The leader's clock stands still unless it is told otherwise."""

    def __init__(self, *partitions):
        self.partitions = partitions
        self.broker = serving(*partitions)
        self.broker.clock = self.clock = ManualClock()
        self.client = Client(self.broker)
        self.session_id, self.session_epoch = 0, 0
        self.looked_at = []
        for each in partitions:
            each.follower_fetch = self._watched(each, each.follower_fetch)

    def _watched(self, partition, fetch):
        def watched(*args):
            self.looked_at.append(partition.topic_partition.topic)
            return fetch(*args)

        return watched

    def asked(self, *topics, epoch=LIFE, **how):
        return request(
            *topics,
            version=VERSION,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=epoch),
            **how,
        )

    async def fetch(self, *topics, **how):
        """The next fetch of the session; everything at offset 0 in the first."""
        if self.session_epoch == 0:
            topics = topics or [wants(each, 0, epoch=EPOCH) for each in self.partitions]
        response = await self.client.send(self.asked(*topics, **how), VERSION)
        self.session_id, self.session_epoch = response.session_id, self.session_epoch + 1
        return response

    def progress(self, partition):
        return partition.leading.followers[2]


def pair():
    return led_partition("orders", replicas=(1, 2)), led_partition("visits", replicas=(1, 2))


@scenario
async def test_a_partition_in_which_nothing_moves_is_looked_at_once():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    follower.looked_at.clear()
    visits.append(batch(b"a"), 1, NOW)
    response = await follower.fetch()
    assert follower.looked_at == ["visits"]
    assert values(response.responses[0].partitions[0]) == [b"a"]


@scenario
async def test_a_follower_that_waits_there_is_caught_up_at_every_fetch():
    """Or it would seem to have fallen behind with the first record after a long silence."""
    orders, visits = pair()
    follower = Follower(orders, visits)
    for _ in range(5):
        await follower.fetch()
        follower.clock.advance(1_000)
    assert follower.progress(orders).caught_up_ms == follower.progress(orders).fetched_ms == 4_000


@scenario
async def test_whoever_waits_is_woken_by_what_moves_and_the_rest_is_not_looked_at_again():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    follower.looked_at.clear()
    posted = follower.client.post(follower.asked(max_wait_ms=LONG_MS), VERSION)
    await asyncio.sleep(0)
    visits.append(batch(b"a"), 1, NOW)
    assert values((await posted).responses[0].partitions[0]) == [b"a"]
    assert follower.looked_at == []


@scenario
async def test_a_new_leader_epoch_ends_it():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    orders.follow_orders(orders.state._replace(leader_epoch=EPOCH + 1, partition_epoch=2), 0)
    assert codes(await follower.fetch()) == [ErrorCode.FENCED_LEADER_EPOCH]


@scenario
async def test_a_leader_that_is_none_any_more_says_so():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    orders.follow_orders(orders.state._replace(leader=2, leader_epoch=EPOCH + 1, partition_epoch=2), 0)
    assert codes(await follower.fetch()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@scenario
async def test_a_former_life_is_not_believed_here_either():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    response = await follower.fetch(epoch=LIFE - 1)
    assert set(codes(response)) == {ErrorCode.STALE_BROKER_EPOCH}


@scenario
async def test_who_may_join_the_isr_is_looked_at_every_time():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    orders.follow_orders(orders.state._replace(isr=(1,), partition_epoch=2), 0)
    follower.broker.replication.isr_changes.look_at = (seen := []).append
    await follower.fetch()
    assert seen == [orders]


@scenario
async def test_a_follower_that_loses_its_permission_is_refused():
    orders, visits = pair()
    follower = Follower(orders, visits)
    await follower.fetch()
    await follower.fetch()
    follower.broker.authorizer.allows = lambda *_: False
    assert set(codes(await follower.fetch())) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


@scenario
async def test_while_the_high_watermark_is_behind_it_is_looked_at_every_time():
    """Fewer in sync may be enough by now: nothing of that is seen in the log."""
    orders = led_partition("orders", replicas=(1, 2), settings={"min.insync.replicas": "2"})
    orders.append(batch(b"a"), 1, NOW)
    orders.follow_orders(orders.state._replace(replicas=(1, 2, 3), isr=(1, 2), partition_epoch=2), 0)
    orders.config.update({"min.insync.replicas": "3"})
    follower = Follower(orders)
    await follower.fetch(wants(orders, 1, epoch=EPOCH))
    await follower.fetch()
    assert orders.high_watermark.value == 0
    orders.config.update({"min.insync.replicas": "2"})
    await follower.fetch()
    assert orders.high_watermark.value == 1
