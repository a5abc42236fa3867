"""Fetch: what is found, what is waited for, who may see how much, and what old readers get."""

import asyncio
import errno
import uuid

import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.config import BrokerConfig
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.records import legacy
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.config import TINY
from tests.unit.broker.handlers.fakes import node
from tests.unit.broker.handlers.logs import EPOCH, copied, led_partition
from tests.unit.broker.handlers.serving import Client, Watching, scenario, serving
from tests.unit.storage.helpers import NOW, batch, marker

LONG_MS = 60_000
COMMITTED = 1


def put(partition, *values, acks=1, **how):
    return partition.append(batch(*(values or (b"tea",)), **how), acks, NOW)


def wants(partition, offset=0, *, max_bytes=1 << 20, epoch=-1, last_epoch=-1):
    asked = FetchRequest.Topic.Partition(
        partition=partition.topic_partition.partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest.Topic(
        topic=partition.topic_partition.topic, topic_id=partition.topic_id, partitions=[asked]
    )


def request(*topics, max_wait_ms=0, min_bytes=1, replica_id=-1, version=12, **how):
    if version >= 15 and replica_id >= 0:
        how["replica_state"] = FetchRequest.ReplicaState(replica_id=replica_id)
        replica_id = -1
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, replica_id=replica_id, topics=list(topics), **how
    )


async def fetched(partition, offset=0, *, version=12, broker=None, client=None, **how):
    """The answer for one partition."""
    asked = {name: how.pop(name) for name in ("max_bytes_each", "epoch", "last_epoch") if name in how}
    if "max_bytes_each" in asked:
        asked["max_bytes"] = asked.pop("max_bytes_each")
    client = client or Client(broker or serving(partition))
    response = await client.send(request(wants(partition, offset, **asked), version=version, **how), version)
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def values(answer, offset=0):
    data = bytes(answer.records or b"")
    return [
        record.value
        for position, header in iter_batches(data, partial=True)
        if not header.is_control
        for record in records_of(data, position)
        if record.offset >= offset
    ]


def codes(response):
    return [answer.error_code for topic in response.responses for answer in topic.partitions]


@pytest.fixture
def orders():
    """Offsets 0 and 1 in one batch, then 2, then 3."""
    partition = led_partition()
    put(partition, b"a", b"b")
    put(partition, b"c")
    put(partition, b"d")
    return partition


# --- what is found ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
@scenario
async def test_batches_are_read_in_every_version(orders, version):
    answer = await fetched(orders, version=version)
    assert (answer.error_code, answer.high_watermark, values(answer)) == (0, 4, [b"a", b"b", b"c", b"d"])
    assert answer.last_stable_offset == 4


@scenario
async def test_an_offset_inside_a_batch_brings_the_whole_batch(orders):
    answer = await fetched(orders, 1)
    assert (values(answer), values(answer, 1)) == ([b"a", b"b", b"c", b"d"], [b"b", b"c", b"d"])


@scenario
async def test_at_the_end_there_is_nothing_and_that_is_no_error(orders):
    answer = await fetched(orders, 4)
    assert (answer.error_code, answer.high_watermark, answer.records) == (0, 4, b"")


@pytest.mark.parametrize("offset", [-1, 0, 5, 2**63 - 1])
@scenario
async def test_an_offset_outside_the_log_is_refused(orders, offset):
    orders.log.advance_log_start(1)
    answer = await fetched(orders, offset)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert answer.aborted_transactions is None


@scenario
async def test_what_is_not_committed_is_not_shown_and_not_refused():
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    copied(partition, 2, 1)
    put(partition, b"b")
    answer = await fetched(partition)
    assert (answer.high_watermark, values(answer)) == (1, [b"a"])
    for offset in (1, 2):
        beyond = await fetched(partition, offset)
        assert (beyond.error_code, beyond.records) == (0, b"")


@scenario
async def test_topics_are_known_by_their_id(orders):
    client = Client(serving(orders))
    response = await client.send(request(wants(orders), version=13), 13)
    assert response.responses[0].topic_id == orders.topic_id
    orders.topic_id = uuid.uuid4()
    response = await client.send(request(wants(orders), max_wait_ms=LONG_MS, version=13), 13)
    assert codes(response) == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("replica_id", [-1, 2])
