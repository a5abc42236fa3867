"""Replicas as small values that never change, and the machines that are made of them for the length of one step.

`thaw` builds a real `Partition` on a log, `freeze` takes it apart again. Of time nothing is kept: whoever proposes an
ISR may regard any follower that is behind as lagging or not, so that nothing can be safe only because somebody was
fast.
"""

import uuid
from typing import Any, NamedTuple, cast

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.exchange import BrokerLife, FetchAnswer, FetchQuestion, Proposal
from ottla.replication.following import Following, Outcome
from ottla.replication.leading import Leading
from ottla.replication.partition import Partition
from ottla.replication.progress import NEVER
from ottla.replication.state import PartitionState
from ottla.storage.log import Log
from ottla.testing.simulation.cluster.object_log import Config, ObjectLog, Record

TOPIC = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=1)
REPLICAS = (1, 2, 3)
LEADER_ACKED = 1
_NOW_MS = 0
_PRODUCER = 7


class Entry(NamedTuple):
    """A record: what was written, and in which leader epoch."""

    value: int
    epoch: int


class Reign(NamedTuple):
    """A leader's memory: `Leading`, frozen. `followers` have an end of their log and a life."""

    life: int
    isr: tuple[int, ...]
    epoch_start: int
    followers: tuple[tuple[int, int, int], ...]
    proposal: Proposal | None
    is_asked: bool
    is_outdated: bool


class Replica(NamedTuple):
    """One broker with its replica. While it is down, only the log and the number of its last life are there."""

    broker: int
    life: int
    entries: tuple[Entry, ...] = ()
    is_up: bool = True
    is_clean: bool = False
    """It is down, and the next life will say that this was a clean shutdown."""
    high_watermark: int = 0
    state: PartitionState | None = None
    reign: Reign | None = None
    follows: int | None = None
    """The leader epoch in which it follows."""
    shown: int = 0
    """How far consumers may read."""
    min_insync: int = 2
    """min.insync.replicas, as far as this broker has heard."""

    @property
    def leader_epoch(self) -> int:
        return -1 if self.state is None else self.state.leader_epoch


class Answer(NamedTuple):
    """What a leader said to a fetch. Of a log out of range also where the leader's begins and ends."""

    question: FetchQuestion
    answer: FetchAnswer
    leader_start: int = -1
    leader_end: int = -1


class Stuck(AssertionError):
    """A machine will do the same again, and never anything else."""


