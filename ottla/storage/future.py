"""A future log: a copy of a log in another directory, on its way to take the log's place (KIP-113).

It lies in `topic-partition.<32 hex digits>-future` until it holds everything that the log does, and all that is known
of it: records byte for byte with their offsets and epochs, the epochs themselves, producers, and the checkpoints of
its directory. Then one rename puts it in place. Whatever ends the copying before that leaves the log as it was, and
whatever comes after it finds a copy that lacks nothing.

The owner of the log asks what is to be done next, a thread does it, and nobody else touches the copy. Where the log is
cut or loses its beginning meanwhile, the copy follows before anything else is copied.
"""

import uuid
from collections.abc import Callable
from functools import partial

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import PartitionDirectory, TopicPartition
from ottla.storage.epochs import EpochStart
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.storage.producers import Producer, Producers
from ottla.storage.reading import Slice
from ottla.storage.snapshots import decode, encode

CHUNK_BYTES_MAX = 1 << 20
REST_BYTES_MAX = 4 << 20
"""So much may be left to copy while everybody waits: some 10 ms."""

NOT_SETTLED = -1

Step = Callable[[], int]
"""Something a thread has to do; returns how many bytes it copied."""


def future_name(partition: TopicPartition) -> str:
    return str(PartitionDirectory(partition, "future", uuid.uuid4().hex))


