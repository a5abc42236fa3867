"""A partition as one broker sees it: step 5 in the life of a produce, and of a fetch.

Leadership comes from the controller and is never assumed. A leader appends, keeps account of how far each replica has
come, and moves the high watermark: the offset that all in-sync replicas have reached, below which records are
committed. Who waits for records, or for their being committed, waits for one of the two watermarks.

Pure but for the log it was given: no clock, no sockets, no tasks.
"""

import uuid

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.types import Buffer
from ottla.core.watermark import Watermark
from ottla.replication.state import PartitionState
from ottla.storage.log import Appended, Log
from ottla.storage.reading import Slice

ALL_REPLICAS = -1  # acks


class Partition:
    """One partition of which this broker has a replica."""

    def __init__(
        self, broker_id: int, topic_partition: TopicPartition, topic_id: uuid.UUID, log: Log
    ) -> None:
        self.broker_id = broker_id
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.config = log.config
        self.state: PartitionState | None = None
        self.is_leader = False
        self.is_stopped = False
        self.leader_epoch = -1
        self.isr: frozenset[int] = frozenset()
        self._followers: dict[int, int] = {}
        """How far the other replicas have come, as far as their fetches tell."""
        self.high_watermark = Watermark(log.high_watermark)
        self.log_end = Watermark(log.end_offset)

    # --- what the controller says -----------------------------------------------------------------------------

    def follow_orders(self, state: PartitionState) -> bool:
        """Become leader or follower, as the controller says. False if this is old news."""
        known = self.state
        if known is not None and state.partition_epoch < known.partition_epoch:
            return False
        was_leader, was_epoch = self.is_leader, self.leader_epoch
        self.state, self.leader_epoch = state, state.leader_epoch
        self.isr = frozenset(state.isr)
        self.is_leader = state.leader == self.broker_id
        if self.is_leader:
            # The epoch itself reaches the disk with the first batch that carries it: a start with thousands of
            # partitions must not wait for thousands of syncs.
            is_same_reign = was_leader and was_epoch == state.leader_epoch
            reached = self._followers if is_same_reign else {}
            self._followers = {id: reached.get(id, -1) for id in state.replicas if id != self.broker_id}
            self._move_high_watermark()
        elif was_leader:
            self._fail_waiters(f"{self.topic_partition} is led by broker {state.leader} now")
        return True

    def stop(self) -> None:
        """The replica goes: nobody is to wait for it any longer."""
        self.is_leader, self.is_stopped = False, True
        self._fail_waiters(f"{self.topic_partition} is not here any more")

    def _fail_waiters(self, detail: str) -> None:
        error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
        self.high_watermark.fail(error)
        self.log_end.fail(error)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads, in the epoch that the asker knows of (KIP-320)."""
        if not self.is_leader:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} does not lead {self.topic_partition}",
            )
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            self._refuse_epoch(current_leader_epoch)

    def _refuse_epoch(self, asked: int) -> None:
        is_old = asked < self.leader_epoch
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"the leader epoch of {self.topic_partition} is {self.leader_epoch}, not {asked}",
        )

    def check_in_sync(self, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """Raise unless enough replicas are in sync. A topic that asks for more replicas than it has is content, as in
        Kafka, when all of them are."""
        needed = min(self.config.min_insync_replicas, len(self._followers) + 1)
        if len(self.isr) < needed:
            detail = f"{len(self.isr)} of at least {needed} replicas of {self.topic_partition} are in sync"
            raise KafkaError(code, detail)

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, data: Buffer, acks: int, now_ms: int, *, client: bool = True) -> Appended:
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

    def has_follower(self, replica: int) -> bool:
        """Is this broker one of those that copy from here?"""
        return replica in self._followers

    def follower_fetched(self, replica: int, offset: int) -> None:
        """A follower asks for `offset`, so it has everything below."""
        if replica in self._followers:
            self._followers[replica] = offset
            self._move_high_watermark()

    def _move_high_watermark(self) -> None:
        """Records are committed when every in-sync replica has them."""
        reached = self.log.end_offset
        if len(self.isr) > 1:
            reached = min([reached, *(self._followers.get(r, -1) for r in self.isr if r != self.broker_id)])
        if reached > self.high_watermark.value:
            self.log.advance_high_watermark(reached)
            self.high_watermark.advance(reached)

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
