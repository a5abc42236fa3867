"""A follower's side of a partition: what it asks its leader, and what it does with the answer.

An answer is applied only if it fits: if the log still ends where it ended when the question was asked, with the same
last epoch, under the same leader. Late and doubled answers are thus without effect.

Logs part where leaders change. The follower says with every question which epoch its last record has; a leader whose
log has another history tells the end of the largest epoch they may share, and the follower cuts its log there and asks
again, until they agree (KIP-101, KIP-279). A follower never cuts at its own high watermark: that lags behind, and what
lies above it may be committed.
"""

import enum
from typing import Any

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import UNKNOWN, FetchAnswer, FetchQuestion
from ottla.replication.replica_log import ReplicaLog
from ottla.storage.epochs import EpochEnd


class Outcome(enum.Enum):
    """What became of an answer."""

    APPENDED = enum.auto()
    NOTHING = enum.auto()  # there was nothing new
    TRUNCATED = enum.auto()  # the logs had parted: ask again
    STALE = enum.auto()  # it answers a question that is not ours any more
    OUT_OF_RANGE = enum.auto()  # ask the leader where its log begins and ends, then `out_of_range`
    REFUSED = enum.auto()  # the leader said no: look whether it still leads


class Following:
    """The log of a follower, in one leader epoch."""

    def __init__(self, log: ReplicaLog, leader_epoch: int) -> None:
        self._log = log
        self.leader_epoch = leader_epoch
        self.is_caught_up = False
        """Had we everything that is committed when the leader answered last?"""
        self._drop_empty_epoch()

    def _drop_empty_epoch(self) -> None:
        """Who led, and died between noting the epoch and writing its first record, must not insist on it."""
        latest = self._log.epochs.latest
        if latest is not None and latest != self.last_epoch():
            self._log.truncate_to(self._log.end_offset)

    def last_epoch(self) -> int:
        """The epoch of the last record, as far as it is known."""
        log = self._log
        if log.end_offset == log.log_start_offset:
            latest = log.epochs.latest
            return UNKNOWN if latest is None else latest
        epoch = log.epochs.epoch_at(log.end_offset - 1)
        return UNKNOWN if epoch is None else epoch

    def question(self) -> FetchQuestion:
        log = self._log
        return FetchQuestion(log.end_offset, self.last_epoch(), self.leader_epoch, log.log_start_offset)

    def fits(self, question: FetchQuestion) -> bool:
        """Would we ask the same again?"""
        return self.has_same_end(question) and question.current_leader_epoch == self.leader_epoch

    def has_same_end(self, question: FetchQuestion) -> bool:
        return (question.fetch_offset, question.last_fetched_epoch) == (
            self._log.end_offset,
            self.last_epoch(),
        )

    def apply(self, question: FetchQuestion, answer: FetchAnswer, now_ms: int) -> Outcome:
        """Let the log follow the answer. Raises KafkaError if what came cannot be appended."""
        if not self.fits(question):
            return Outcome.STALE
        if answer.error is not ErrorCode.NONE:
            is_range = answer.error is ErrorCode.OFFSET_OUT_OF_RANGE
            return Outcome.OUT_OF_RANGE if is_range else Outcome.REFUSED
        if answer.diverging is not None:
            self._check_offsets(answer.diverging.end_offset)
            self._log.truncate_to(self.truncation_point(answer.diverging))
            return Outcome.TRUNCATED
        if len(answer.records):
            self._append(answer.records, now_ms)
        self._keep_up(answer)
        return Outcome.APPENDED if len(answer.records) else Outcome.NOTHING

    def _append(self, records: Any, now_ms: int) -> None:
        """Nothing that a later leader than ours has written can be in there, and half a batch is no answer: the same
        question would bring it again."""
        if self._log.append_fetched(records, now_ms, self.leader_epoch) is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch in {len(records)} bytes of records")

    def _check_offsets(self, *offsets: int) -> None:
        """Before the log is cut by the word of a leader: does it make sense?"""
        if min(offsets) < 0 or list(offsets) != sorted(offsets):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no log has such offsets: {offsets}")

    def truncation_point(self, diverging: EpochEnd) -> int:
        """The end of the largest epoch that both may share: ours, or the leader's if that comes first."""
        ours = self._log.epochs.end_of(diverging.epoch, self._log.end_offset)
        end = self._log.end_offset if ours is None else ours.end_offset
        return min(diverging.end_offset, end)

    def _keep_up(self, answer: FetchAnswer) -> None:
        """High watermark and log start follow the leader's, as far as our log goes."""
        log = self._log
        self.is_caught_up = answer.high_watermark <= log.end_offset
        log.advance_high_watermark(min(answer.high_watermark, log.end_offset))
        if log.log_start_offset < answer.log_start_offset <= log.high_watermark:
            log.advance_log_start(answer.log_start_offset)

    def out_of_range(self, question: FetchQuestion, leader_start: int, leader_end: int) -> Outcome:
        """The leader has nothing at the offset we asked for: its log lies between these two."""
        log = self._log
        if not self.fits(question):
            return Outcome.STALE
        self._check_offsets(leader_start, leader_end)
        if (
            log.end_offset > leader_end
        ):  # without epochs on both sides, the leader's end is all there is to go by
            log.truncate_to(leader_end)
        elif log.end_offset < leader_start:
            log.restart_at(leader_start)
        else:
            return Outcome.NOTHING
        return Outcome.TRUNCATED


def check_answerable(question: FetchQuestion) -> None:
    """Followers say in which epoch they follow: from one that does not know, nothing can be learned."""
    if question.current_leader_epoch == UNKNOWN:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, "a follower must name the epoch it follows in")
