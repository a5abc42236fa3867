"""Leadership, in-sync replicas and what is committed, without a network: followers are fetches that we make up."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.exchange import BrokerLife, FetchQuestion
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.replication.state import NO_LEADER, PartitionState
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, marker

TOPIC_ID = uuid.UUID(int=1)
ORDERS = TopicPartition("orders", 0)


def state(*, leader=1, epoch=5, partition_epoch=1, replicas=(1,), isr=None):
    return PartitionState(
        "orders", TOPIC_ID, 0, leader, epoch, partition_epoch, replicas, replicas if isr is None else isr
    )


def partition_of(first=None, disk=None, high_watermark=0, **settings):
    config = TopicConfig({name.replace("_", "."): str(value) for name, value in settings.items()})
    log = Log.open(disk or SimDisk(), "d/orders-0", config, high_watermark=high_watermark)
    partition = Partition(1, ORDERS, TOPIC_ID, log)
    if first is not None:
        partition.follow_orders(first)
    return partition


def put(partition, *values, acks=1, **how):
    return partition.append(batch(*(values or (b"v",)), **how), acks, NOW)


def fetched(partition, replica, offset, *, epoch=1, now_ms=0):
    """A follower asks for `offset`, in a history that is ours."""
    last = partition.log.epochs.epoch_at(offset - 1)
    question = FetchQuestion(offset, -1 if last is None else last, partition.leader_epoch, 0)
    return partition.follower_fetch(BrokerLife(replica, epoch), question, now_ms)


def refusal(call, *args, **how):
    with pytest.raises(KafkaError) as caught:
        call(*args, **how)
    return caught.value.code


def watch(watermark, offset):
    """What a waiter is told, in a list."""
    told = []
    watermark.on_reach(offset, lambda error: told.append(error and error.code))
    return told


# --- orders -------------------------------------------------------------------------------------------------------


def test_nobody_leads_before_the_controller_says_so():
    partition = partition_of()
    assert not partition.is_leader
    assert refusal(partition.check_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(put, partition) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.end_offset == 0


def test_a_follower_takes_nothing_from_producers():
    partition = partition_of(state(leader=2, replicas=(1, 2)))
    assert refusal(put, partition) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_old_news_change_nothing():
    partition = partition_of(state(partition_epoch=4))
    assert not partition.follow_orders(state(leader=2, epoch=9, partition_epoch=3, replicas=(1, 2)))
    assert (partition.is_leader, partition.leader_epoch, partition.isr) == (True, 5, {1})


def test_the_same_orders_again_are_followed_again():
    partition = partition_of(state(partition_epoch=4))
    put(partition)
    assert partition.follow_orders(state(partition_epoch=4))
    assert (partition.is_leader, partition.high_watermark.value) == (True, 1)


def test_losing_leadership_lets_go_of_everybody_who_waits():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition, acks=ALL_REPLICAS)
    committed, more = watch(partition.high_watermark, 1), watch(partition.log_end, 2)
    partition.follow_orders(state(leader=2, epoch=6, partition_epoch=2, replicas=(1, 2)))
    assert committed == more == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert partition.high_watermark.waiting == partition.log_end.waiting == 0


def test_a_partition_that_nobody_leads_is_not_ours_either():
    partition = partition_of(state())
    waiting = watch(partition.high_watermark, 1)
    partition.follow_orders(state(leader=NO_LEADER, epoch=6, partition_epoch=2))
    assert not partition.is_leader
    assert waiting == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_replica_that_stops_lets_go_of_everybody_too():
    partition = partition_of(state())
    waiting = watch(partition.log_end, 1)
    partition.stop()
    assert waiting == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert refusal(put, partition) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_epoch_of_the_same_leader_lets_nobody_go():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition, acks=ALL_REPLICAS)
    waiting = watch(partition.high_watermark, 1)
    partition.follow_orders(state(epoch=6, partition_epoch=2, replicas=(1, 2)))
    fetched(partition, 2, 1)
    assert waiting == [None]


@pytest.mark.parametrize(
    ("asked", "code"),
    [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_who_knows_another_epoch_is_told_which_way(asked, code):
    partition = partition_of(state(epoch=5))
    if code is None:
        partition.check_leader(asked)
    else:
        assert refusal(partition.check_leader, asked) is code


def test_batches_carry_the_epoch_of_their_leader():
    partition = partition_of(state(epoch=5))
    put(partition)
    partition.follow_orders(state(epoch=8, partition_epoch=2))
    put(partition)
    assert [(e.epoch, e.start_offset) for e in partition.log.epochs.entries] == [(5, 0), (8, 1)]


# --- what is committed --------------------------------------------------------------------------------------------


def test_alone_in_sync_what_is_written_is_committed():
    partition = partition_of(state())
    told = watch(partition.high_watermark, 2)
    put(partition, b"a", b"b")
    assert told == [None]
    assert partition.log.high_watermark == partition.high_watermark.value == 2


def test_records_are_committed_when_the_slowest_in_sync_has_them():
    partition = partition_of(state(replicas=(1, 2, 3)))
    put(partition, b"a", b"b", b"c")
    assert partition.high_watermark.value == 0
    fetched(partition, 2, 3)
    assert partition.high_watermark.value == 0, "nobody has heard of broker 3"
    fetched(partition, 3, 1)
    assert partition.high_watermark.value == 1
    fetched(partition, 3, 3)
    assert partition.high_watermark.value == 3


def test_who_is_not_in_sync_is_not_waited_for():
    partition = partition_of(state(replicas=(1, 2, 3), isr=(1, 2)))
    put(partition)
    fetched(partition, 2, 1)
    assert partition.high_watermark.value == 1


def test_a_smaller_circle_commits_what_it_has():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition)
    told = watch(partition.high_watermark, 1)
    partition.follow_orders(state(partition_epoch=2, replicas=(1, 2), isr=(1,)))
    assert told == [None]


def test_the_high_watermark_never_goes_back():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition, b"a", b"b")
    fetched(partition, 2, 2)
    fetched(partition, 2, 0)
    assert partition.high_watermark.value == 2
    partition.follow_orders(state(epoch=6, partition_epoch=2, replicas=(1, 2, 3)))
    assert partition.high_watermark.value == 2, "a new leader knows nothing of its followers, but this"


def test_a_new_epoch_asks_its_followers_anew():
    partition = partition_of(state(replicas=(1, 2)))
    fetched(partition, 2, 0)
    partition.follow_orders(state(epoch=6, partition_epoch=2, replicas=(1, 2)))
    put(partition)
    assert partition.high_watermark.value == 0


def test_a_replica_that_is_added_within_an_epoch_is_heard_and_the_others_are_not_forgotten():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition)
    fetched(partition, 2, 1)
    partition.follow_orders(state(partition_epoch=2, replicas=(1, 2, 3), isr=(1, 2)))
    assert partition.has_follower(3)
    fetched(partition, 3, 1)
    partition.follow_orders(state(partition_epoch=3, replicas=(1, 2, 3)))
    put(partition)
    fetched(partition, 2, 2)
    fetched(partition, 3, 2)
    assert partition.high_watermark.value == 2


def test_strangers_and_ourselves_are_no_followers():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition)
    for stranger in (1, 9):
        assert not partition.has_follower(stranger)
        assert refusal(fetched, partition, stranger, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.high_watermark.value == 0


@given(st.lists(st.tuples(st.sampled_from(["put", 2, 3]), st.integers(0, 12)), max_size=40))
def test_the_high_watermark_is_the_least_of_what_all_in_sync_have(steps):
    partition = partition_of(state(replicas=(1, 2, 3)))
    reached, before = {2: -1, 3: -1}, 0
    for what, number in steps:
        if what == "put":
            put(partition)
        else:
            reached[what] = min(number, partition.log.end_offset)
            fetched(partition, what, reached[what])
        expected = max(before, min(partition.log.end_offset, *reached.values()))
        assert partition.high_watermark.value == partition.log.high_watermark == max(0, expected)
        before = max(0, expected)


def test_a_new_leader_starts_from_the_high_watermark_that_was_noted():
    disk = SimDisk()
    put(partition_of(state(), disk), b"a", b"b", b"c")
    again = partition_of(state(epoch=6, replicas=(1, 2)), disk, high_watermark=2)
    assert (again.high_watermark.value, again.log_end.value) == (2, 3)
    assert again.fetchable_end(0) == 2


# --- enough replicas ----------------------------------------------------------------------------------------------


def test_all_replicas_means_at_least_those_that_the_topic_asks_for():
    partition = partition_of(state(replicas=(1, 2), isr=(1,)), min_insync_replicas=2)
    assert refusal(put, partition, acks=ALL_REPLICAS) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.end_offset == 0, "nothing was written"
    put(partition, acks=1)
    assert partition.log.end_offset == 1


def test_a_topic_cannot_have_more_in_sync_than_it_has():
    partition = partition_of(state(replicas=(1,)), min_insync_replicas=2)
    assert put(partition, acks=ALL_REPLICAS).first_offset == 0


def test_a_circle_that_became_too_small_is_noticed_afterwards():
    partition = partition_of(state(replicas=(1, 2)), min_insync_replicas=2)
    put(partition, acks=ALL_REPLICAS)
    partition.check_in_sync()
    partition.follow_orders(state(partition_epoch=2, replicas=(1, 2), isr=(1,)))
    after = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert refusal(partition.check_in_sync, after) is after


def test_a_retry_moves_nothing_and_gets_its_first_offset():
    partition = partition_of(state())
    first = put(partition, b"a", producer=(7, 0, 0))
    put(partition, b"b", producer=(7, 0, 1))
    again = put(partition, b"a", producer=(7, 0, 0))
    assert (again.is_duplicate, again.first_offset) == (True, first.first_offset)
    assert partition.log_end.value == partition.high_watermark.value == 2


# --- reading ------------------------------------------------------------------------------------------------------


def test_followers_see_everything_and_consumers_what_is_committed_or_stable():
    partition = partition_of(state(replicas=(1, 2)))
    put(partition, b"a")
    put(partition, b"b", producer=(7, 0, 0), is_transactional=True)
    put(partition, b"c")
    fetched(partition, 2, 2)
    ends = [
        partition.fetchable_end(0),
        partition.fetchable_end(1),
        partition.fetchable_end(1, is_follower=True),
    ]
    assert ends == [2, 1, 3]
    partition.append(marker(7, commit=True), 1, NOW, client=False)
    assert partition.fetchable_end(1) == 1, "the end of the transaction is not committed yet"
    fetched(partition, 2, 4)
    assert partition.fetchable_end(0) == partition.fetchable_end(1) == 4


def test_reading_stops_at_the_limit():
    partition = partition_of(state())
    put(partition, b"a")
    put(partition, b"b")
    whole = partition.read(0, 1 << 20, 2, at_least_one=True)
    half = partition.read(0, 1 << 20, 1, at_least_one=True)
    assert 0 < half.size < whole.size


# --- epochs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ruled():
    """Epoch 2 wrote offsets 0 and 1, epoch 3 nothing, epoch 4 offset 2; epochs 5 to 7 nothing; 8 rules."""
    partition = partition_of(state(epoch=2))
    put(partition, b"a", b"b")
    for number, epoch in enumerate((3, 4, 5, 8), 2):
        partition.follow_orders(state(epoch=epoch, partition_epoch=number))
        if epoch == 4:
            put(partition, b"c")
    return partition


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        (8, (8, 3)),
        (7, (4, 3)),
        (5, (4, 3)),
        (4, (4, 3)),
        (3, (2, 2)),
        (2, (2, 2)),
        (1, (1, 0)),
        (9, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_that_wrote_began(ruled, asked, known):
    assert ruled.end_of_epoch(asked) == known


def test_the_epoch_that_rules_ends_at_the_end_even_before_it_wrote():
    partition = partition_of(state(epoch=4))
    assert partition.end_of_epoch(4) == (4, 0)
    put(partition)
    assert partition.end_of_epoch(4) == (4, 1)


def test_older_epochs_of_a_log_in_which_nothing_was_written_ended_where_it_begins():
    partition = partition_of(state(epoch=4))
    assert partition.end_of_epoch(3) == (3, 0)
    assert partition.end_of_epoch(-1) == partition.end_of_epoch(5) == (-1, -1)
