"""Consumers that read from followers, or are told to (KIP-392)."""

import asyncio

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.replication import Replication
from ottla.core.errors import ErrorCode
from ottla.replication.exchange import FetchAnswer
from tests.unit.broker.handlers.fakes import node
from tests.unit.broker.handlers.logs import EPOCH, copied, led_partition
from tests.unit.broker.handlers.serving import Client, scenario, serving
from tests.unit.broker.handlers.test_fetch import COMMITTED, LONG_MS, codes, fetched, request, values, wants
from tests.unit.storage.helpers import NOW, batch, marker


def following(*committed, beyond=()):
    """A partition that broker 2 leads, with records here that are committed, and some that are not yet known to be."""
    partition = led_partition(leader=2, replicas=(1, 2))
    told(partition, *committed, high_watermark=len(committed))
    told(partition, *beyond, high_watermark=len(committed))
    return partition


def told(partition, *values, high_watermark):
    """The leader answers our fetch."""
    end = partition.log.end_offset
    records = batch(*values, base_offset=end, leader_epoch=EPOCH) if values else b""
    partition.answer(partition.question(), FetchAnswer(ErrorCode.NONE, high_watermark, 0, None, records), NOW)


def leading(selector="RackAwareReplicaSelector"):
    """A partition that we, in the north, lead, with a follower in the south that is in sync; and its broker."""
    partition = led_partition(replicas=(1, 2))
    partition.append(batch(b"a"), 1, NOW)
    copied(partition, 2, 1)
    broker = serving(partition, nodes=[node(1, rack="north"), node(2, rack="south")])
    if selector:
        broker.config = BrokerConfig({"replica.selector.class": selector})
        broker.replication = Replication(broker)
    return partition, broker


# --- a follower is asked ------------------------------------------------------------------------------------------


@scenario
async def test_a_follower_shows_what_it_knows_to_be_committed():
    partition = following(b"a", b"b", beyond=[b"c"])
    answer = await fetched(partition, epoch=EPOCH)
    assert (answer.error_code, answer.high_watermark, values(answer)) == (0, 2, [b"a", b"b"])


@pytest.mark.parametrize("offset", [3, 4])
@scenario
async def test_beyond_that_a_follower_does_not_know_yet(offset):
    """It is behind, and the offset may well exist: a consumer must not start over because of it."""
    partition = following(b"a", b"b", beyond=[b"c"])
    assert (await fetched(partition, offset)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE


@scenario
async def test_what_is_deleted_is_out_of_range_at_a_follower_too():
    partition = following(b"a", b"b")
    partition.log.advance_log_start(1)
    assert (await fetched(partition, 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@scenario
async def test_a_consumer_at_a_follower_waits_for_its_high_watermark():
    partition = following(b"a")
    posted = Client(serving(partition)).post(request(wants(partition, 1), max_wait_ms=LONG_MS), 12)
    await asyncio.sleep(0)
    told(partition, b"b", high_watermark=1)
    await asyncio.sleep(0)
    assert not posted.done()
    told(partition, high_watermark=2)
    assert values((await posted).responses[0].partitions[0]) == [b"b"]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH), (EPOCH, 0)],
)
@scenario
async def test_followers_hold_consumers_to_their_leader_epoch_too(epoch, code):
    assert (await fetched(following(b"a"), epoch=epoch)).error_code == code