@scenario
async def test_a_topic_that_was_created_again_is_not_taken_for_the_one_before(replica_id):
    """Orders for the new one have come, but Metadata still has the id of the old one."""
    before = led_partition(replicas=(1, 2))
    broker = serving(before)
    after = led_partition(replicas=(1, 2))
    put(after, b"new")
    broker.replicas.partitions[after.topic_partition] = after
    asked = request(wants(before, 1, epoch=EPOCH), version=18, replica_id=replica_id)
    assert codes(await Client(broker).send(asked, 18)) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert after.high_watermark.value == 0


@scenario
async def test_who_may_not_read_does_not(orders):
    broker = serving(orders)
    broker.authorizer.deny(Operation.READ, "orders")
    broker.authorizer.deny(Operation.CLUSTER_ACTION)
    assert (await fetched(orders, broker=broker)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await fetched(orders, broker=broker, replica_id=2)).error_code == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


@scenario
async def test_what_leaves_is_counted_and_told(orders):
    broker, watching = serving(orders), Watching()
    broker.observers.append(watching)
    answer = await fetched(orders, 2, broker=broker)
    await fetched(orders, 4, broker=broker)
    assert watching.seen == [("fetched", "orders-0", 2)]
    assert broker.topic_meters["orders"].bytes_out.value == len(answer.records)


# --- sizes --------------------------------------------------------------------------------------------------------


def sizes(response):
    return [len(answer.records or b"") for topic in response.responses for answer in topic.partitions]


@pytest.mark.parametrize("limits", [{"max_bytes": 1}, {"max_bytes_each": 1}, {"max_bytes_each": 0}])
@scenario
async def test_the_first_batch_comes_whole_whatever_the_limits(orders, limits):
    assert values(await fetched(orders, 0, **limits)) == [b"a", b"b"]
    assert values(await fetched(orders, 2, **limits)) == [b"c"]


@scenario
async def test_partitions_share_the_bytes_and_the_later_ones_get_whole_batches_or_none():
    parts = [led_partition(name) for name in "abcd"]
    for part in parts:
        put(part, b"x" * 1000)
        put(part, b"y" * 1000)
    one = len(bytes((await fetched(parts[0], max_bytes=1)).records))
    client = Client(serving(*parts))

    async def answered(max_bytes, each=1 << 20):
        return sizes(
            await client.send(request(*(wants(p, max_bytes=each) for p in parts), max_bytes=max_bytes), 12)
        )

    assert await answered(1) == [one, 0, 0, 0]
    assert await answered(2 * one) == [2 * one, 0, 0, 0]
    assert await answered(2 * one + 10) == [2 * one, 0, 0, 0], "ten bytes of a batch are of no use"
    assert await answered(4 * one, each=one) == [one, one, one, one]
    assert await answered(4 * one, each=one + 5) == [one + 5, one + 5, one + 5, 0]
    assert await answered(1 << 30, each=one - 1) == [one, 0, 0, 0]


@scenario
async def test_the_brokers_own_limit_holds_too(orders):
    broker = serving(orders)
    broker.config = BrokerConfig({"fetch.max.bytes": "1024"})
    for _ in range(50):
        put(orders, b"x" * 100)
    answer = await fetched(orders, broker=broker, max_bytes=2**31 - 1)
    assert len(answer.records) == 1024


@scenario
async def test_a_session_gives_everybody_a_turn():
    parts = [led_partition(name) for name in "abc"]
    for part in parts:
        put(part, b"x" * 1000)
    client = Client(serving(*parts))
    first = await client.send(request(*map(wants, parts), max_bytes=1, session_epoch=0), 12)
    served = []
    for epoch in (1, 2, 3):
        more = await client.send(request(max_bytes=1, session_id=first.session_id, session_epoch=epoch), 12)
        served += [topic.topic for topic in more.responses if topic.partitions[0].records]
    assert sorted(served) == ["a", "b", "c"]


# --- waiting ------------------------------------------------------------------------------------------------------


