"""Where partitions are read from: what the group committed, else where `auto_offset_reset` says; and whether that is
still in the log after its leader has changed (KIP-320).

`update` begins to look up whatever is missing at that moment, in the background, so that a poll that does not wait
makes progress too; partitions that are assigned meanwhile are left for the next `update`, because their listener may
want to seek first. What a lookup finds counts only for a partition that has the life it was looked up for.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

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
from ottla.core.errors import KafkaError, RetriableError
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
        self._task: asyncio.Task[None] | None = None
        self.error: KafkaError | None = None

    def update(self) -> None:
        """Begin to look up what is missing, unless that is under way."""
        if self._task is None and (missing := self._missing()):
            self._task = asyncio.ensure_future(self._update(missing))

    async def find(self, states: Iterable[PartitionState], deadline: Deadline) -> None:
        """Give these positions, now. Raises what prevents it."""
        await self._find([state for state in states if state.position is None], deadline)
        await self._validate([state for state in states if state.needs_validation], deadline)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _missing(self) -> list[PartitionState]:
        return [
            state
            for state in self._subscription.partitions.values()
            if state.position is None or state.needs_validation
        ]

    async def _update(self, states: list[PartitionState]) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        try:
            while states:
                try:
                    await self.find(states, Deadline(self._config.request_timeout_ms))
                    break
                except RetriableError as error:
                    logger.warning("positions are not known yet: %s", error)
                    await asyncio.sleep(backoff.next_ms() / _MS)
                current = self._subscription.partitions
                states = [state for state in states if current.get(state.partition) is state]
        except KafkaError as error:
            self.error = error
        finally:
            self._task = None
        self._changed()

    # --- finding --------------------------------------------------------------------------------------------------

    async def _find(self, states: list[PartitionState], deadline: Deadline) -> None:
        lives = {state.partition: state.life for state in states}
        fresh = [state for state in states if state.needs_reset is None]
        if fresh and self._committed is not None:
            committed = await self._committed.fetch([state.partition for state in fresh], deadline)
            for state in fresh:
                place = committed.get(state.partition)
                if place is not None and state.life == lives[state.partition]:
                    state.seek(Position(place.offset, place.leader_epoch))
        # Somebody may have done the same, or sought, meanwhile.
        unknown = [
            state for state in states if state.position is None and state.life == lives[state.partition]
        ]
        self._choose_reset([state for state in unknown if state.needs_reset is None])
        await self._reset([state for state in unknown if state.needs_reset is not None], deadline)

    def _choose_reset(self, states: list[PartitionState]) -> None:
        where = self._config.auto_offset_reset
        if where == NONE and states:
            partitions = frozenset(state.partition for state in states)
            names = ", ".join(str(each) for each in sorted(partitions))
            raise NoOffsetForPartitionError(
                f"nothing was committed for {names}, and auto.offset.reset is none", partitions
            )
        for state in states:
            state.reset(where)

    async def _reset(self, states: list[PartitionState], deadline: Deadline) -> None:
        if not states:
            return
        lives = {state.partition: state.life for state in states}
        metadata = self._cluster.metadata
        wanted = {state.partition: self._timestamp(state.needs_reset or LATEST) for state in states}
        found = await self._lookup.offsets(wanted, deadline)
        if late := [partition for partition, place in found.items() if place is None]:
            # So young is nothing: begin with what comes.
            found |= await self._lookup.offsets(dict.fromkeys(late, LATEST_TIMESTAMP), deadline)
        for state in states:
            place: OffsetAndTimestamp | None = found.get(state.partition)
            if place is None or state.life != lives[state.partition]:
                continue
            info = metadata.partition(state.partition)
            state.seek(Position(place.offset, place.leader_epoch))
            state.leader_epoch = -1 if info is None else info.leader_epoch

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
        ends = await self._lookup.epoch_ends({key: each for key, (_, _, each) in asked.items()}, deadline)
        for partition, (state, life, question) in asked.items():
            if state.life != life or not state.needs_validation:
                continue
            end = ends.get(partition)
            state.needs_validation, state.leader_epoch = False, question.leader_epoch
            if end is not None:
                self._judge(state, end)

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
