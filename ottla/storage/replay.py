"""How a batch in the log changes what the log knows of its producers. Shared by appends, recovery and truncation."""

from collections.abc import Sequence

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.types import Buffer
from ottla.records.batch import HEADER_SIZE, BatchHeader, read_header, records_of
from ottla.records.control import ControlType, decode_marker
from ottla.records.errors import RecordError
from ottla.storage.files import Files
from ottla.storage.producers import Marker, Producers, Stamp, WrittenBatch
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.snapshots import Snapshots
from ottla.storage.txn_index import AbortedTxn, TxnIndex

OFFSET_MAX = 2**63 - 1


def stamp_of(header: BatchHeader) -> Stamp:
    return Stamp(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.is_transactional,
    )


def marker_of(header: BatchHeader, batch: Buffer) -> Marker | None:
    """The end of a transaction that a control batch tells of; None for control batches of other kinds."""
    try:
        marker = decode_marker(next(records_of(batch)))
    except (RecordError, StopIteration):
        return None
    return Marker(
        header.producer_id,
        header.producer_epoch,
        marker.type is ControlType.COMMIT,
        marker.coordinator_epoch,
        header.last_offset,
        header.max_timestamp,
    )


def check_producer(
    producers: Producers, batches: Sequence[BatchHeader], view: Buffer, client: bool
) -> WrittenBatch | None:
    """The batch that this one repeats, if it does. Raises if it may not be written."""
    if len(batches) > 1:
        if any(batch.producer_id >= 0 for batch in batches):
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a producer that numbers its batches sends one at a time"
            )
        return None
    batch = batches[0]
    if not batch.is_control:
        stamp = stamp_of(batch)
        if client:
            return producers.check(stamp)
        producers.check_epoch(stamp)  # a coordinator numbers nothing in a producer's name
        return None
    if (marker := marker_of(batch, view)) is not None:
        producers.check_marker(marker)
    return None


def apply(
    producers: Producers, txns: TxnIndex | list[AbortedTxn] | None, header: BatchHeader, batch: Buffer
) -> None:
    """Record one batch. `txns` is None where the transaction index is known to be complete already."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        producers.apply(stamp_of(header))
    elif (marker := marker_of(header, batch)) is not None:
        aborted = producers.apply_marker(marker)
        if aborted is not None and txns is not None:
            txns.append(aborted)


def apply_all(producers: Producers, txns: TxnIndex, batches: Sequence[BatchHeader], data: memoryview) -> None:
    """Let the producers' state follow batches that lie in `data` one behind the other."""
    position = 0
    for batch in batches:
        if batch.producer_id >= 0:
            apply(producers, txns, batch, data[position : position + batch.size])
        position += batch.size


def restore(files: Files, directory: str, segments: Segments, end_offset: int) -> Producers:
    """The producers as they were before `end_offset`: the newest snapshot that is good, and what follows it."""
    producers = Producers()
    start, known = Snapshots(files, directory).newest(segments[0].base_offset, end_offset)
    producers.restore(known)
    for segment in segments.from_offset(start):
        if segment.base_offset >= end_offset:
            break
        _replay(segment, start, end_offset, producers)
    return producers


def rebuild_txns(files: Files, directory: str, segments: Segments, segment: Segment) -> None:
    """Write the transaction index of a segment anew: from its markers, and from what was open before it."""
    producers = restore(files, directory, segments, segment.base_offset)
    aborted: list[AbortedTxn] = []
    _replay(segment, 0, OFFSET_MAX, producers, aborted)
    segment.txns.replace(aborted)


def _replay(
    segment: Segment,
    start: int,
    end_offset: int,
    producers: Producers,
    txns: list[AbortedTxn] | None = None,
) -> None:
    first = segment.find(start) if start > segment.base_offset else next(segment.batches(), None)
    if first is None:
        return
    for batch in segment.batches(first.position):
        if batch.base_offset >= end_offset:
            return
        if batch.magic == 2 and batch.producer_id >= 0:
            size = batch.size if batch.is_control else HEADER_SIZE
            data = segment.file.read_at(batch.position, size)
            apply(producers, txns, read_header(data), data)