def waiting(*partitions):
    return sum(len(each.high_watermark.watchers) + len(each.log_end.watchers) for each in partitions)


@scenario
async def test_a_reader_at_the_end_waits_for_the_next_record(orders):
    posted = Client(serving(orders)).post(request(wants(orders, 4), max_wait_ms=LONG_MS), 12)
    await asyncio.sleep(0)
    assert (posted.done(), waiting(orders)) == (False, 1)
    put(orders, b"e")
    assert values((await posted).responses[0].partitions[0]) == [b"e"]
    assert waiting(orders) == 0


@scenario
async def test_a_broker_that_stops_keeps_no_reader_waiting(orders):
    broker = serving(orders)
    posted = Client(broker).post(request(wants(orders, 2), max_wait_ms=LONG_MS, min_bytes=1 << 20), 12)
    await asyncio.sleep(0)
    assert not posted.done()
    broker.stopping.advance(1)
    assert values((await posted).responses[0].partitions[0]) == [b"c", b"d"]
    assert (await fetched(orders, 4, broker=broker, max_wait_ms=LONG_MS)).records == b""
    assert (waiting(orders), len(broker.stopping.watchers)) == (0, 0)


@scenario
async def test_a_reader_waits_until_there_is_enough(orders):
    posted = Client(serving(orders)).post(request(wants(orders, 4), max_wait_ms=LONG_MS, min_bytes=1000), 12)
    while not posted.done():
        put(orders, b"x" * 100)
        for _ in range(5):
            await asyncio.sleep(0)
    answer = (await posted).responses[0].partitions[0]
    assert 1000 <= len(answer.records) < 1400


@scenario
async def test_the_first_of_many_partitions_that_moves_wakes_the_reader(orders):
    visits = led_partition("visits")
    posted = Client(serving(orders, visits)).post(
        request(wants(orders, 4), wants(visits), max_wait_ms=LONG_MS), 12
    )
    await asyncio.sleep(0)
    assert waiting(orders, visits) == 2
    put(visits, b"v")
    assert sizes(await posted)[0] == 0
    assert waiting(orders, visits) == 0


@scenario
async def test_patience_has_an_end(orders):
    broker = serving(orders)
    answer = await fetched(orders, 4, broker=broker, max_wait_ms=20)
    assert (answer.error_code, answer.records, waiting(orders)) == (0, b"", 0)
    some = await fetched(orders, 3, broker=broker, max_wait_ms=20, min_bytes=1 << 20)
    assert values(some) == [b"d"], "what there is, though it is less than was wanted"


@scenario
async def test_what_was_deleted_during_the_wait_is_not_sent():
    partition = led_partition(settings={**TINY, "segment.bytes": "1024", "retention.ms": "1"})
    put(partition, b"x" * 500)
    posted = Client(serving(partition)).post(
        request(wants(partition), max_wait_ms=200, min_bytes=1 << 20), 12
    )
    await asyncio.sleep(0)
    partition.log.roll()
    partition.log.delete_old(NOW + 1000)
    partition.log.remove_doomed(2**62)
    assert codes(await posted) == [ErrorCode.OFFSET_OUT_OF_RANGE]


@pytest.mark.parametrize(
    "how", [{"max_wait_ms": 0}, {"max_wait_ms": -5}, {"max_wait_ms": LONG_MS, "min_bytes": 0}]
)
@scenario
async def test_who_does_not_want_to_wait_does_not(orders, how):
    assert (await fetched(orders, 4, **how)).records == b""


@scenario
async def test_who_wants_nothing_does_not_wait():
    assert (await Client(serving()).send(request(max_wait_ms=LONG_MS), 12)).responses == []


@scenario
async def test_an_error_is_told_at_once_with_what_else_there_is(orders):
    gone = led_partition("gone")
    client = Client(serving(orders))
    response = await client.send(request(wants(orders, 4), wants(gone), max_wait_ms=LONG_MS), 12)
    assert codes(response) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@scenario