class Workshop:
    """Makes replicas of replicas, by letting the real machines run."""

    def thaw(self, replica: Replica) -> Partition:
        log = ObjectLog(Config(replica.min_insync))
        log.append_fetched([_record(entry, at) for at, entry in enumerate(replica.entries)], _NOW_MS)
        log.advance_high_watermark(replica.high_watermark)
        partition = Partition(replica.broker, TOPIC, TOPIC_ID, cast(Log, log))
        partition.broker_epoch = replica.life
        state = replica.state
        if state is not None:
            partition.state, partition.leader_epoch = state, state.leader_epoch
            partition.isr = frozenset(state.isr)
        if replica.reign is not None:
            assert state is not None
            partition.leading = _thaw_reign(replica, replica.reign, state)
            partition.is_leader, partition.isr = True, partition.leading.isr
        elif replica.follows is not None:
            partition.following = Following(log, replica.follows)
        return partition

    def orders(self, replica: Replica, state: PartitionState) -> Replica:
        partition = self.thaw(replica)
        if not partition.follow_orders(state, _NOW_MS):
            return replica
        return freeze(partition)

    def append(self, replica: Replica, value: int) -> Replica | None:
        partition = self.thaw(replica)
        record = Record(str(value), producer_id=_PRODUCER, sequence=value)
        try:
            partition.append(record, LEADER_ACKED, _NOW_MS)
        except KafkaError:
            return None
        return freeze(partition)

    def question(self, replica: Replica) -> FetchQuestion | None:
        return self.thaw(replica).question()

    def fetch(
        self, leader: Replica, life: BrokerLife, question: FetchQuestion
    ) -> tuple[Replica, Answer | None]:
        """A follower's question at a broker that may be the leader; no answer is one that changes nothing."""
        partition = self.thaw(leader)
        log = cast(Any, partition.log)
        try:
            diverging = partition.follower_fetch(life, question, _NOW_MS)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                return freeze(partition), None
            refused = FetchAnswer(error.code)
            return freeze(partition), Answer(question, refused, log.log_start_offset, log.end_offset)
        found = FetchAnswer(high_watermark=partition.high_watermark.value, log_start_offset=0)
        if diverging is not None:
            found = found._replace(diverging=diverging, high_watermark=-1)
        else:
            found = found._replace(records=log.slice(question.fetch_offset, log.end_offset, 1))
        return freeze(partition), Answer(question, found)

    def answer(self, replica: Replica, found: Answer) -> Replica:
        partition = self.thaw(replica)
        try:
            outcome = partition.answer(found.question, found.answer, _NOW_MS)
        except KafkaError:  # the log does not take it
            return replica
        if outcome is Outcome.OUT_OF_RANGE:
            outcome = partition.out_of_range(found.question, found.leader_start, found.leader_end)
        after = freeze(partition)
        if outcome is Outcome.TRUNCATED and after.entries == replica.entries and self._asks(replica, found):
            raise Stuck(
                f"broker {replica.broker} is told to cut its log and does not: it asks the same for ever"
            )
        return after

    def _asks(self, replica: Replica, found: Answer) -> bool:
        return self.question(replica) == found.question

    def propose(self, replica: Replica, lagging: tuple[int, ...]) -> Replica | None:
        partition = self.thaw(replica)
        assert partition.leading is not None
        for id in lagging:
            partition.leading.followers[id].caught_up_ms = NEVER
        return None if partition.propose(_NOW_MS) is None else freeze(partition)

    def answered(
        self, replica: Replica, proposal: Proposal, outcome: PartitionState | KafkaError | None
    ) -> Replica:
        partition = self.thaw(replica)
        leading = partition.leading
        if leading is not None and leading.proposal == proposal:
            proposal = leading.proposal  # a partition knows its proposal by identity
        partition.answered(proposal, outcome, _NOW_MS)
        return freeze(partition)

    def live_on(self, replica: Replica, life: int) -> Replica:
        """It has registered again, and remembers everything."""
        return replica._replace(life=life)


def down(replica: Replica, *, cut_at: int | None = None, is_clean: bool = False) -> Replica:
    """What is left of a broker when it is dead; with a power loss less than was written."""
    return Replica(replica.broker, replica.life, replica.entries[:cut_at], is_up=False, is_clean=is_clean)


def born(replica: Replica, min_insync: int) -> Replica:
    """The next life. The high watermark that was on the disk is as old as can be; settings are read from the store."""
    return Replica(replica.broker, replica.life + 1, replica.entries, min_insync=min_insync)


def freeze(partition: Partition) -> Replica:
    log = cast(Any, partition.log)
    following = partition.following
    return Replica(
        partition.broker_id,
        partition.broker_epoch,
        tuple(Entry(int(record.value), record.epoch) for record in log.records),
        high_watermark=partition.high_watermark.value,
        state=partition.state,
        reign=None if partition.leading is None else _freeze_reign(partition.leading),
        follows=None if following is None else following.leader_epoch,
        shown=partition.fetchable_end(0),
        min_insync=partition.config.min_insync_replicas,
    )


def _thaw_reign(replica: Replica, reign: Reign, state: PartitionState) -> Leading:
    leading = Leading(state, BrokerLife(replica.broker, reign.life), reign.epoch_start, _NOW_MS)
    leading.isr = frozenset(reign.isr)
    for id, end_offset, life in reign.followers:
        progress = leading.followers[id]
        progress.end_offset, progress.broker_epoch = end_offset, life
        progress.caught_up_ms = progress.fetched_ms = _NOW_MS
    leading.proposal = reign.proposal
    leading._is_asked, leading._is_outdated = reign.is_asked, reign.is_outdated
    return leading


def _freeze_reign(leading: Leading) -> Reign:
    followers = ((id, p.end_offset, p.broker_epoch) for id, p in leading.followers.items())
    return Reign(
        leading.broker.epoch,
        tuple(sorted(leading.isr)),
        leading.epoch_start,
        tuple(followers),
        leading.proposal,
        leading._is_asked,
        leading._is_outdated,
    )


def _record(entry: Entry, offset: int) -> Record:
    value, epoch = entry
    return Record(str(value), producer_id=_PRODUCER, sequence=value, epoch=epoch, offset=offset)
