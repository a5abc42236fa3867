"""Where partitions are read from: what the group committed, else where `auto_offset_reset` says; and whether that is
still in the log after its leader has changed (KIP-320).

`update` begins to look up whatever is missing at that moment, in the background, so that a poll that does not wait
makes progress too; partitions that are assigned meanwhile are left for the next `update`, because their listener may
want to seek first. What a lookup finds counts only for a partition that has the life it was looked up for, and as soon
as it is there: one partition that cannot be found holds back no other.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.lookup import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochAsked,
    EpochEnd,
    OffsetLookup,
)
from ottla.client.consumer.offsets import CommittedOffsets
from ottla.client.consumer.subscription import EARLIEST, LATEST, NONE, PartitionState, Position, Subscription
from ottla.client.deadline import Backoff, Deadline
from ottla.client.errors import LogTruncationError, NoOffsetForPartitionError
from ottla.client.records import OffsetAndTimestamp
from ottla.core.errors import RetriableError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

_MS = 1000


class Positions:
    """Of one consumer. `changed` is called when something was found, or an error for the next poll."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        lookup: OffsetLookup,
        committed: CommittedOffsets | None,
        changed: Callable[[], None],
    ) -> None:
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._lookup, self._committed, self._changed = lookup, committed, changed
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: dict[TopicPartition, int] = {}
        """What is being looked up in the background, for which life of the partition."""
        self.error: Exception | None = None

    def update(self) -> None:
        """Begin to look up what is missing, as far as that is not under way. What cannot be found now (a partition
        without a leader) is tried again and again, and keeps nobody else waiting."""
        states = [
            state
            for state in self._subscription.partitions.values()
            if _is_missing(state) and self._looking.get(state.partition) != state.life
        ]
        for group in (
            [state for state in states if state.position is None],
            [state for state in states if state.position is not None],
        ):
            if group:
                self._looking |= {state.partition: state.life for state in group}
                task = asyncio.ensure_future(self._update(group))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def find(self, states: Iterable[PartitionState], deadline: Deadline) -> None:
        """Give these positions, now. Raises what prevents it."""
        await self._find([state for state in states if state.position is None], deadline)
        await self._validate([state for state in states if state.needs_validation], deadline)

    async def close(self) -> None:
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _update(self, states: list[PartitionState]) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        lives = {state.partition: state.life for state in states}
        try:
            while states:
                try:
                    await self.find(states, Deadline(self._config.request_timeout_ms))
                    break
                except RetriableError as error:
                    logger.warning("positions are not known yet: %s", error)
                    await asyncio.sleep(backoff.next_ms() / _MS)
                states = [state for state in states if self._is_ours(state, lives)]
        except Exception as error:  # nobody awaits this task: the next poll must hear of everything
            self.error = error
        finally:
            for partition, life in lives.items():
                if self._looking.get(partition) == life:
                    del self._looking[partition]
        self._changed()

    def _is_ours(self, state: PartitionState, lives: Mapping[TopicPartition, int]) -> bool:
        """Whether it is still to be found, for the life that it was begun for."""
        is_read = self._subscription.partitions.get(state.partition) is state
        return is_read and _is_missing(state) and state.life == lives[state.partition]

    # --- finding --------------------------------------------------------------------------------------------------

    async def _find(self, states: list[PartitionState], deadline: Deadline) -> None:
        lives = {state.partition: state.life for state in states}
        fresh = [state for state in states if state.needs_reset is None]
        if fresh and self._committed is not None:
            committed = await self._committed.fetch([state.partition for state in fresh], deadline)
            for state in fresh:
                place = committed.get(state.partition)
                if place is not None and state.position is None and state.life == lives[state.partition]:
                    state.seek(Position(place.offset, place.leader_epoch))
            self._changed()
        # Somebody may have done the same, or sought, meanwhile.
        unknown = [
            state for state in states if state.position is None and state.life == lives[state.partition]
        ]
        undecided = [state for state in unknown if state.needs_reset is None]
        if self._config.auto_offset_reset == NONE:
            await self._reset([state for state in unknown if state.needs_reset is not None], deadline)
            _raise_nothing_committed(undecided)
            return
        for state in undecided:
            state.needs_reset = self._config.auto_offset_reset
        await self._reset(unknown, deadline)

    async def _reset(self, states: list[PartitionState], deadline: Deadline) -> None:
        if not states:
            return
        lives = {state.partition: state.life for state in states}
        by_partition = {state.partition: state for state in states}

        def move(places: Mapping[TopicPartition, OffsetAndTimestamp | None]) -> None:
            for partition, place in places.items():
                state = by_partition[partition]
                if place is not None and state.life == lives[partition]:
                    info = self._cluster.metadata.partition(partition)
                    state.seek(Position(place.offset, place.leader_epoch))
                    state.leader_epoch = -1 if info is None else info.leader_epoch
            self._changed()

        wanted = {state.partition: self._timestamp(state.needs_reset or LATEST) for state in states}
        found = await self._lookup.offsets(wanted, deadline, move)
        if late := [partition for partition, place in found.items() if place is None]:
            # So young is nothing: begin with what comes.
            await self._lookup.offsets(dict.fromkeys(late, LATEST_TIMESTAMP), deadline, move)

    def _timestamp(self, where: str) -> int:
        if where == EARLIEST:
            return EARLIEST_TIMESTAMP
        if where == LATEST:
            return LATEST_TIMESTAMP
        return max(0, int(time.time() * _MS) - self._config.reset_duration_ms)

    # --- checking -------------------------------------------------------------------------------------------------

    async def _validate(self, states: list[PartitionState], deadline: Deadline) -> None:
        asked: dict[TopicPartition, tuple[PartitionState, int, EpochAsked]] = {}
        for state in states:
            info = self._cluster.metadata.partition(state.partition)
            if state.position is not None and state.needs_validation and info is not None:
                question = EpochAsked(state.position.offset_epoch, info.leader_epoch)
                asked[state.partition] = state, state.life, question
        if not asked:
            return

        def judge(ends: Mapping[TopicPartition, EpochEnd | None]) -> None:
            for partition, end in ends.items():
                state, life, question = asked[partition]
                if state.life == life and state.needs_validation:
                    state.needs_validation, state.leader_epoch = False, question.leader_epoch
                    if end is not None:
                        self._judge(state, end)
            self._changed()

        await self._lookup.epoch_ends({key: each for key, (_, _, each) in asked.items()}, deadline, judge)

    def _judge(self, state: PartitionState, end: EpochEnd) -> None:
        position = state.position
        assert position is not None, "it was asked about"
        if end.end_offset < 0 or end.leader_epoch < 0 or end.end_offset < position.offset:
            self.truncated(state, end)

    def diverged(self, state: PartitionState, end: EpochEnd) -> None:
        """A leader refused to go on where we fetched: its log parts from ours at `end`."""
        position = state.position
        if position is None:
            return
        if end.leader_epoch >= 0 and position.offset <= end.end_offset:
            # Only what was fetched ahead, and handed to nobody, is not in the log any more.
            state.seek(Position(position.offset, end.leader_epoch))
        else:
            self.truncated(state, end)

    def truncated(self, state: PartitionState, end: EpochEnd) -> None:
        """Records that were handed out are gone from the log: go on where it parts, or let the next poll raise."""
        position, partition = state.position, state.partition
        assert position is not None, "what was never read cannot be gone"
        is_known = end.end_offset >= 0 and end.leader_epoch >= 0
        sentence = f"the log of {partition} was cut below offset {position.offset}, which was read before"
        if self._config.auto_offset_reset == NONE:
            diverging = {partition: end.end_offset} if is_known else {}
            self.error = LogTruncationError(sentence, {partition: position.offset}, diverging)
            state.needs_validation = True  # nothing is read from here, until somebody seeks
        elif is_known:
            logger.warning("%s: going on from %d, where the logs part", sentence, end.end_offset)
            state.seek(Position(end.end_offset, end.leader_epoch))
        else:
            logger.warning("%s: reset to %s", sentence, self._config.auto_offset_reset)
            state.reset(self._config.auto_offset_reset)


def _is_missing(state: PartitionState) -> bool:
    return state.position is None or state.needs_validation


def _raise_nothing_committed(states: list[PartitionState]) -> None:
    if states:
        partitions = frozenset(state.partition for state in states)
        names = ", ".join(str(each) for each in sorted(partitions))
        raise NoOffsetForPartitionError(
            f"nothing was committed for {names}, and auto.offset.reset is none", partitions
        )
