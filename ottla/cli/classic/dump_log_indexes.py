"""`kafka-dump-log` of the files beside a segment: indexes, held against the segment, and snapshots of producers."""

import os
import struct
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.cli.classic.dump_log_batches import Batch, walk
from ottla.cli.classic.dump_log_files import base_offset_of, beside, opened, whole
from ottla.cli.classic.dump_log_segments import LOG, optional
from ottla.cli.classic.java import Illegal
from ottla.cli.dump.output import as_seen
from ottla.records.checksum import crc32c
from ottla.storage import snapshots, txn_index
from ottla.storage.files import File

_INDEX = ".index"
_OFFSETS = struct.Struct(">ii")  # offset within the segment, position; signed, as Java reads them
_TIMES = struct.Struct(">qi")  # timestamp, offset within the segment
_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException"
_SEQUENCES = 1 << 31
_VERSION = struct.Struct(">h")


@dataclass(slots=True)
class Complaints:
    """What is said at the very end, on stderr: by file, in the order in which they were found."""

    mismatches: dict[str, list[str]] = field(default_factory=dict)
    wrong_times: dict[str, list[str]] = field(default_factory=dict)
    out_of_order: dict[str, list[str]] = field(default_factory=dict)
    not_found: dict[str, list[str]] = field(default_factory=dict)
    gaps: dict[str, list[str]] = field(default_factory=dict)

    def tell(self) -> None:
        for title, found in (
            ("Mismatches in :", self.mismatches),
            ("Found timestamp mismatch in :", self.wrong_times),
            ("Found out of order timestamp in :", self.out_of_order),
            ("The following indexed offsets are not found in :", self.not_found),
            ("Non-consecutive offsets in ", self.gaps),
        ):
            for path, lines in found.items():
                print(as_seen(f"{title}{path}", sys.stderr), file=sys.stderr)
                for line in lines:
                    print(line, file=sys.stderr)


class Check(NamedTuple):
    """How an index is looked at. Batches larger than `message_bytes_max` are not seen."""

    only_sanity: bool
    only_verifies: bool
    message_bytes_max: int


class _Entries:
    """Pairs of numbers; whatever lies behind the last whole one does not count."""

    def __init__(self, path: str, layout: struct.Struct) -> None:
        try:
            self._data = whole(path)
        except FileNotFoundError:
            raise Illegal(
                f"java.lang.IllegalArgumentException: Invalid max index size: -1\n{path}: there is no such file."
            ) from None
        self._layout = layout
        self.size = len(self._data)

    def __len__(self) -> int:
        return self.size // self._layout.size

    def at(self, number: int) -> tuple[int, int]:
        first, second = self._layout.unpack_from(self._data, number * self._layout.size)
        return first, second

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return map(self.at, range(len(self)))


# --- .index -----------------------------------------------------------------------------------------------------------


def dump_index(path: str, check: Check, complaints: Complaints) -> None:
    base = base_offset_of(path)
    with opened(beside(path, LOG)) as log:
        entries = _Entries(path, _OFFSETS)
        if not len(entries):
            print(as_seen(f"{path} is empty.", sys.stdout))
        elif check.only_sanity:
            last = base + entries.at(len(entries) - 1)[0]
            if last < base:
                raise Illegal(
                    f"{_CORRUPT}: Corrupt index found, index file {os.path.abspath(path)} has non-zero size"
                    f" but the last offset is {last} which is less than the base offset {base}"
                )
            print(as_seen(f"{path} passed sanity check.", sys.stdout))
        else:
            _print_index(path, base, entries, log, check, complaints)


def _print_index(
    path: str, base: int, entries: _Entries, log: File, check: Check, complaints: Complaints
) -> None:
    for number, (relative, position) in enumerate(entries):
        if relative == 0 and number:
            return  # room that was allocated ahead
        found = _first(log, position, check.message_bytes_max).last_offset
        if found != base + relative:
            lines = complaints.mismatches.setdefault(os.path.abspath(path), [])
            lines.insert(0, f"  Index offset: {base + relative}, log offset: {found}")
        if not check.only_verifies:
            print(f"offset: {base + relative} position: {position}")


def _first(log: File, position: int, bytes_max: int) -> Batch:
    if position < 0:
        raise Illegal(
            f"java.lang.IllegalArgumentException: Invalid position: {position} in read from {log.path}"
        )
    for batch in walk(log, position, bytes_max):
        return batch
    raise Illegal(
        f"java.util.NoSuchElementException\n{log.path}: no batch starts at byte {position}, where the index leads"
    )


# --- .timeindex -------------------------------------------------------------------------------------------------------


