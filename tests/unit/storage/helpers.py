"""Batches and logs in the few shapes that the tests of storage need."""

import random

from ottla.records.batch import read_header, records_of
from ottla.records.builder import build
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage.config import TINY, TopicConfig
from ottla.storage.log import Appended, Log
from ottla.testing.disk import SimDisk

NOW = 1_700_000_000_000
HERE = "d/orders-0"


def batch(
    *values: bytes,
    base_offset: int = 0,
    at_ms: int = NOW,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
) -> bytes:
    """A batch with one record per value. `producer` is id, epoch and first sequence."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return build(
        [Record(base_offset + i, at_ms, None, value) for i, value in enumerate(values or (b"v",))],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        leader_epoch=leader_epoch,
    )


def marker(producer_id: int, epoch: int = 0, *, commit: bool, coordinator_epoch: int = 0) -> bytes:
    return build_marker(
        ControlType.COMMIT if commit else ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=NOW,
    )


def config(**settings: object) -> TopicConfig:
    """TINY with changes: `segment_bytes=4096` sets segment.bytes."""
    return TopicConfig({**TINY, **{k.replace("_", "."): str(v) for k, v in settings.items()}})


def open_log(disk: SimDisk, settings: TopicConfig | None = None, **how: object) -> Log:
    return Log.open(disk, HERE, settings or config(), **how)  # type: ignore[arg-type]


def put(log: Log, *values: bytes, epoch: int = 0, now_ms: int = NOW, **how: object) -> Appended:
    return log.append(batch(*values, **how), epoch, now_ms)  # type: ignore[arg-type]


def end_txn(
    log: Log, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0
) -> Appended:
    ending = marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch)
    return log.append(ending, 0, NOW, client=False)


def values_of(log: Log, offset: int | None = None, limit: int | None = None) -> dict[int, bytes]:
    """What a reader finds from `offset` on, by offset."""
    found: dict[int, bytes] = {}
    at = log.log_start_offset if offset is None else offset
    while data := log.read(at, 1 << 20, limit).read():
        position = 0
        while position < len(data):
            header = read_header(data, position)
            if not header.is_control:
                found |= {r.offset: r.value for r in records_of(data, position) if r.offset >= at}
            position += header.size
            at = max(at, header.next_offset)
    return found


def crash(disk: SimDisk, seed: int = 0) -> None:
    disk.crash(random.Random(seed))