async def test_a_topic_that_goes_wakes_its_readers(orders):
    broker = serving(orders)
    posted = Client(broker).post(request(wants(orders, 4), max_wait_ms=LONG_MS), 12)
    await asyncio.sleep(0)
    broker.replicas.drop(orders)
    assert codes(await posted) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert waiting(orders) == 0


@scenario
async def test_a_leader_that_is_replaced_wakes_its_readers():
    """Those that know of epochs learn that theirs is over; others may only read from leaders."""
    for version, epoch, code in (
        (12, EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        partition = led_partition(replicas=(1, 2))
        asked = request(wants(partition, epoch=epoch), max_wait_ms=LONG_MS)
        posted = Client(serving(partition)).post(asked, version)
        await asyncio.sleep(0)
        partition.follow_orders(partition.state._replace(leader=2, leader_epoch=EPOCH + 1, partition_epoch=2))
        assert codes(await posted) == [code]


@scenario
async def test_a_reader_that_hangs_up_leaves_nothing_behind(orders):
    posted = Client(serving(orders)).post(request(wants(orders, 4), max_wait_ms=LONG_MS), 12)
    await asyncio.sleep(0)
    posted.cancel()
    await asyncio.wait([posted])
    assert waiting(orders) == 0


@scenario
async def test_a_reader_of_committed_records_is_woken_by_the_end_of_a_transaction():
    partition = led_partition()
    put(partition, b"t", producer=(7, 0, 0), is_transactional=True)
    asked = request(wants(partition), max_wait_ms=LONG_MS, isolation_level=COMMITTED)
    posted = Client(serving(partition)).post(asked, 12)
    put(partition, b"x")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not posted.done()
    partition.append(marker(7, commit=True), 1, NOW, client=False)
    assert values((await posted).responses[0].partitions[0]) == [b"t", b"x"]


@scenario
async def test_a_reader_at_the_end_of_a_segment_does_not_wait_for_what_lies_in_the_next():
    partition = led_partition(settings={**TINY, "segment.bytes": "1024"})
    for _ in range(10):
        put(partition, b"x" * 300)
    assert len(partition.log.segments) > 2
    answer = await fetched(partition, max_wait_ms=LONG_MS, min_bytes=1 << 20)
    assert 0 < len(answer.records) < 1 << 20


# --- epochs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(EPOCH, 0), (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
@scenario
async def test_who_knows_another_leader_epoch_is_refused(orders, epoch, code):
    assert (await fetched(orders, epoch=epoch)).error_code == code


@scenario
async def test_a_reader_whose_history_is_another_is_told_where_it_parts(orders):
    orders.follow_orders(orders.state._replace(leader_epoch=EPOCH + 4, partition_epoch=2))
    put(orders, b"e")
    agreed = await fetched(orders, 4, last_epoch=EPOCH)
    assert (agreed.diverging_epoch, values(agreed)) == (None, [b"e"])
    for offset, last_epoch, known in [
        (5, EPOCH, (EPOCH, 4)),
        (9, EPOCH + 4, (EPOCH + 4, 5)),
        (4, EPOCH + 2, (EPOCH, 4)),
    ]:
        parted = await fetched(orders, offset, last_epoch=last_epoch, max_wait_ms=LONG_MS)
        assert (parted.error_code, parted.records) == (0, b"")
        assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == known
    unknown = await fetched(orders, 4, last_epoch=EPOCH + 9)
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@scenario
async def test_who_asks_the_wrong_broker_is_told_the_right_one():
    partition = led_partition(leader=2, replicas=(1, 2), epoch=9)
    client = Client(serving(partition, nodes=[node(1), node(2)]))
    response = await client.send(request(wants(partition, epoch=8), version=16), 16)
    (answer,) = response.responses[0].partitions
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 9)
    assert [each.node_id for each in response.node_endpoints] == [2]
    old = await client.send(request(wants(partition, epoch=8), version=15), 15)
    assert old.node_endpoints == []


# --- followers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 12, 14, 15, 18])
@scenario
async def test_a_follower_sees_what_is_not_committed_and_commits_it_by_asking_for_more(version):
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    broker = serving(partition)
    answer = await fetched(partition, broker=broker, replica_id=2, version=version, epoch=EPOCH)
    assert (values(answer), partition.high_watermark.value) == ([b"a"], 0)
    await fetched(partition, 1, broker=broker, replica_id=2, version=version, epoch=EPOCH)
    assert partition.high_watermark.value == 1


@scenario
async def test_a_follower_that_does_not_say_in_which_epoch_it_follows_is_not_believed():
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    answer = await fetched(partition, 1, replica_id=2, version=8)
    assert (answer.error_code, partition.high_watermark.value) == (ErrorCode.UNKNOWN_LEADER_EPOCH, 0)


@scenario
async def test_a_fetch_of_a_followers_former_life_says_nothing_about_this_one():
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    client = Client(serving(partition))
    lives = [FetchRequest.ReplicaState(replica_id=2, replica_epoch=epoch) for epoch in (31, 30)]
    asked = [
        request(wants(partition, offset, epoch=EPOCH), version=15, replica_state=life)
        for offset, life in zip((0, 1), lives, strict=True)
    ]
    assert codes(await client.send(asked[0], 15)) == [ErrorCode.NONE]
    assert codes(await client.send(asked[1], 15)) == [ErrorCode.STALE_BROKER_EPOCH]
    assert partition.high_watermark.value == 0


@scenario
async def test_what_a_follower_has_is_noted_when_it_asks_not_when_it_is_answered():
    """While it waited, it may have been restarted, and a fetch of its own may have said so."""
    partition = led_partition(replicas=(1, 2, 3))
    put(partition, b"a")
    asked = request(wants(partition, 1, epoch=EPOCH), max_wait_ms=LONG_MS, replica_id=2)
    posted = Client(serving(partition)).post(asked, 12)
    await asyncio.sleep(0)
    copied(partition, 2, 0)
    put(partition, b"b")
    await posted
    assert partition.leading.followers[2].end_offset == 0


@scenario
async def test_a_follower_may_ask_for_other_isrs_by_what_it_asks_for():
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    partition.follow_orders(partition.state._replace(isr=(1,), partition_epoch=2))
    broker = serving(partition)
    broker.replication.isr_changes.look_at = (seen := []).append
    await fetched(partition, 0, broker=broker, replica_id=2, epoch=EPOCH)
    assert seen == []
    await fetched(partition, 1, broker=broker, replica_id=2, epoch=EPOCH)
    assert seen == [partition]


@scenario
async def test_a_follower_that_waits_is_woken_by_an_append():
    partition = led_partition(replicas=(1, 2))
    asked = request(wants(partition, epoch=EPOCH), max_wait_ms=LONG_MS, replica_id=2)
    posted = Client(serving(partition)).post(asked, 12)
    await asyncio.sleep(0)
    put(partition, b"a")
    assert values((await posted).responses[0].partitions[0]) == [b"a"]


@pytest.mark.parametrize("stranger", [1, 3])
@scenario
async def test_only_other_replicas_are_followers(stranger):
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    answer = await fetched(partition, 1, replica_id=stranger, epoch=EPOCH)
    assert (answer.error_code, partition.high_watermark.value) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


@pytest.mark.parametrize(
    "how", [{"offset": 9}, {"offset": 1, "epoch": EPOCH - 1}, {"offset": 2, "last_epoch": EPOCH}]
)
@scenario
async def test_a_follower_whose_log_is_not_ours_commits_nothing(how):
    partition = led_partition(replicas=(1, 2))
    put(partition, b"a")
    await fetched(partition, replica_id=2, **{"epoch": EPOCH, **how})
    assert partition.high_watermark.value == 0


# --- transactions -------------------------------------------------------------------------------------------------


@scenario
async def test_readers_of_committed_records_are_told_what_was_aborted():
    partition = led_partition()
    put(partition, b"good", producer=(7, 0, 0), is_transactional=True)
    put(partition, b"bad", producer=(8, 0, 0), is_transactional=True)
    partition.append(marker(8, commit=False), 1, NOW, client=False)
    broker = serving(partition)
    open_one = await fetched(partition, broker=broker, isolation_level=COMMITTED)
    assert (open_one.last_stable_offset, open_one.records, open_one.aborted_transactions) == (0, b"", [])
    partition.append(marker(7, commit=True), 1, NOW, client=False)
    answer = await fetched(partition, broker=broker, isolation_level=COMMITTED)
    assert values(answer) == [b"good", b"bad"]
    assert [(txn.producer_id, txn.first_offset) for txn in answer.aborted_transactions] == [(8, 1)]
    careless = await fetched(partition, broker=broker)
    assert careless.aborted_transactions is None


@scenario
async def test_only_the_aborted_transactions_of_the_segment_that_is_sent_are_told():
    partition = led_partition(settings={**TINY, "segment.bytes": "1024"})
    for number in range(50):
        put(partition, b"x" * 200, producer=(number, 0, 0), is_transactional=True)
        partition.append(marker(number, commit=False), 1, NOW, client=False)
    broker = serving(partition)
    offset, told = 0, []
    while offset < partition.log.end_offset:
        answer = await fetched(partition, offset, broker=broker, isolation_level=COMMITTED)
        headers = [header for _, header in iter_batches(bytes(answer.records), partial=True)]
        aborted = {txn.producer_id for txn in answer.aborted_transactions}
        assert {h.producer_id for h in headers if not h.is_control} <= aborted
        assert len(aborted) < 10
        told += aborted
        offset = headers[-1].next_offset
    assert set(told) == set(range(50))


# --- old readers --------------------------------------------------------------------------------------------------


def old_values(answer):
    data = bytes(answer.records)
    return [r.value for at, _ in legacy.iter_messages(data) for r in legacy.records_of(data, at)]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@scenario
async def test_readers_from_before_batches_get_message_sets(version, magic, codec):
    partition = led_partition()
    partition.append(build([Record(i, NOW, b"k", b"%d" % i) for i in range(3)], codec=codec), 1, NOW)
    put(partition, b"3")
    answer = await fetched(partition, 1, version=version)
    assert old_values(answer) == [b"1", b"2", b"3"]
    assert {header.magic for _, header in legacy.iter_messages(bytes(answer.records))} == {magic}


@scenario
async def test_one_partition_that_an_old_reader_cannot_have_does_not_spoil_the_others(orders):
    zipped = led_partition("zipped")
    zipped.append(build([Record(0, NOW, None, b"z")], codec=Codec.ZSTD), 1, NOW)
    client = Client(serving(orders, zipped))
    response = await client.send(request(wants(zipped), wants(orders), version=3), 3)
    assert codes(response) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0]
    assert old_values(response.responses[1].partitions[0]) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)]
)
@scenario
async def test_a_topic_of_zstd_is_for_readers_that_know_it(version, code):
    partition = led_partition(settings={"compression.type": "zstd"})
    put(partition, b"a")
    assert (await fetched(partition, version=version)).error_code == code