class FutureLog:
    """The copy of one log."""

    def __init__(
        self, partition: TopicPartition, current: Log, source: LogDirectory, target: LogDirectory
    ) -> None:
        self.partition = partition
        self.current = current
        self.source = source
        self.target = target
        self.name = future_name(partition)
        self.log: Log | None = None
        self._cut_to: int | None = None
        self._settled_start = NOT_SETTLED

    # --- beginning and ending -----------------------------------------------------------------------------------

    def begin(self, topic_id: uuid.UUID | None) -> list[Callable[[], object]]:
        """What a thread has to do for it to be there; then `opened`."""
        path = f"{self.target.path}/{self.name}"
        opens = partial(self._open, path, self._first_offset, self._gone_producers())
        return [*self.target.begin_future(self.partition, topic_id, path), opens]

    def _open(self, path: str, first_offset: int, producers: list[Producer]) -> None:
        self.log = Log.open(self.current.files, path, self.current.config, log_start_offset=first_offset)
        self._know(producers)

    def _start_over(self, first_offset: int, producers: list[Producer]) -> None:
        assert self.log is not None
        self.log.restart_at(first_offset)
        self._know(producers)

    def _know(self, producers: list[Producer]) -> None:
        assert self.log is not None
        if producers:
            self.log.producers.restore(producers)
            self.log.snapshots.take(self.log.end_offset, producers)

    @property
    def _first_offset(self) -> int:
        """Where the batch begins that the log starts with: that may be before its start."""
        current, start = self.current, self.current.log_start_offset
        return start if start == current.end_offset else min(start, current.read(start, 1).offset)

    def _gone_producers(self) -> list[Producer]:
        """Those that the log knows of, though it does not hold anything of them any more."""
        start = self.current.log_start_offset
        known = decode(encode(self.current.producers.all()), self.current.directory)
        return [each for each in known if all(batch.last_offset < start for batch in each.batches)]

    def opened(self) -> None:
        """From now on its directory knows of it, and it hears when the log is cut."""
        assert self.log is not None, "a thread has opened it"
        self.target.futures[self.partition] = self.log
        self.source.on_cut[self.partition] = self._note_cut

    def abandon(self) -> None:
        """Let go of it. Its files stay: see `discard`."""
        self._let_go()
        if self.log is not None:
            self.log.abandon()

    def _let_go(self) -> None:
        self.source.on_cut.pop(self.partition, None)
        if self.log is not None and self.target.futures.get(self.partition) is self.log:
            del self.target.futures[self.partition]

    def discard(self) -> None:
        """Remove its files, after `abandon`. May run in a thread."""
        if self.target.has(self.name):
            self.target.remove_deleted([self.target.discard(self.name, "delete")])

    # --- copying ------------------------------------------------------------------------------------------------

    def _note_cut(self, offset: int) -> None:
        self._cut_to = offset if self._cut_to is None else min(self._cut_to, offset)

    @property
    def lag(self) -> int:
        """How many offsets it is behind the log."""
        return self.current.end_offset - (
            self.current.log_start_offset if self.log is None else self.log.end_offset
        )

    @property
    def is_overtaken(self) -> bool:
        """Has the log lost what is being copied? Then it is no wonder if that cannot be read."""
        assert self.log is not None
        return self.log.failure is None and (self._cut_to is not None or self._is_behind_start)

    @property
    def _is_behind_start(self) -> bool:
        end = self.current.log_start_offset if self.log is None else self.log.end_offset
        return end < self.current.log_start_offset and end < self._first_offset

    def next_step(self, now_ms: int, *, syncs: bool = True) -> Step | None:
        """What is to be done next; None if it has all that the log has. Raises KafkaError if the log is damaged.

        Without `syncs` nothing of it waits for the disk. With them, little is left to sync in the end."""
        log, current = self.log, self.current
        assert log is not None
        if syncs and log.has_closed_unsynced:
            return partial(self._follow, log.flush)
        if self._cut_to is not None:
            cut_to, self._cut_to = self._cut_to, None
            if cut_to < log.end_offset:
                self._settled_start = NOT_SETTLED  # the checkpoints know it as longer than it is now
                return partial(self._follow, partial(log.truncate_to, cut_to))
        if self._is_behind_start:
            self._settled_start = NOT_SETTLED
            return partial(
                self._follow, partial(self._start_over, self._first_offset, self._gone_producers())
            )
        if log.end_offset == current.end_offset:
            return None
        found = current.read(max(log.end_offset, current.log_start_offset), CHUNK_BYTES_MAX)
        if found.file is None:  # the last records were compacted away
            return partial(self._follow, partial(self._bridge, current.end_offset))
        return partial(self._copy, found, now_ms)

    @staticmethod
    def _follow(follow: Callable[[], object]) -> int:
        follow()
        return 0

    def _bridge(self, end_offset: int) -> None:
        assert self.log is not None
        self.log.end_offset = self.log.roll(end_offset).base_offset

    def _copy(self, found: Slice, now_ms: int) -> int:
        """Offsets, epochs and checksums are checked on the way: damage is not copied."""
        assert self.log is not None
        try:
            data = found.read()
        except OSError as error:
            detail = f"{self.current.directory} cannot be read: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail) from error
        before = self.log.end_offset
        self.log.append_fetched(bytearray(data), now_ms)
        if self.log.end_offset == before:
            detail = f"{self.current.directory} has no whole batch at offset {before}"
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)
        return len(data)

    # --- taking the place -----------------------------------------------------------------------------------------

    def begin_settling(self) -> Callable[[], None]:
        """It has all records: let it also know what the log knows, and last. A thread has to run what this returns."""
        log, current = self.log, self.current
        assert log is not None and log.end_offset == current.end_offset
        self._settled_start = current.log_start_offset
        known, copied = encode(current.producers.all()), encode(log.producers.all())
        # Some of them may have written nothing that is still there: only the log itself remembers those.
        producers = None if known == copied else decode(known, current.directory)
        entries = list(current.epochs.entries)
        mark, start = current.high_watermark, current.log_start_offset
        self.target.note_cleaned_elsewhere(self.partition, self.source)
        return partial(self._settle, entries, producers, mark, start)

    def _settle(
        self, entries: list[EpochStart], producers: list[Producer] | None, high_watermark: int, start: int
    ) -> None:
        log = self.log
        assert log is not None
        log.advance_high_watermark(high_watermark)
        if start > log.log_start_offset:
            log.advance_log_start(start)
        if log.epochs.entries != entries:
            log.epochs.entries = entries
            log.epochs.save()
        if producers is not None:
            log.producers = Producers()
            log.producers.restore(producers)
            log.roll()  # a snapshot is believed where a segment begins
            log.snapshots.take(log.end_offset, producers)
        log.flush()

    def catches_up(self, now_ms: int) -> bool:
        """Copy what came since `begin_settling`, here and now. False if that is too much, or more is to be settled."""
        log, current = self.log, self.current
        assert log is not None
        if self._cut_to is not None or current.recovery_point > log.recovery_point:
            return False
        copied = 0
        while copied <= REST_BYTES_MAX and (step := self.next_step(now_ms, syncs=False)) is not None:
            copied += step()
        return (
            log.end_offset == current.end_offset
            and current.log_start_offset == self._settled_start == log.log_start_offset
            and current.epochs.entries == log.epochs.entries
        )

    def take_place(self) -> Log:
        """Let the log lie here, in one step. Call it right after `catches_up`. Returns what the log was made of: its
        files still have their name, until `LogDirectory.retire`."""
        self.source.on_cut.pop(self.partition, None)
        return self.target.put_in_place(self.partition, self.current, self.source)
