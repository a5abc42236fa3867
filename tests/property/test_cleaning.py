"""Compaction against an oracle: whatever was written and whenever it was cleaned, a reader sees of each key the newest
record; and wherever the power goes meanwhile, the log is the one before a step or the one after it."""

import copy
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.records.batch import read_header, records_of
from ottla.records.control import ControlType, control_type
from ottla.records.record import Record
from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Done, Failed, Group, Job
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.config import TINY, TopicConfig
from ottla.storage.log import Log
from ottla.storage.replacement import Replacement
from ottla.testing.disk import PowerLoss, SimDisk
from tests.property.histories import History, write

HERE = "d/orders-0"
EXPLORES = "OTTLA_EXPLORE" in os.environ
EXAMPLES = int(os.environ.get("OTTLA_EXPLORE", "60"))
ENOUGH = 1 << 16


def config(delete_retention_ms: int = 1000, **settings: object) -> TopicConfig:
    sizes = {**TINY, "segment.bytes": "2048", "delete.retention.ms": str(delete_retention_ms)}
    return TopicConfig(
        {**sizes, "cleanup.policy": "compact", **{k.replace("_", "."): str(v) for k, v in settings.items()}}
    )


def open_log(disk: SimDisk, settings: TopicConfig, recovery_point: int = 0) -> Log:
    log = Log.open(disk, HERE, settings, recovery_point=recovery_point)
    log.advance_high_watermark(log.end_offset)
    return log


def run(
    disk: SimDisk, log: Log, checkpoint: int | None, now_ms: int, map_bytes: int = ENOUGH
) -> Iterator[int]:
    """Clean; yields after every group, and in the end where the log is clean to. What was begun stays so if nobody asks
    for the rest."""
    job = Job.of(
        log,
        cleanable(log, checkpoint, now_ms),
        map_bytes=map_bytes,
        load_factor=0.9,
        io_buffer_bytes=500,
        now_ms=now_ms,
    )
    for event in clean(disk, Job.from_json(job.to_json())):
        if isinstance(event, Group):
            replacement = Replacement(log, event.base_offsets)
            replacement.prepare()
            assert replacement.commit(now_ms)
            replacement.finish()
            log.remove_doomed(now_ms + 10**9)
            yield -1
        elif isinstance(event, Done):
            yield event.end_offset
        elif isinstance(event, Failed):
            assert "log.cleaner.dedupe.buffer.size" in event.reason, event
            yield job.first_dirty_offset


def batches(log: Log) -> Iterator[bytes]:
    for segment in log.segments:
        for batch in segment.batches():
            yield segment.file.read_at(batch.position, batch.size)


def everything(log: Log) -> list[Record]:
    return [
        record for data in batches(log) if not read_header(data).is_control for record in records_of(data)
    ]


def committed(log: Log) -> list[Record]:
    """As a consumer with `isolation.level=read_committed` finds them, by the list of aborted transactions."""
    coming = sorted(log.aborted_txns(0, log.end_offset), key=lambda txn: txn.first_offset)
    aborted: set[int] = set()
    found: list[Record] = []
    for data in batches(log):
        header = read_header(data)
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            first = next(records_of(data), None)
            if first is not None and control_type(first.key) is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += records_of(data)
    return [record for record in found if record.offset < log.last_stable_offset]


@dataclass
class Model:
    """What must be readable, by the rules and nothing else."""

    delete_retention_ms: int
    records: dict[int, Record] = field(default_factory=dict)
    horizons: dict[int, int] = field(default_factory=dict)  # offset of a tombstone -> when it may go

    def written(self, log: Log) -> None:
        """Take note of what was appended since."""
        last = max(self.records, default=-1)
        self.end = log.end_offset
        for record in committed(log):
            if record.offset > last or record.offset >= self.seen_to:
                self.records[record.offset] = record
        self.seen_to = log.last_stable_offset

    seen_to: int = 0
    end: int = 0

    def clean(self, to: int, now_ms: int) -> None:
        newest = {record.key: offset for offset, record in sorted(self.records.items())}
        for offset, record in sorted(self.records.items()):
            if offset >= to:
                break
            is_expired = record.value is None and self.horizons.get(offset, now_ms + 1) <= now_ms
            later = {
                k for o, r in self.records.items() if offset < o < to for k in [r.key] if k == record.key
            }
            if record.key is None or later or is_expired:
                del self.records[offset]
            elif record.value is None:
                self.horizons.setdefault(offset, now_ms + self.delete_retention_ms)
        assert all(newest[r.key] >= o for o, r in self.records.items())


def last_sequences(log: Log) -> dict[int, tuple[int, int, int]]:
    return {
        p.producer_id: (p.epoch, p.batches[-1].last_sequence, p.batches[-1].last_offset)
        for p in log.producers.all()
        if p.batches
    }


