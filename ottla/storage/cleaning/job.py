"""What a cleaning is told before it starts and tells on its way. All of it travels between processes as lines of JSON.

A worker gets a `Job`, and answers with events: one `Mapped`, some `Progress`, a `Group` for every set of segments that
has a replacement, and in the end `Done` or `Failed`. After a `Group` it waits until it is told to go on.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.storage.cleaning.plan import Cleanable
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log


class LastBatch(NamedTuple):
    """The last that a producer wrote: compaction keeps the batch, if need be empty, so that its sequence is known."""

    offset: int
    """The last offset of its last batch of data; -1 if it is known by a marker only."""
    epoch: int


class Job(NamedTuple):
    """One log, up to where it may be cleaned, and with which means."""

    directory: str
    settings: Mapping[str, str]
    """Of the topic: names of keys and their values."""
    segments: list[tuple[int, int]]
    """Base offset and size, all that may be touched, clean ones first."""
    first_dirty_offset: int
    end_offset: int
    producers: Mapping[int, LastBatch]
    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    now_ms: int
    syncs: bool = True

    @classmethod
    def of(
        cls,
        log: Log,
        found: Cleanable,
        *,
        map_bytes: int,
        load_factor: float,
        io_buffer_bytes: int,
        now_ms: int,
        syncs: bool = True,
    ) -> "Job":
        """Raises OSError if the disk does not take what a worker has to read."""
        segments = [segment for segment in log.segments if segment.base_offset < found.end_offset]
        for segment in log.segments:
            segment.txns.flush()  # aborted transactions are told to the worker by files only
        return cls(
            log.directory,
            settings_of(log.config),
            [(segment.base_offset, segment.size) for segment in segments],
            found.first_dirty_offset,
            found.end_offset,
            _last_batches(log, found.end_offset),
            map_bytes,
            load_factor,
            io_buffer_bytes,
            now_ms,
            syncs,
        )

    def to_json(self) -> str:
        fields = self._asdict()
        fields["producers"] = [[id_, last.offset, last.epoch] for id_, last in self.producers.items()]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> "Job":
        fields = json.loads(text)
        fields["segments"] = [(base, size) for base, size in fields["segments"]]
        fields["producers"] = {id_: LastBatch(offset, epoch) for id_, offset, epoch in fields["producers"]}
        return cls(**fields)


_NEEDED = (
    "segment.bytes",
    "segment.index.bytes",
    "index.interval.bytes",
    "delete.retention.ms",
    "max.message.bytes",
)


def settings_of(config: TopicConfig) -> dict[str, str]:
    """As much of a topic's settings as a cleaning reads."""
    return {name: str(config[name]) for name in _NEEDED}


def _last_batches(log: Log, end_offset: int) -> dict[int, LastBatch]:
    found = {}
    for producer in log.producers.all():
        offset = producer.batches[-1].last_offset if producer.batches else -1
        if offset < end_offset:
            found[producer.producer_id] = LastBatch(offset, producer.epoch)
    return found


class Stats(NamedTuple):
    """What went in and what came out."""

    records_read: int = 0
    bytes_read: int = 0
    records_kept: int = 0
    bytes_kept: int = 0

    def plus(self, other: "Stats") -> "Stats":
        return Stats(*(mine + others for mine, others in zip(self, other, strict=True)))


class Mapped(NamedTuple):
    """The offset map is built. `end_offset` is how far this cleaning will reach: what did not fit waits."""

    end_offset: int
    keys: int
    keys_max: int


class Progress(NamedTuple):
    """Of the bytes that are read twice: for the map, then to be copied."""

    done_bytes: int
    total_bytes: int


class Group(NamedTuple):
    """These segments have a replacement: whole, synced, under the first one's name with `.cleaned` behind it."""

    base_offsets: list[int]
    stats: Stats


class Done(NamedTuple):
    """The log is clean up to `end_offset`."""

    end_offset: int
    stats: Stats


class Failed(NamedTuple):
    """It cannot go on; what was replaced before is good, nothing else has changed."""

    reason: str
    errno: int | None = None


Event = Mapped | Progress | Group | Done | Failed
_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Mapped, Progress, Group, Done, Failed)
}


def event_to_json(event: Event) -> str:
    return json.dumps({"event": type(event).__name__.lower(), **event._asdict()})


def event_from_json(text: str) -> Event:
    fields = json.loads(text)
    kind = _KINDS[fields.pop("event")]
    if "stats" in fields:
        fields["stats"] = Stats(*fields["stats"])
    found: Event = kind(**fields)
    return found
