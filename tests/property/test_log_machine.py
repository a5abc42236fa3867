"""A Log on a disk that forgets, against a plain list: whatever was flushed before a crash is there after it."""

import errno
import os
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage.config import TINY, TopicConfig
from ottla.storage.log_directory import LogDirectory
from ottla.testing.disk import PowerLoss, SimDisk

PARTITION = TopicPartition("orders", 0)
PLAIN, IDEMPOTENT, TRANSACTIONAL = -1, (1, 2), (11, 12)
VALUES = st.lists(st.binary(max_size=120), min_size=1, max_size=4)


class Batch:
    """What the model remembers of a batch that was appended."""

    def __init__(self, offset, values, producer_id=PLAIN, sequence=-1, marker=None, epoch=0):
        self.offset, self.values, self.producer_id = offset, values, producer_id
        self.sequence, self.marker, self.epoch = sequence, marker, epoch

    @property
    def end(self):
        return self.offset + len(self.values)


class LogOnAForgetfulDisk(RuleBasedStateMachine):
    """The model is the list of batches. A crash may shorten it, but never below what was flushed."""

    @initialize(interval=st.sampled_from(["0", "200"]), segment=st.sampled_from(["300", "1024", "100000"]))
    def start(self, interval, segment):
        self.disk = SimDisk()
        self.config = TopicConfig({**TINY, "index.interval.bytes": interval, "segment.bytes": segment})
        self.batches: list[Batch] = []
        self.base = 0  # where an empty log stands
        self.flushed = 0
        self.start_offset = 0
        self.epoch = 0
        self.directory = self._open()
        self.directory.create(PARTITION)

    # --- what a broker does --------------------------------------------------------------------------------------

    @rule(values=VALUES)
    def append(self, values):
        batch = build([Record(i, 1000 + self.end, None, v) for i, v in enumerate(values)])
        self._do(lambda: self._append(batch, Batch(self.end, values, epoch=self.epoch)))

    @rule(values=VALUES, producer_id=st.sampled_from(IDEMPOTENT + TRANSACTIONAL))
    def append_in_sequence(self, values, producer_id):
        if (last := self._last_batch(producer_id)) is not None and last.offset < self.start_offset:
            return  # the log may have forgotten it, and then asks for a new epoch
        sequence = self._next_sequence(producer_id)
        batch = self._producer_batch(values, producer_id, sequence)
        self._do(
            lambda: self._append(batch, Batch(self.end, values, producer_id, sequence, epoch=self.epoch))
        )

    @rule(producer_id=st.sampled_from(IDEMPOTENT + TRANSACTIONAL))
    def retry_the_last_batch(self, producer_id):
        last = self._last_batch(producer_id)
        if last is None or last.offset < self.start_offset:
            return  # what lies before the start of the log may be forgotten
        again = self._producer_batch(last.values, producer_id, last.sequence)
        appended = self.log.append(again, self.epoch, 2000)
        assert appended.is_duplicate
        assert (appended.first_offset, appended.last_offset) == (last.offset, last.end - 1)

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), commit=st.booleans())
    def end_transaction(self, producer_id, commit):
        type = ControlType.COMMIT if commit else ControlType.ABORT
        marker = build_marker(
            type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp=1500
        )
        batch = Batch(self.end, [b"marker"], producer_id, marker=type, epoch=self.epoch)
        self._do(lambda: self._append(marker, batch, client=False))

    @rule()
    def flush_before_ack(self):
        def step():
            self.log.flush()
            self.flushed = self.end

        self._do(step)

    @rule()
    def roll(self):
        self._do(lambda: self.log.roll())

    @rule()
    def checkpoint(self):
        self._do(self.directory.checkpoint)

    @rule()
    def become_leader_again(self):
        self.epoch += 1

    @rule(data=st.data())
    def truncate(self, data):
        offset = data.draw(st.integers(self.start_offset, self.end))
        keep = [b for b in self.batches if b.end <= offset]
        # From here on a crash may find the batches gone, whether they had been flushed or not.
        self.flushed = min(self.flushed, keep[-1].end if keep else self.base)
        self.epoch += 1  # only a new leader makes a replica truncate

        def step():
            self.log.truncate_to(offset)
            self.batches = keep
            self.base = min(self.base, self.end)
            if self.end < self.log.log_start_offset:  # the start of the log lay within a batch that went
                self.base = self.log.log_start_offset
            self.start_offset = min(self.start_offset, self.end)

        self._do(step)

    @rule(data=st.data())
    def forget_the_start(self, data):
        self.log.advance_high_watermark(self.end)
        offset = data.draw(st.integers(self.start_offset, self.end))
        self.start_offset = offset

        def step():
            self.log.advance_log_start(offset)
            self.log.delete_old(now_ms=0)
            self.log.remove_doomed(now_ms=10**9)

        self._do(step)

    @rule()
    def restart_cleanly(self):
        def step():
            self.directory.close()
            if self.log.recovery_point == self.end:  # a disk that refuses may keep it from being flushed
                self.flushed = self.end
            self.disk.repair()
            self.planted = False
            self._reopen()

        self._do(step)

    # --- what a disk does ----------------------------------------------------------------------------------------

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed):
        self._crash(seed)

    @rule(operations=st.integers(0, 12), seed=st.integers(0, 2**32))
    def lose_power_in_the_middle_of_the_next_step(self, operations, seed):
        self._crash_seed = seed
        self.disk.crash_after(operations)

    @rule(
        operation=st.sampled_from(["write", "sync", "rename", "create", "truncate", "remove", "read"]),
        code=st.sampled_from([errno.EIO, errno.ENOSPC]),
        after=st.integers(0, 4),
    )
    def let_an_operation_fail(self, operation, code, after):
        self.disk.repair()
        self.disk.fail_next(operation, code, after=after)
        self.planted = True

    # --- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def reads_back_what_was_written(self):
        if not self._is_running():
            return
        assert self.log.end_offset == self.end
        assert self.log.log_start_offset <= self.start_offset
        expected = {b.offset: b for b in self.batches}
        offset = self.log.log_start_offset
        while offset < self.log.end_offset:
            data = self.log.read(offset, bytes_max=256).read()
            assert data, f"nothing to read at {offset}, the log ends at {self.log.end_offset}"
            for position, header in iter_batches(data, partial=True):
                batch = expected[header.base_offset]
                assert header.leader_epoch == batch.epoch
                values = [r.value for r in records_of(data, position)]
                assert batch.marker is not None or values == batch.values
                assert header.next_offset == batch.end
                offset = header.next_offset

    @invariant()
    def knows_its_transactions(self):
        if not self._is_running():
            return
        open_txns, aborted = self._transactions()
        self.log.advance_high_watermark(self.end)
        stable = min([self.end, *(first for first in open_txns.values() if first >= self.start_offset)])
        if all(first >= self.start_offset for first in open_txns.values()):
            assert self.log.last_stable_offset == stable
        else:  # the log may or may not remember a transaction whose records are gone
            assert self.log.log_start_offset <= self.log.last_stable_offset <= stable
        found = {t[:3] for t in self.log.aborted_txns(self.log.log_start_offset, self.end)}
        assert found >= {t for t in aborted if t[1] >= self.start_offset}
        for producer_id, first, last in found:
            [began] = [a[1] for a in aborted if (a[0], a[2]) == (producer_id, last)]
            # One that began before the start of the log may be known from its first record that is left.
            left = [b.offset for b in self.batches if b.producer_id == producer_id and b.marker is None]
            readable = [o for o in left if began <= o < last and o >= self.log.segments[0].base_offset]
            assert first == began or first == min(readable), (first, began, readable)

    @invariant()
    def knows_who_led_when(self):
        if not self._is_running() or not self.batches:
            return
        for batch in self.batches:
            if batch.offset >= self.start_offset:
                assert self.log.epochs.epoch_at(batch.offset) == batch.epoch

    # --- the machine's own ---------------------------------------------------------------------------------------

    @property
    def log(self):
        return self.directory.logs[PARTITION]

    @property
    def end(self):
        return max([self.base, *(b.end for b in self.batches[-1:])])

    _crash_seed = None

    planted = False

    def _is_running(self):
        """Reading is an operation too: no looking while the next one is to fail."""
        return self._crash_seed is None and not self.planted

    def _open(self):
        return LogDirectory.open(self.disk, "/data", lambda topic: self.config)

    def _append(self, data, batch, client=True):
        # The bytes may reach the disk even if the power goes before the append returns.
        self.maybe = batch
        self.log.append(data, self.epoch, 2000, client=client)
        self.batches.append(batch)

    def _do(self, step):
        self.maybe = None
        before = list(self.batches)
        try:
            step()
        except PowerLoss:
            self.batches = before + ([self.maybe] if self.maybe else [])
            self._crash(self._crash_seed)
        except (KafkaError, OSError) as error:
            assert self.planted, error
            assert isinstance(error, OSError) or error.code is ErrorCode.KAFKA_STORAGE_ERROR
            self._after_an_error(before)

    def _after_an_error(self, before):
        """Either nothing happened, or the log has failed and is opened again, by a new process of the same boot."""
        failed = self.log.failure is not None
        self.batches = before + ([self.maybe] if failed and self.maybe else [])
        self.disk.repair()
        self.planted = False
        if failed:
            self._reopen()

    def _crash(self, seed):
        self._crash_seed = None
        self.planted = False
        self.disk.crash(random.Random(seed))
        self._reopen()

    def _reopen(self):
        try:
            self.directory = self._open()
        except PowerLoss:  # while it was recovering from the last one
            self._crash(self._crash_seed)
            return
        assert not self.directory.damaged, self.directory.damaged
        end = self.log.end_offset
        assert end >= self.flushed, "a record that was acknowledged is gone"
        if end == self.log.log_start_offset:
            self.base = end  # what was left lay before the start of the log, and went
        assert end in {self.base, *(b.end for b in self.batches)}
        self.batches = [b for b in self.batches if b.end <= end]
        self.start_offset = min(self.start_offset, end)
        self.epoch = max([self.epoch, *(e.epoch for e in self.log.epochs.entries)])

    def _producer_batch(self, values, producer_id, sequence):
        return build(
            [Record(i, 1000, None, v) for i, v in enumerate(values)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=producer_id in TRANSACTIONAL,
        )

    def _last_batch(self, producer_id):
        mine = [b for b in self.batches if b.producer_id == producer_id and b.marker is None]
        return mine[-1] if mine else None

    def _next_sequence(self, producer_id):
        last = self._last_batch(producer_id)
        return 0 if last is None else last.sequence + len(last.values)

    def _transactions(self):
        open_txns, aborted = {}, set()
        for batch in self.batches:
            if batch.producer_id not in TRANSACTIONAL:
                continue
            if batch.marker is None:
                open_txns.setdefault(batch.producer_id, batch.offset)
            elif (
                first := open_txns.pop(batch.producer_id, None)
            ) is not None and batch.marker is ControlType.ABORT:
                aborted.add((batch.producer_id, first, batch.offset))
        return open_txns, aborted


TestLogOnAForgetfulDisk = LogOnAForgetfulDisk.TestCase
TestLogOnAForgetfulDisk.settings = settings(
    max_examples=int(os.environ.get("OTTLA_EXPLORE", 200)), stateful_step_count=40, deadline=None
)
