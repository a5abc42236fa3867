"""One shard at work: a machine, and the partition that holds what it decided.

Decide, append, apply: the machine decides, its entries are appended to the partition and applied at once, so that the
next decision knows of them. Whoever asked is told when the high watermark has passed what the answer rests on; one
that only read waits for it as well, since what it saw may still be lost with its leader.

A shard acts in one leader epoch only. When that ends it is retired, and whoever waits is told to look elsewhere.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ottla.core.clock import Clock, Moment
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.protocol.messages.record_types import encode_key, encode_value
from ottla.records.builder import BatchBuilder
from ottla.replication.machine import Alarm, Decision, Entry, Machine, Producer, answer_of, fail
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
R = TypeVar("R")

_FIRST_SEQUENCE = 0
_ALARM_DELAY_MS_MAX = 86_400_000  # an event loop counts in floats; to wake up once a day is nothing

_TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}


class Host(Protocol):
    """Who looks after shards."""

    clock: Clock

    def commit_of(self, log: Log) -> GroupCommit: ...

    def carry_out(self, effect: Any) -> None:
        """Something that was decided, and is committed now."""

    def note_failure(self, partition: Partition) -> None:
        """The disk refused: if the partition's log has failed, its directory is to go out of service."""

    def reload(self, shard: "Shard[Any]", reason: str) -> None:
        """The shard's memory may be ahead of its log: start it anew."""


def moment(clock: Clock) -> Moment:
    return Moment(clock.now_ms(), clock.monotonic_ms())