def dump_time_index(path: str, check: Check, complaints: Complaints) -> None:
    base = base_offset_of(path)
    with opened(beside(path, LOG)) as log:
        offsets = _Entries(beside(path, _INDEX), _OFFSETS)
        times = _Entries(path, _TIMES)
        if check.only_sanity:
            _check_times(os.path.abspath(path), base, times)
            print(as_seen(f"{path} passed sanity check.", sys.stdout))
            return
        before = -1
        for number, (timestamp, relative) in enumerate(times):
            if relative == 0 and number:
                return  # room that was allocated ahead
            position = _floor(offsets, relative)
            if number == 0:
                _pass_over(log, position)
            entry = (timestamp, base + relative, before)
            _hold_time(os.path.abspath(path), entry, log, position, complaints)
            if not check.only_verifies:
                print(f"timestamp: {timestamp} offset: {base + relative}")
            before = timestamp


def _pass_over(log: File, position: int) -> None:
    """Raises Illegal if the segment breaks anywhere: Apache's tool looks at all of it for every entry."""
    for _ in walk(log, position):
        pass


def _floor(offsets: _Entries, relative: int) -> int:
    """Where to look for an offset: what its index says, or the start."""
    number = bisect_right(range(len(offsets)), relative, key=lambda each: offsets.at(each)[0])
    return offsets.at(number - 1)[1] if number else 0


def _hold_time(
    path: str, entry: tuple[int, int, int], log: File, position: int, complaints: Complaints
) -> None:
    timestamp, offset, before = entry
    batch = next((each for each in walk(log, position) if each.last_offset >= offset), None)
    if batch is None or batch.last_offset != offset:
        found = -1 if batch is None else batch.last_offset
        line = f"Indexed offset: {offset}, found log offset: {found}"
        complaints.not_found.setdefault(path, []).append(line)
        return
    if batch.max_timestamp != timestamp:
        line = f"  Index timestamp: {timestamp}, log timestamp: {batch.max_timestamp}"
        complaints.wrong_times.setdefault(path, []).append(line)
    if before >= timestamp:
        line = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
        complaints.out_of_order.setdefault(path, []).append(line)


def _check_times(path: str, base: int, times: _Entries) -> None:
    """What a broker looks at when it starts."""
    size = _TIMES.size
    if len(times):
        (first, _), (last, relative) = times.at(0), times.at(len(times) - 1)
        found = (
            f"{_CORRUPT}: Corrupt time index found, time index file ({path}) has non-zero size but the last"
        )
        if last < first:
            raise Illegal(f"{found} timestamp is {last} which is less than the first timestamp {first}")
        if relative < 0:
            raise Illegal(f"{found} offset is {base + relative} which is less than the first offset {base}")
    if times.size % size:
        raise Illegal(
            f"{_CORRUPT}: Time index file {path} is corrupt, found {times.size} bytes"
            f" which is neither positive nor a multiple of {size}"
        )


# --- .txnindex and .snapshot ------------------------------------------------------------------------------------------


def dump_txn_index(path: str) -> None:
    """A segment without aborted transactions has none: a missing file is an empty one."""
    try:
        data = whole(path)
    except FileNotFoundError:
        return
    for at in range(0, len(data) - txn_index.ENTRY.size + 1, txn_index.ENTRY.size):
        _, producer, first, last, stable = txn_index.ENTRY.unpack_from(data, at)
        print(
            f"version: {txn_index.VERSION} producerId: {producer} firstOffset: {first}"
            f" lastOffset: {last} lastStableOffset: {stable}"
        )


def dump_snapshot(path: str) -> None:
    try:
        data = whole(path)
    except FileNotFoundError:
        raise Illegal(f"java.nio.file.NoSuchFileException: {path}\nThere is no such file.") from None
    if len(data) >= _VERSION.size and (version := _VERSION.unpack_from(data)[0]) != snapshots.VERSION:
        _refuse(f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}")
        return
    if len(data) < snapshots.HEADER.size:
        _refuse("Snapshot failed schema validation: null")
        return
    _, stored, count = snapshots.HEADER.unpack_from(data)
    if count < 0 or len(data) < snapshots.HEADER.size + count * snapshots.ENTRY.size:
        _refuse("Snapshot failed schema validation: null")
        return
    if (computed := crc32c(data, snapshots.COUNTED_FROM)) != stored:
        _refuse(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        )
        return
    for line in _producers(data, count):
        print(line)


def _refuse(sentence: str) -> None:
    sys.stdout.flush()
    print(sentence, file=sys.stderr)


def _producers(data: bytes, count: int) -> Iterator[str]:
    for number in range(count):
        at = snapshots.HEADER.size + number * snapshots.ENTRY.size
        who, epoch, sequence, offset, delta, time, coordinator, first = snapshots.ENTRY.unpack_from(data, at)
        line = (
            f"producerId: {who} producerEpoch: {epoch} coordinatorEpoch: {coordinator}"
            f" currentTxnFirstOffset: {optional(first if first >= 0 else None)} lastTimestamp: {time}"
        )
        if offset >= 0:
            line += (
                f" firstSequence: {(sequence - delta) % _SEQUENCES} lastSequence: {sequence}"
                f" lastOffset: {offset} offsetDelta: {delta} timestamp: {time}"
            )
        yield line