def forget_snapshots(disk: SimDisk) -> None:
    for name in disk.names(HERE):
        if name.endswith(".snapshot"):
            disk.remove(f"{HERE}/{name}")


@given(
    source=st.randoms(use_true_random=False),
    lengths=st.lists(st.integers(0, 25), min_size=1, max_size=4),
    pauses=st.lists(st.sampled_from([0, 1, 999, 1000, 5000]), min_size=4, max_size=4),
    delete_retention_ms=st.sampled_from([0, 1000]),
)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_reader_sees_the_newest_of_each_key_however_often_it_is_cleaned(
    source, lengths, pauses, delete_retention_ms
):
    disk, topic = SimDisk(), config(delete_retention_ms)
    log = open_log(disk, topic)
    history, model, checkpoint = History(source), Model(delete_retention_ms), None
    now_ms = history.now_ms
    for length, pause in zip(lengths, pauses, strict=False):
        write(log, list(history.go_on(length)))
        write(log, list(history.end_transactions()))
        model.written(log)
        now_ms = max(now_ms, history.now_ms) + pause
        before = everything(log)
        sequences = last_sequences(log)
        *_, checkpoint = run(disk, log, checkpoint, now_ms)
        assert checkpoint == log.segments.active.base_offset
        model.clean(checkpoint, now_ms)

        after = everything(log)
        offsets = [record.offset for record in after]
        assert offsets == sorted(set(offsets)), "offsets strictly rise"
        assert set(map(repr, after)) <= set(map(repr, before)), "nothing is made up"
        assert committed(log) == list(model.records.values())
        log.flush()
        forget_snapshots(disk)
        log = open_log(disk, topic, log.recovery_point)
        assert committed(log) == list(model.records.values()), "also after a start"
        found = last_sequences(log)
        assert {p: found.get(p) for p in sequences} == sequences, "every producer can go on"


@given(source=st.randoms(use_true_random=False), length=st.integers(20, 60), keys=st.integers(2, 8))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_does_not_fit_into_the_map_is_cleaned_next_time(source, length, keys):
    disk, topic = SimDisk(), config()
    log = open_log(disk, topic)
    history = History(source)
    write(log, list(history.go_on(length)))
    write(log, list(history.end_transactions()))
    newest = {record.key: record for record in committed(log) if record.key is not None}
    checkpoint, reached = None, -1
    while checkpoint != reached:
        untouched = [
            r for r in everything(log) if r.offset >= cleanable(log, checkpoint, history.now_ms).end_offset
        ]
        reached = checkpoint
        *_, checkpoint = run(disk, log, checkpoint, history.now_ms, map_bytes=24 * (keys + 3))
        here = {record.key: record for record in committed(log) if record.key is not None}
        assert here == newest
        assert everything(log)[len(everything(log)) - len(untouched) :] == untouched


def content(log: Log) -> list[bytes]:
    """All there is to be read: batches, and which of their records are committed."""
    return [*batches(log), repr(committed(log)).encode()]


@pytest.mark.parametrize("seed", range(40 if EXPLORES else 4))
def test_the_power_may_go_at_every_operation(seed):
    """One line of states: the log as it was, and as it is after each group. A start finds one of them."""
    source = random.Random(seed)
    disk, topic = SimDisk(), config(segment_bytes=700)
    log = open_log(disk, topic)
    history = History(source)
    write(log, list(history.go_on(16)))
    write(log, list(history.end_transactions()))
    log.flush()
    safe = log.recovery_point
    log.close()
    now_ms = history.now_ms + 10

    def opened(here: SimDisk) -> Log:
        return open_log(here, topic, safe)

    untouched = copy.deepcopy(disk)
    log = opened(disk)
    start = disk.operations
    states = [content(log)]
    for _ in run(disk, log, None, now_ms):
        states.append(content(log))
    count = disk.operations - start
    assert len({repr(state) for state in states}) > 1, "something was cleaned"

    seen = set()
    for after in range(seed % 4, count, 1 if EXPLORES else 4):
        here = copy.deepcopy(untouched)
        log = opened(here)
        here.crash_after(after)
        with pytest.raises(PowerLoss):
            list(run(here, log, None, now_ms))
            here.step("the end")
            raise PowerLoss
        here.crash(random.Random(seed * 1000 + after))
        log = opened(here)
        found = content(log)
        assert found in states, f"a mixture after operation {after}"
        seen.add(states.index(found))
        assert not [n for n in here.names(HERE) if n.endswith((".cleaned", ".swap"))]
        if after % 5 == 0:
            *_, end = run(here, log, None, now_ms)
            assert end == log.segments.active.base_offset, "it can be cleaned now"
    assert {0, max(seen)} <= seen and len(seen) > 1