class Shard(Generic[M]):
    """A machine in charge. `run` and `read` are for requests; time is seen to here."""

    def __init__(self, partition: Partition, machine: M, host: Host) -> None:
        self.partition = partition
        self.machine = machine
        self.leader_epoch = partition.leader_epoch
        self.is_retired = False
        self._host = host
        self._end_offset = partition.log.end_offset
        """What the machine has applied ends here."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
        self._waits: set[asyncio.Task[None]] = set()

    def activate(self) -> None:
        """Everything was applied: take charge."""
        self._end_offset = self.partition.log.end_offset
        self.machine.activate(moment(self._host.clock))
        self._arm()

    def retire(self, error: KafkaError) -> None:
        """Decide nothing more; whoever waits gets `error`."""
        if self.is_retired:
            return
        self.is_retired = True
        if self._alarm is not None:
            self._alarm.cancel()
        for answer in fail(self.machine.retire(), error):
            answer.ticket.answer(answer.reply)

    # --- deciding -----------------------------------------------------------------------------------------------

    def run(
        self, decide: Callable[[M, Moment], Decision[R]]
    ) -> tuple[Decision[R], "asyncio.Task[None] | None"]:
        """What holds now, and what must be waited for before its reply may leave; None if that is nothing.

        Raises KafkaError if the machine refuses, or the log does.
        """
        self._check()
        now = moment(self._host.clock)
        decision = decide(self.machine, now)
        if decision.entries:
            try:
                decision = self._append(decision, now)
            except KafkaError as error:
                self._fail(decision, error)
                raise
        self._arm()
        waiting = self._settle(decision, has_written=bool(decision.entries))
        if isinstance(decision.reply, KafkaError):
            raise decision.reply
        return decision, waiting

    def read(self, ask: Callable[[M], R]) -> tuple[R, "asyncio.Task[None] | None"]:
        """What the machine says, and what must be waited for before it may be passed on."""
        self._check()
        return ask(self.machine), self._settle(Decision(None))

    def apply_end(self, producer: Producer, *, is_commit: bool) -> None:
        """A marker was written behind everything that was applied so far."""
        self.machine.apply_end(producer, is_commit)
        self._end_offset = self.partition.log.end_offset

    def _check(self) -> None:
        if (
            self.is_retired
            or not self.partition.is_leader
            or self.partition.leader_epoch != self.leader_epoch
        ):
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"{self.partition.topic_partition} is led by somebody else now"
            )

    # --- writing ------------------------------------------------------------------------------------------------

    def _append(self, decision: Decision[R], now: Moment) -> Decision[R]:
        """Write and apply. Returns the decision that holds: another one, if the log took nothing."""
        partition = self.partition
        try:
            for entries, data in self._batches(decision, now.wall_ms):
                partition.append(data, ALL_REPLICAS, now.wall_ms, client=False)
                self._end_offset = partition.log.end_offset
                self._apply(entries, decision.producer)
        except KafkaError as error:
            self._note_failure(error)
            return self._refused(decision, error)
        return decision

    def _batches(self, decision: Decision[Any], now_ms: int) -> Iterator[tuple[Sequence[Entry], bytes]]:
        """The entries as one batch, or as several if that is allowed and one would be too large."""
        size_max = self.partition.config.max_message_bytes
        batch, inside = _new_batch(decision.producer), list[Entry]()
        for entry in decision.entries:
            key, value = _encoded(entry)
            size = len(key) + len(value or b"") + 40  # what goes around them is less
            if inside and not decision.is_atomic and batch.size + size > size_max:
                yield inside, batch.build()
                batch, inside = _new_batch(decision.producer), []
            batch.append(now_ms, key, value)
            inside.append(entry)
            if batch.size > size_max:  # the log would say so, too, but only when all the rest is encoded
                detail = f"{len(decision.entries)} records take more than {size_max} bytes"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)
        yield inside, batch.build()

    def _apply(self, entries: Sequence[Entry], producer: Producer | None) -> None:
        try:
            for entry in entries:
                self.machine.apply(entry, producer)
        except Exception as error:
            logger.error("%s cannot apply what it decided", self.partition.topic_partition, exc_info=error)
            self._host.reload(self, "a decision could not be applied")
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's log says more") from error

    def _refused(self, decision: Decision[R], error: KafkaError) -> Decision[R]:
        answer = answer_of(error)
        if self.is_retired:  # by an error of the disk, or because it could not apply
            raise answer
        if decision.if_refused is not None:
            return decision.if_refused(answer)
        if error.code not in _TOO_LARGE:
            self._host.reload(self, error.detail)
        raise answer

    # --- telling ------------------------------------------------------------------------------------------------

    def _settle(self, decision: Decision[Any], *, has_written: bool = False) -> "asyncio.Task[None] | None":
        """Tell everybody when the log, as far as it was applied, is committed."""
        partition, end = self.partition, self._end_offset
        must_flush = has_written and partition.log.is_flush_due(self._host.clock.now_ms())
        if not must_flush and partition.high_watermark.value >= end:
            self._tell(decision)
            return None
        waiting = asyncio.get_running_loop().create_task(self._wait(end, must_flush=must_flush))
        self._waits.add(waiting)
        waiting.add_done_callback(partial(self._settled, decision))
        return waiting

    async def _wait(self, end_offset: int, *, must_flush: bool) -> None:
        partition, host = self.partition, self._host
        if must_flush:
            await host.commit_of(partition.log).settle(end_offset, host.clock.now_ms())
        while True:
            self._check()  # leadership may be gone already, and then nobody would tell us
            try:
                return await partition.high_watermark.reach(end_offset)
            except KafkaError as error:
                # What is written is committed when replicas come back, unless leadership goes first. Who asked need not
                # wait for that; but to load everything anew would make all others wait.
                if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                    raise

    def _settled(self, decision: Decision[Any], waiting: "asyncio.Task[None]") -> None:
        self._waits.discard(waiting)
        if waiting.cancelled():
            return
        error = waiting.exception()
        if error is None:
            self._tell(decision)
            return
        known = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.NOT_COORDINATOR, str(error))
        self._fail(decision, answer_of(known))
        self._note_failure(known)
        if not self.is_retired:  # what was decided stands in the log, and its effects are still to come
            self._host.reload(self, known.detail)

    def _note_failure(self, error: KafkaError) -> None:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._host.note_failure(self.partition)

    @staticmethod
    def _fail(decision: Decision[Any], error: KafkaError) -> None:
        for answer in fail((answer.ticket for answer in decision.answers), error):
            answer.ticket.answer(answer.reply)

    def _tell(self, decision: Decision[Any]) -> None:
        for ticket, reply in decision.answers:
            ticket.answer(reply)
        for effect in decision.effects:
            self._host.carry_out(effect)

    # --- time ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Wake up when the machine's next timer is due. Too early is no harm: sessions that are renewed all the time
        would otherwise set the alarm anew with every heartbeat."""
        due = self.machine.timers.next_deadline_ms()
        if due is None or self.is_retired or (self._alarm is not None and self._alarm_at <= due):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay_ms = min(max(0, due - self._host.clock.monotonic_ms()), _ALARM_DELAY_MS_MAX)
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(delay_ms / 1000, self.ring)

    def ring(self) -> None:
        """Let the timers decide that are due."""
        self._alarm = None
        for timer in self.machine.timers.fire(self._host.clock.monotonic_ms()):
            if self.is_retired:
                return
            try:
                self.run(_rung(timer.value))
            except KafkaError as error:
                logger.warning("%s: a timer came to nothing: %s", self.partition.topic_partition, error)
            except Exception as error:
                logger.error("%s: a timer failed", self.partition.topic_partition, exc_info=error)
        self._arm()


def _rung(alarm: Alarm) -> Callable[[Any, Moment], Decision[None]]:
    return lambda machine, now: alarm(now)


def _encoded(entry: Entry) -> tuple[bytes, bytes | None]:
    """Strings of requests may be longer than those of records. Then nothing is written, as if all were too large."""
    try:
        return encode_key(entry.key), None if entry.value is None else encode_value(entry.value)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error


def _new_batch(producer: Producer | None) -> BatchBuilder:
    if producer is None:
        return BatchBuilder()
    return BatchBuilder(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=_FIRST_SEQUENCE,
        is_transactional=True,
    )