# --- sessions -----------------------------------------------------------------------------------------------------


@scenario
async def test_in_a_session_only_news_are_told(orders):
    visits = led_partition("visits")
    client = Client(serving(orders, visits))
    first = await client.send(request(wants(orders, 4), wants(visits), session_epoch=0), 12)
    assert len(first.responses) == 2
    put(visits, b"v")
    second = await client.send(request(session_id=first.session_id, session_epoch=1), 12)
    assert [topic.topic for topic in second.responses] == ["visits"]
    third = await client.send(
        request(wants(visits, 1), max_wait_ms=10, session_id=first.session_id, session_epoch=2), 12
    )
    assert (third.error_code, third.responses) == (0, [])
    stale = await client.send(request(session_id=first.session_id, session_epoch=2), 12)
    assert stale.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    unknown = await client.send(request(session_id=12345, session_epoch=1), 12)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# --- disks --------------------------------------------------------------------------------------------------------


@scenario
async def test_a_disk_that_cannot_be_read_has_failed():
    partition = led_partition(settings={**TINY, "segment.bytes": "1024"})
    for _ in range(10):
        put(partition, b"x" * 300)
    broker = serving(partition)
    partition.log.files.fail_next("read", errno.EIO)
    assert (await fetched(partition, broker=broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.replicas.failed == [partition.topic_partition]
