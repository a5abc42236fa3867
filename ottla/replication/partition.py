"""A partition as one broker sees it: step 5 in the life of a produce, and of a fetch.

Leadership comes from the controller and is never assumed. A leader appends, keeps account of how far each replica has
come, and moves the high watermark: the offset that all in-sync replicas have reached, below which records are
committed. A follower asks its leader for more, and lets its log become the leader's. Who waits for records, or for
their being committed, waits for one of the two watermarks.

Pure but for the log it was given: no clock, no sockets, no tasks.
"""

import uuid
from typing import Any

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.watermark import Watermark
from ottla.replication.exchange import BrokerLife, FetchAnswer, FetchQuestion, Proposal
from ottla.replication.following import Following, Outcome, check_answerable
from ottla.replication.leading import LAG_MS, Leading
from ottla.replication.state import NO_EPOCH, NO_LEADER, PartitionState
from ottla.storage.epochs import EpochEnd
from ottla.storage.log import Appended, Log
from ottla.storage.reading import Slice

ALL_REPLICAS = -1  # acks


class Partition:
    """One partition of which this broker has a replica."""

    def __init__(
        self, broker_id: int, topic_partition: TopicPartition, topic_id: uuid.UUID, log: Log
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = NO_EPOCH
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.config = log.config
        self.lag_ms = LAG_MS
        """How long a follower may be behind before it is out of sync (replica.lag.time.max.ms)."""
        self.state: PartitionState | None = None
        self.is_leader = False
        self.is_stopped = False
        self.leader_epoch = -1
        self.isr: frozenset[int] = frozenset()
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.high_watermark = Watermark(log.high_watermark)
        self.log_end = Watermark(log.end_offset)

    # --- what the controller says -----------------------------------------------------------------------------

    def follow_orders(self, state: PartitionState, now_ms: int = 0) -> bool:
        """Become leader or follower, as the controller says. False if this is old news."""
        known = self.state
        if known is not None and state.partition_epoch < known.partition_epoch:
            return False
        was_leader, was_epoch = self.is_leader, self.leader_epoch
        self.state, self.leader_epoch = state, state.leader_epoch
        self.is_leader = state.leader == self.broker_id
        if self.is_leader:
            if was_leader and was_epoch == state.leader_epoch:
                self._reign_on(state, now_ms)
            else:
                self._begin_to_lead(state, now_ms)
            return True
        self.isr = frozenset(state.isr)
        if was_leader:
            self._fail_waiters(f"{self.topic_partition} is led by broker {state.leader} now")
        if self.following is None or was_epoch != state.leader_epoch:
            self._begin_to_follow(state)
        return True

    def _begin_to_lead(self, state: PartitionState, now_ms: int) -> None:
        # The epoch itself reaches the disk with the first batch that carries it: a start with thousands of
        # partitions must not wait for thousands of syncs.
        self.following = None
        life = BrokerLife(self.broker_id, self.broker_epoch)
        self.leading = Leading(state, life, self.log.end_offset, now_ms)
        self.isr = self.leading.isr
        self._move_high_watermark()

    def _reign_on(self, state: PartitionState, now_ms: int) -> None:
        leading = self._reign()
        leading.adopt(state, now_ms)
        was_enough = not self.is_under_min_isr
        self.isr = leading.isr
        if was_enough and self.is_under_min_isr:
            self.high_watermark.fail(self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        self._move_high_watermark()

    def _begin_to_follow(self, state: PartitionState) -> None:
        self.leading = self.following = None  # if the log cannot follow the new leader, it follows nobody
        self.following = Following(self.log, state.leader_epoch)

    def _reign(self) -> Leading:
        leading = self.leading
        if leading is None:
            raise self._not_leader()
        return leading

    def stop(self) -> None:
        """The replica goes: nobody is to wait for it any longer."""
        self.is_leader, self.is_stopped = False, True
        self.leading = self.following = None
        self._fail_waiters(f"{self.topic_partition} is not here any more")

    def _fail_waiters(self, detail: str) -> None:
        error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
        self.high_watermark.fail(error)
        self.log_end.fail(error)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads, in the epoch that the asker knows of (KIP-320)."""
        if not self.is_leader:
            raise self._not_leader()
        self.check_epoch(current_leader_epoch)

    def _not_leader(self) -> KafkaError:
        detail = f"broker {self.broker_id} does not lead {self.topic_partition}"
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)

    def check_epoch(self, asked: int) -> None:
        """Raise if the asker names another leader epoch than ours; -1 names none."""
        if asked >= 0 and asked != self.leader_epoch:
            is_old = asked < self.leader_epoch
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"the leader epoch of {self.topic_partition} is {self.leader_epoch}, not {asked}",
            )

    # --- enough in sync -----------------------------------------------------------------------------------------

    @property
    def min_isr(self) -> int:
        """A topic that asks for more replicas than it has is content, as in Kafka, when all of them are in sync."""
        state = self.state
        return min(self.config.min_insync_replicas, 1 if state is None else len(state.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.min_isr

    @property
    def replication_lag(self) -> int:
        """How many offsets the slowest follower lacks; 0 if there is none, or another broker leads."""
        if self.leading is None:
            return 0
        end = self.log.end_offset
        return max((end - max(each.end_offset, 0) for each in self.leading.followers.values()), default=0)

    @property
    def may_be_outvoted(self) -> bool:
        """Could somebody be elected who is not in sync? Then nothing is committed, or it could be without it.

        We and the controller may disagree for a moment on how many must be in sync: who is eligible, it says itself.
        """
        return self.is_under_min_isr or (self.state is not None and bool(self.state.elr))

    def check_in_sync(self, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """Raise unless enough replicas are in sync."""
        if self.is_under_min_isr:
            raise self._too_few(code)

    def _too_few(self, code: ErrorCode) -> KafkaError:
        detail = f"{len(self.isr)} of at least {self.min_isr} replicas of {self.topic_partition} are in sync"
        return KafkaError(code, detail)

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, data: Any, acks: int, now_ms: int, *, client: bool = True) -> Appended:
        """Write a producer's batches as leader."""
        if not self.is_leader:
            self.check_leader()
        if acks == ALL_REPLICAS and len(self.isr) < self.config.min_insync_replicas:
            self.check_in_sync()
        appended = self.log.append(data, self.leader_epoch, now_ms, client=client)
        if not appended.is_duplicate:
            self.log_end.advance(self.log.end_offset)
            self._move_high_watermark()
        return appended

    def _move_high_watermark(self) -> None:
        """Records are committed when every replica has them that may be in sync."""
        leading = self.leading
        if leading is None:
            return
        reached = self._own_end()
        if leading.followers:
            if self.may_be_outvoted:
                return
            reached = leading.committed_to(reached)
        if reached > self.high_watermark.value:
            self.log.advance_high_watermark(reached)
            self.high_watermark.advance(reached)

    def _own_end(self) -> int:
        """How far our own log counts. Where every record is to be synced before it is acknowledged, what is not synced
        does not: nobody may read what a power loss would take back."""
        if self.config.flush_messages > 1:
            return self.log.end_offset
        return min(self.log.end_offset, self.log.recovery_point)

    def synced(self) -> None:
        """More of the log is on the disk."""
        self._move_high_watermark()

    def reconfigured(self) -> None:
        """Settings have changed: what lacked replicas or syncs may be committed now."""
        self._move_high_watermark()

    # --- followers, as their leader sees them -------------------------------------------------------------------

    def has_follower(self, replica: int) -> bool:
        """Is this broker one of those that copy from here?"""
        return self.leading is not None and replica in self.leading.followers

    def follower_fetch(self, life: BrokerLife, question: FetchQuestion, now_ms: int) -> EpochEnd | None:
        """A follower asks. Where its log is not ours, it is told where they part; else it has everything below its
        offset, and that is noted. Raises KafkaError if it asks the wrong one, or in another epoch."""
        self.check_leader(question.current_leader_epoch)
        check_answerable(question)
        leading = self._reign()
        leading.check_life(life)
        diverging = self.divergence(question.last_fetched_epoch, question.fetch_offset)
        if diverging is not None:
            return diverging
        if not self.log.log_start_offset <= question.fetch_offset <= self.log.end_offset:
            detail = f"offset {question.fetch_offset} of {self.topic_partition} is not here"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        leading.note(life, question, self.log.end_offset, now_ms)
        self._move_high_watermark()
        return None

    def divergence(self, last_epoch: int, offset: int) -> EpochEnd | None:
        """Was the reader's last record written by a leader whose end of the log is not ours? Then where it is."""
        if last_epoch < 0:
            return None
        epoch, end_offset = self.end_of_epoch(last_epoch)
        if epoch < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {last_epoch} is not known")
        if epoch == last_epoch and end_offset >= offset:
            return None
        return EpochEnd(epoch, end_offset)

    def someone_may_join(self, now_ms: int) -> bool:
        """Has a follower come so far that the ISR should grow?"""
        leading = self.leading
        if leading is None:
            return False
        return leading.someone_may_join(self.log.end_offset, self.high_watermark.value, self.lag_ms, now_ms)

    def propose(self, now_ms: int) -> Proposal | None:
        """The ISR that the controller should be asked for, if it is another one than now; then `answered`."""
        leading = self.leading
        if leading is None:
            return None
        leading.broker = BrokerLife(self.broker_id, self.broker_epoch)
        return leading.propose(self.log.end_offset, self.high_watermark.value, self.lag_ms, now_ms)

    def answered(self, proposal: Proposal, outcome: PartitionState | KafkaError | None, now_ms: int) -> None:
        """What came of a proposal: a new state, a refusal, or None if nobody knows."""
        leading = self.leading
        if leading is None:
            return
        if isinstance(outcome, PartitionState):
            if outcome.leader_epoch == self.leader_epoch and outcome.leader == self.broker_id:
                self.follow_orders(outcome, now_ms)
            else:  # we are deposed; the controller will tell us so itself
                leading.answered(proposal, self._not_leader(), self.lag_ms, now_ms)
        else:
            leading.answered(proposal, outcome, self.lag_ms, now_ms)
            self._move_high_watermark()

    # --- following ----------------------------------------------------------------------------------------------

    def question(self) -> FetchQuestion | None:
        """What to ask the leader for; None if there is nobody to ask."""
        following, state = self.following, self.state
        if following is None or state is None or state.leader == NO_LEADER:
            return None
        return following.question()

    @property
    def is_caught_up(self) -> bool:
        """Do we follow, and had everything that is committed when the leader answered last?"""
        return self.following is not None and self.following.is_caught_up

    def answer(self, question: FetchQuestion, answer: FetchAnswer, now_ms: int) -> Outcome:
        """The leader's answer to a question, applied if it still fits."""
        following = self.following
        if following is None:
            return Outcome.STALE
        outcome = following.apply(question, answer, now_ms)
        self._show_log()
        return outcome

    def out_of_range(self, question: FetchQuestion, leader_start: int, leader_end: int) -> Outcome:
        """The leader has nothing at the offset of the question: its log lies between these two."""
        following = self.following
        if following is None:
            return Outcome.STALE
        outcome = following.out_of_range(question, leader_start, leader_end)
        self._show_log()
        return outcome

    def _show_log(self) -> None:
        """Let those who wait see where the log is now, which may be further back."""
        if self.log_end.value != self.log.end_offset:
            self.log_end.reset(self.log.end_offset)
        if self.high_watermark.value != self.log.high_watermark:
            self.high_watermark.reset(self.log.high_watermark)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, limit: int, *, at_least_one: bool) -> Slice:
        """Batches from the one that holds `offset` on, below `limit`."""
        return self.log.read(offset, bytes_max, limit, at_least_one=at_least_one)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` that ruled here and where it ended; (-1, -1) if that is not known."""
        if epoch == self.leader_epoch:
            return epoch, self.log.end_offset
        latest = self.log.epochs.latest
        if latest is None and 0 <= epoch < self.leader_epoch:
            return epoch, self.log.end_offset  # nothing was written at all: it ended where we begin
        if latest is not None and latest < epoch < self.leader_epoch:
            return latest, self.log.end_offset  # nothing was written in the epochs since
        end = self.log.epochs.end_of(epoch, self.log.end_offset)
        return (-1, -1) if end is None else (end.epoch, end.end_offset)

    def fetchable_end(self, isolation_level: int, *, is_follower: bool = False) -> int:
        """How far a reader may see: followers everything, consumers what is committed, or stable."""
        if is_follower:
            return self.log.end_offset
        return self.log.last_stable_offset if isolation_level else self.high_watermark.value