@scenario
async def test_a_consumer_from_before_racks_reads_from_leaders_only():
    assert (await fetched(following(b"a"), version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@scenario
async def test_a_follower_is_no_leader_to_other_followers():
    response = await Client(serving(partition := following(b"a"))).send(
        request(wants(partition, epoch=EPOCH), replica_id=3), 12
    )
    assert codes(response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# --- a leader is asked --------------------------------------------------------------------------------------------


@scenario
async def test_a_consumer_is_told_of_the_replica_in_its_rack():
    partition, broker = leading()
    answer = await fetched(partition, broker=broker, rack_id="south", max_wait_ms=LONG_MS)
    assert (answer.error_code, answer.preferred_read_replica, answer.records) == (0, 2, b"")


@pytest.mark.parametrize("rack", ["", "north", "west"])
@scenario
async def test_a_consumer_from_elsewhere_reads_here(rack):
    partition, broker = leading()
    answer = await fetched(partition, broker=broker, rack_id=rack)
    assert (answer.preferred_read_replica, values(answer)) == (-1, [b"a"])


@scenario
async def test_a_replica_that_is_not_in_sync_is_not_recommended():
    partition, broker = leading()
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    assert (await fetched(partition, broker=broker, rack_id="south")).preferred_read_replica == -1


@scenario
async def test_a_replica_whose_broker_is_dead_is_not_recommended():
    partition, broker = leading()
    broker.metadata.update(brokers=[node(1, rack="north")])
    assert (await fetched(partition, broker=broker, rack_id="south")).preferred_read_replica == -1


@pytest.mark.parametrize("selector", [None, "LeaderSelector"])
@scenario
async def test_by_default_everybody_reads_from_the_leader(selector):
    partition, broker = leading(selector)
    assert (await fetched(partition, broker=broker, rack_id="south")).preferred_read_replica == -1


@scenario
async def test_with_a_selector_a_follower_is_told_at_once_that_records_are_committed():
    partition, broker = leading()
    client = Client(broker)
    asked = wants(partition, 1, epoch=EPOCH)
    asked.partitions[0].high_watermark = 0
    response = await client.send(request(asked, max_wait_ms=LONG_MS, version=18, replica_id=2), 18)
    assert response.responses[0].partitions[0].high_watermark == 1


@scenario
async def test_with_a_selector_a_follower_that_waits_is_told_too():
    """Whoever else was missing has caught up: no record comes of that, but consumers here may see more."""
    partition = led_partition(replicas=(1, 2, 3))
    partition.append(batch(b"a"), 1, NOW)
    broker = serving(partition, nodes=[node(1), node(2), node(3)])
    broker.config = BrokerConfig({"replica.selector.class": "RackAwareReplicaSelector"})
    broker.replication = Replication(broker)
    asked = wants(partition, 1, epoch=EPOCH)
    asked.partitions[0].high_watermark = 0
    posted = Client(broker).post(request(asked, max_wait_ms=LONG_MS, version=18, replica_id=2), 18)
    await asyncio.sleep(0)
    copied(partition, 3, 1)
    response = await posted
    assert response.responses[0].partitions[0].high_watermark == 1


@scenario
async def test_a_consumer_that_is_ahead_of_a_follower_has_not_seen_another_history():
    """It read up to here from the leader: the follower is behind, nothing was truncated."""
    partition = following(b"a", b"b")
    answer = await fetched(partition, 3, epoch=EPOCH, last_epoch=EPOCH)
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert answer.diverging_epoch is None


@scenario
async def test_a_follower_knows_which_transactions_are_open_and_which_were_aborted():
    leader, partition = led_partition(replicas=(1, 2)), following()
    for records in (
        batch(b"bad", producer=(7, 0, 0), is_transactional=True),
        batch(b"open", producer=(8, 0, 0), is_transactional=True),
        marker(7, commit=False),
    ):
        leader.append(records, 1, NOW, client=False)
    copies(leader, partition, high_watermark=1)
    first = await fetched(partition, epoch=EPOCH, isolation_level=COMMITTED)
    assert (first.high_watermark, first.last_stable_offset, values(first)) == (1, 0, [])
    copies(leader, partition, high_watermark=3)
    second = await fetched(partition, epoch=EPOCH, isolation_level=COMMITTED)
    assert (second.last_stable_offset, values(second)) == (1, [b"bad"])
    assert [(each.producer_id, each.first_offset) for each in second.aborted_transactions] == [(7, 0)]


def copies(leader, follower, *, high_watermark):
    """The follower gets what it lacks."""
    end = follower.log.end_offset
    records = leader.log.read(end, 1 << 20).read() if end < leader.log.end_offset else b""
    answer = FetchAnswer(ErrorCode.NONE, high_watermark, 0, None, records)
    follower.answer(follower.question(), answer, NOW)
