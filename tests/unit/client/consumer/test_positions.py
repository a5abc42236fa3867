"""Where partitions are read from, and what becomes of a position that the log does not have any more (KIP-320)."""

import asyncio

import pytest

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, EpochEnd
from ottla.client.consumer.positions import Positions
from ottla.client.consumer.subscription import Position, Subscription
from ottla.client.deadline import Deadline
from ottla.client.errors import LogTruncationError, NoOffsetForPartitionError
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.records import OffsetAndMetadata, OffsetAndTimestamp
from ottla.core.ids import NULL_ID, TopicPartition

PARTITION = TopicPartition("t", 0)


class Log:
    """Answers as a leader and a coordinator would. `before` is run while the question is under way."""

    def __init__(self, *, begin=0, end=100, committed=None, epoch_end=None):
        self.begin, self.end, self.committed, self.epoch_end = begin, end, committed, epoch_end
        self.before = lambda: None

    async def offsets(self, wanted, deadline, found):
        self.before()
        places = {EARLIEST_TIMESTAMP: self.begin, LATEST_TIMESTAMP: self.end}
        answer = {
            key: OffsetAndTimestamp(places[time], -1, 3) if time in places else None
            for key, time in wanted.items()
        }
        found(answer)
        return answer

    async def epoch_ends(self, wanted, deadline, found):
        self.before()
        found(dict.fromkeys(wanted, self.epoch_end))

    async def fetch(self, partitions, deadline):
        self.before()
        return dict.fromkeys(partitions, self.committed)


def found(log, reset="earliest", *, prepare=lambda state: None, has_group=True):
    """The state of a partition after its position was looked up, and the error that a poll would raise."""

    async def run():
        config = ConsumerConfig({"auto.offset.reset": reset, "group.id": "g"})
        cluster, subscription = Cluster(config), Subscription()
        cluster.metadata.topics["t"] = TopicInfo("t", NULL_ID, (PartitionInfo("t", 0, 1, 5),))
        subscription.assign_manually([PARTITION])
        state = subscription.state(PARTITION)
        prepare(state)
        committed = log if has_group else None
        positions = Positions(cluster, config, subscription, log, committed, lambda: None)
        await positions.find([state], Deadline(1000))
        await cluster.close()
        return state, positions.error

    return asyncio.run(run())


def test_what_was_committed_counts_first():
    state, _ = found(Log(committed=OffsetAndMetadata(7, "", 2)))
    assert state.position == Position(7, 2) and state.leader_epoch == -1, "it is to be checked"


@pytest.mark.parametrize("reset, offset", [("earliest", 3), ("latest", 100), ("by_duration:P1D", 100)])
@pytest.mark.parametrize("has_group", [True, False])
def test_else_what_the_setting_says(reset, offset, has_group):
    state, _ = found(Log(begin=3), reset, has_group=has_group)
    assert state.position == Position(offset, 3) and state.leader_epoch == 5


def test_or_an_error():
    with pytest.raises(NoOffsetForPartitionError, match="nothing was committed for t-0"):
        found(Log(), "none")


def test_whoever_seeks_meanwhile_wins():
    log = Log(committed=OffsetAndMetadata(7))

    def prepare(state):
        log.before = lambda: state.seek(Position(42))

    assert found(log, prepare=prepare)[0].position == Position(42)


def validated(end, reset="earliest", offset=50):
    def prepare(state):
        state.seek(Position(offset, 4))
        state.needs_validation = True

    return found(Log(epoch_end=end), reset, prepare=prepare)


def test_a_position_that_the_new_leader_has_is_kept():
    state, error = validated(EpochEnd(4, 50))
    assert (state.position, state.needs_validation, state.leader_epoch, error) == (
        Position(50, 4),
        False,
        5,
        None,
    )


def test_a_broker_too_old_to_be_asked_is_believed():
    assert validated(None)[0].position == Position(50, 4)


def test_after_a_truncation_reading_goes_on_where_the_logs_part(caplog):
    state, error = validated(EpochEnd(3, 30))
    assert (state.position, state.is_fetchable, error) == (Position(30, 3), True, None)
    assert "was cut below offset 50" in caplog.text


def test_or_is_reset_if_nobody_knows_where():
    state, _ = validated(EpochEnd(-1, -1))
    assert state.position is None and state.needs_reset == "earliest"


def test_without_a_reset_a_truncation_is_raised():
    state, error = validated(EpochEnd(3, 30), "none")
    assert isinstance(error, LogTruncationError) and "cut below offset 50" in str(error)
    assert (error.offsets, error.diverging) == ({PARTITION: 50}, {PARTITION: 30})
    assert not state.is_fetchable
    _, error = validated(EpochEnd(-1, -1), "none")
    assert isinstance(error, LogTruncationError) and error.diverging == {}


def diverged(end, offset, reset="earliest"):
    async def run():
        config = ConsumerConfig({"auto.offset.reset": reset})
        subscription = Subscription()
        subscription.assign_manually([PARTITION])
        state = subscription.state(PARTITION)
        state.seek(Position(offset, 4))
        life = state.life
        positions = Positions(Cluster(config), config, subscription, Log(), None, lambda: None)
        positions.diverged(state, end)
        return state, positions.error, state.life != life

    return asyncio.run(run())


def test_a_fetch_that_diverges_behind_the_position_only_drops_what_was_fetched_ahead():
    state, error, is_new = diverged(EpochEnd(3, 60), 50)
    assert (state.position, error, is_new) == (Position(50, 3), None, True)


def test_a_fetch_that_diverges_before_the_position_is_a_truncation():
    assert diverged(EpochEnd(3, 30), 50)[0].position == Position(30, 3)
    assert isinstance(diverged(EpochEnd(3, 30), 50, "none")[1], LogTruncationError)
