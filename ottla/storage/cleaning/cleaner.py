"""A cleaning of one log: read the dirty part and map its keys, then copy all segments without what is superseded.

    1. the dirty segments are read, oldest first, and the newest offset of each key goes into the map; the first
       segment that does not fit ends the part that is cleaned this time
    2. from the first segment of the log on, neighbours that fit into one are copied together: of each key its newest
       record stays, tombstones until their delete horizon
    3. whoever asked for the cleaning puts the copy in their place, and lets it go on with the next group

Nothing but `.cleaned` files is written here. Every batch is checked before it is believed: one that fails its checksum
ends the cleaning, since to copy it under a new checksum would hide the damage for ever.
"""

from collections.abc import Callable, Generator, Iterator

from ottla.core.errors import OttlaError, ProtocolError
from ottla.records.errors import RecordError
from ottla.storage.cleaning import plan
from ottla.storage.cleaning.copying import Copier
from ottla.storage.cleaning.job import Done, Event, Failed, Group, Job, Mapped, Progress, Stats
from ottla.storage.cleaning.mapping import Mapper
from ottla.storage.cleaning.offset_map import SLOT_BYTES, OffsetMap
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.scan import BrokenChain
from ottla.storage.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name, offset_of
from ottla.storage.txn_index import ENTRY, AbortedTxn, parse

Throttle = Callable[[int], None]
"""Called with the number of bytes that were read or written; returns when more may be."""
STEPS = 200  # in which progress is told
STEP_BYTES_MIN = 64 << 10


class Unfit(OttlaError):
    """The keys of a segment do not fit into the offset map."""


class Cut(OttlaError):
    """The log lost its end, and with it the knowledge of which transactions were aborted."""


def clean(files: Files, job: Job, throttle: Throttle = lambda count: None) -> Generator[Event, None, None]:
    """Clean the log. After a `Group` its replacement is to be put in place before the next event is asked for."""
    cleaner = Cleaner(files, job, throttle)
    try:
        yield from cleaner.run()
    except (RecordError, BrokenChain, ProtocolError, Unfit, Cut) as error:
        yield Failed(str(error))
    except OSError as error:
        yield Failed(str(error), error.errno)
    finally:
        cleaner.close()


class Cleaner:
    """The state of one cleaning."""

    def __init__(self, files: Files, job: Job, throttle: Throttle) -> None:
        self._files = files
        self._job = job
        self._throttle = throttle
        self._config = TopicConfig(job.settings)
        self._segments = [Segment(files, job.directory, base, self._config) for base, _ in job.segments]
        for segment, (_, size) in zip(self._segments, job.segments, strict=True):
            segment.size = size
        self._ends = [*(base for base, _ in job.segments[1:]), job.end_offset][: len(job.segments)]
        self._offsets = OffsetMap(self._map_bytes(), job.load_factor)
        self._done = self._told = 0
        self._total = sum(size for _, size in job.segments) + sum(s.size for s in self._dirty())
        self._stats = Stats()

    def run(self) -> Iterator[Event]:
        yield Progress(0, self._total)
        aborted = self._aborted()
        mapper = Mapper(
            self._offsets,
            self._open_at_dirty(aborted),
            self._job.first_dirty_offset,
            self._job.io_buffer_bytes,
        )
        end_offset = yield from self._map(mapper)
        yield Mapped(end_offset, self._offsets.count, self._offsets.keys_max)
        mapped = [segment for segment in self._segments if segment.base_offset < end_offset]
        self._total -= sum(segment.size for segment in self._segments[len(mapped) :])
        copier = Copier(self._files, self._job, self._config, self._offsets, end_offset, aborted)
        for group in plan.groups(mapped, end_offset, self._config):
            yield from self._copy(copier, group)
        yield Done(end_offset, self._stats)

    def close(self) -> None:
        for segment in self._segments:
            segment.abandon()

    def _map_bytes(self) -> int:
        """There are no more keys than offsets: a small log needs no large map."""
        keys = self._job.end_offset - self._job.first_dirty_offset
        needed = (int(keys / self._job.load_factor) + 64) * SLOT_BYTES
        return min(self._job.map_bytes, needed)

    def _dirty(self) -> list[Segment]:
        first = self._job.first_dirty_offset
        return [segment for segment, end in zip(self._segments, self._ends, strict=True) if end > first]

    def _open_at_dirty(self, aborted: list[AbortedTxn]) -> list[AbortedTxn]:
        """Those that end in what will be mapped: of one that ended before, the map would never see the end."""
        first = next((segment.base_offset for segment in self._dirty()), self._job.end_offset)
        return [txn for txn in aborted if txn.last_offset >= first]

    def _map(self, mapper: Mapper) -> Generator[Event, None, int]:
        """Note the keys of one dirty segment after the other; where the first starts that did not fit."""
        ends = dict(zip((s.base_offset for s in self._segments), self._ends, strict=True))
        reached = self._job.first_dirty_offset
        for segment in self._dirty():
            for size in mapper.note(segment):
                yield from self._advance(size)
            if mapper.is_full:
                if reached == self._job.first_dirty_offset:
                    raise Unfit(self._does_not_fit(segment, mapper))
                break
            reached = ends[segment.base_offset]
        return reached

    def _does_not_fit(self, segment: Segment, mapper: Mapper) -> str:
        records = mapper.count_records(segment)
        return (
            f"{segment.path} holds {records} records, and more keys than the {self._offsets.keys_max} for which the "
            f"offset map has room: raise log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads, which share it"
        )

    def _copy(self, copier: Copier, group: list[Segment]) -> Iterator[Event]:
        """Write one segment that replaces the group. If that fails, nothing of it stays: a full disk needs the room."""
        copier.begin(group)
        try:
            for segment in group:
                for size in copier.copy(segment):
                    yield from self._advance(size)
            stats = copier.finish()
        except BaseException:
            copier.give_up()
            raise
        self._stats = self._stats.plus(stats)
        yield Group([segment.base_offset for segment in group], stats)
        for segment in group:
            segment.abandon()

    def _advance(self, size: int) -> Iterator[Event]:
        self._throttle(size)
        self._done += size
        if self._done - self._told >= max(STEP_BYTES_MIN, self._total // STEPS):
            self._told = self._done
            yield Progress(self._done, self._total)

    def _aborted(self) -> list[AbortedTxn]:
        """Those that wrote anything into the part to be cleaned: the marker of one may lie in a later segment."""
        first = self._job.segments[0][0] if self._job.segments else 0
        found: list[AbortedTxn] = []
        for name in self._files.names(self._job.directory):
            base = offset_of(name, TXN_INDEX_SUFFIX)
            if base is not None and base >= first:
                path = f"{self._job.directory}/{name}"
                try:
                    data = self._files.read(path)
                except FileNotFoundError:
                    if base < self._job.end_offset:
                        raise
                    raise Cut(f"{path} went away: the log was cut") from None
                # The active segment's may be growing under our hands: what ends in the middle is too new to matter.
                found += parse(data[: len(data) // ENTRY.size * ENTRY.size], path)
        return [aborted for aborted in found if aborted.first_offset < self._job.end_offset]


def cleaned_path(directory: str, base_offset: int) -> str:
    """Where the replacement of the segments from `base_offset` on lies."""
    return f"{directory}/{file_name(base_offset, LOG_SUFFIX)}.cleaned"
