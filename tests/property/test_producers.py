"""The producers of a log against a model that remembers every batch ever written, and against the log itself."""

import random
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records.batch import read_header
from ottla.storage import snapshots
from ottla.storage.log_directory import LogDirectory
from ottla.storage.producers import Marker, Producers, Stamp
from ottla.storage.replay import apply
from ottla.storage.txn_index import AbortedTxn
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.helpers import NOW, batch, config, marker

PARTITION = TopicPartition("orders", 0)
SEQUENCES = 2**31
PIDS = st.integers(1, 3)


class Model:
    """One producer: every batch of its epoch as (first sequence, last sequence, first offset, last offset)."""

    def __init__(self) -> None:
        self.epoch = -1
        self.coordinator_epoch = -1
        self.batches: list[tuple[int, int, int, int]] = []
        self.txn_first: int | None = None

    def judge(self, stamp: Stamp) -> tuple[int, int] | ErrorCode | None:
        if stamp.epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        known = self.batches if stamp.epoch == self.epoch else []
        for first, last, first_offset, last_offset in known[-5:]:
            if (first, last) == (stamp.first_sequence, stamp.last_sequence):
                return first_offset, last_offset
        expected = (known[-1][1] + 1) % SEQUENCES if known else 0
        if stamp.first_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.txn_first is not None and not stamp.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None


class ProducersAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.producers = Producers()
        self.model: dict[int, Model] = {}
        self.unreplicated: list[tuple[int, int]] = []  # first offset, offset of the marker
        self.end = 0
        self.high_watermark = 0

    def stamp(self, pid: int, epoch: int, sequence: int, count: int, transactional: bool) -> Stamp:
        last = (sequence + count - 1) % SEQUENCES
        return Stamp(pid, epoch, sequence, last, self.end, self.end + count - 1, self.end, transactional)

    def submit(self, stamp: Stamp) -> None:
        model = self.model.get(stamp.producer_id)
        expected = None if model is None else model.judge(stamp)
        try:
            repeated = self.producers.check(stamp)
            found = None if repeated is None else (repeated.first_offset, repeated.last_offset)
        except KafkaError as error:
            found = error.code
        assert found == expected
        if expected is None:
            self.write(stamp)

    def write(self, stamp: Stamp) -> None:
        self.producers.apply(stamp)
        model = self.model.setdefault(stamp.producer_id, Model())
        if model.epoch != stamp.epoch:
            model.epoch, model.batches = stamp.epoch, []
        model.batches.append(
            (stamp.first_sequence, stamp.last_sequence, stamp.first_offset, stamp.last_offset)
        )
        if stamp.is_transactional and model.txn_first is None:
            model.txn_first = stamp.first_offset
        self.end = stamp.last_offset + 1

    @rule(pid=PIDS, count=st.integers(1, 5), transactional=st.booleans(), bump=st.booleans())
    def write_on(self, pid: int, count: int, transactional: bool, bump: bool) -> None:
        """The batch that a well-behaved producer sends next."""
        model = self.model.get(pid) or Model()
        epoch, batches = model.epoch, model.batches
        if bump or epoch < 0:
            epoch, batches = epoch + 1, []
        sequence = (batches[-1][1] + 1) % SEQUENCES if batches else 0
        self.submit(self.stamp(pid, epoch, sequence, count, transactional or model.txn_first is not None))

    @rule(pid=PIDS, ago=st.integers(1, 8))
    def retry(self, pid: int, ago: int) -> None:
        model = self.model.get(pid)
        if model and len(model.batches) >= ago:
            first, last, *_ = model.batches[-ago]
            count = (last - first) % SEQUENCES + 1
            self.submit(self.stamp(pid, model.epoch, first, count, transactional=True))

    @rule(
        pid=PIDS,
        epoch=st.integers(0, 4),
        sequence=st.sampled_from([0, 1, 2, 5, 9, SEQUENCES - 2, SEQUENCES - 1]),
        count=st.integers(1, 4),
        transactional=st.booleans(),
    )
    def send_anything(self, pid: int, epoch: int, sequence: int, count: int, transactional: bool) -> None:
        """Also brings sequences close to the wrap, as the first of a producer nobody knows."""
        self.submit(self.stamp(pid, epoch, sequence, count, transactional))

    @rule(pid=PIDS, bump=st.integers(-1, 1), commit=st.booleans(), coordinator_epoch=st.integers(0, 2))
    def end_txn(self, pid: int, bump: int, commit: bool, coordinator_epoch: int) -> None:
        model = self.model.get(pid)
        marker = Marker(
            pid, max(0, (model.epoch if model else 0) + bump), commit, coordinator_epoch, self.end, self.end
        )
        try:
            self.producers.check_marker(marker)
            refused = None
        except KafkaError as error:
            refused = error.code
        assert refused == self.judge_marker(model, marker)
        if refused is None:
            self.write_marker(marker)

    @staticmethod
    def judge_marker(model: Model | None, marker: Marker) -> ErrorCode | None:
        if model is None:
            return None
        if marker.epoch < model.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < model.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    def write_marker(self, marker: Marker) -> None:
        model = self.model.setdefault(marker.producer_id, Model())
        if marker.epoch > model.epoch:
            model.epoch, model.batches = marker.epoch, []
        model.coordinator_epoch = marker.coordinator_epoch
        first, model.txn_first = model.txn_first, None
        expected = None
        if first is not None:
            self.unreplicated.append((first, marker.offset))
            if not marker.is_commit:
                still_open = [m.txn_first for m in self.model.values() if m.txn_first is not None]
                stable = min(still_open, default=marker.offset + 1)
                expected = AbortedTxn(marker.producer_id, first, marker.offset, stable)
        assert self.producers.apply_marker(marker) == expected
        self.end += 1

    @rule(part=st.floats(0, 1))
    def replicate(self, part: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * part)
        self.producers.replicated(self.high_watermark)
        self.unreplicated = [(f, m) for f, m in self.unreplicated if m >= self.high_watermark]

    @rule(silence=st.integers(1, 40))
    def expire(self, silence: int) -> None:
        """Timestamps are offsets here: silent for so many records."""
        late = {
            p.producer_id: p.last_timestamp
            for p in self.producers.all()
            if self.end - p.last_timestamp >= silence and self.model[p.producer_id].txn_first is None
        }
        assert set(self.producers.expire(self.end, silence)) == set(late)
        for pid in late:
            del self.model[pid]

    @precondition(lambda self: self.model)
    @rule()
    def snapshot_and_restore(self) -> None:
        """A restart keeps everything but the four older batches, and whether markers are replicated."""
        data = snapshots.encode(self.producers.all())
        self.producers = Producers()
        self.producers.restore(snapshots.decode(data, "s"))
        assert snapshots.encode(self.producers.all()) == data
        for model in self.model.values():
            del model.batches[:-1]
        self.unreplicated = []

    @invariant()
    def the_first_unstable_offset_is_that_of_the_oldest_transaction_not_settled(self) -> None:
        unsettled = [m.txn_first for m in self.model.values() if m.txn_first is not None]
        unsettled += [first for first, _ in self.unreplicated]
        assert self.producers.first_unstable_offset == min(unsettled, default=None)


TestProducersAgainstModel = ProducersAgainstModel.TestCase
TestProducersAgainstModel.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


class LogSpeaksForItsBatches(RuleBasedStateMachine):
    """Whatever happened to a log, what it knows of producers and aborts is what the batches in it say."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.directory = self.open()
        self.log = self.directory.create(PARTITION)
        self.now = NOW

    def open(self) -> LogDirectory:
        settings = config(segment_bytes=320, retention_ms=1000, file_delete_delay_ms=0)
        return LogDirectory.open(self.disk, "d", lambda topic: settings)

    def reopen(self) -> None:
        self.directory = self.open()
        assert self.directory.damaged == {}
        self.log = self.directory.logs[PARTITION]
        assert self.log.recovery.damage == []

    def append(self, data: bytes, *, client: bool) -> None:
        self.now += 10
        assert not self.log.append(data, 0, self.now, client=client).is_duplicate

    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        self.append(batch(*[b"plain"] * count, at_ms=self.now), client=True)

    @rule(pid=PIDS, count=st.integers(1, 3), transactional=st.booleans())
    def write_as(self, pid: int, count: int, transactional: bool) -> None:
        known = self.log.producers.get(pid)
        epoch, sequence = (known.epoch, known.last_sequence + 1) if known else (0, 0)
        transactional = transactional or (known is not None and known.txn_first_offset >= 0)
        data = batch(
            *[b"x"] * count, producer=(pid, epoch, sequence), is_transactional=transactional, at_ms=self.now
        )
        self.append(data, client=True)

    @rule(pid=PIDS, bump=st.booleans(), commit=st.booleans())
    def end_txn(self, pid: int, bump: bool, commit: bool) -> None:
        known = self.log.producers.get(pid)
        self.append(marker(pid, (known.epoch if known else 0) + bump, commit=commit), client=False)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.directory.checkpoint()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        start, end = self.log.log_start_offset, self.log.end_offset
        self.log.truncate_to(start + int(part * (end - start)))

    @rule(offset=st.integers(0, 12))
    def begin_anew(self, offset: int) -> None:
        self.log.restart_at(offset)

    @rule(seed=st.integers(0, 9999), after=st.integers(0, 12))
    def lose_power(self, seed: int, after: int) -> None:
        """In the middle of whatever a flush, a truncation and a roll do."""
        self.disk.crash_after(after)
        with suppress(PowerLoss):
            self.log.flush()
            self.log.truncate_to(max(self.log.log_start_offset, self.log.end_offset - 2))
            self.log.roll()
        self.disk.crash(random.Random(seed))
        self.reopen()

    @rule(seed=st.none() | st.integers(0, 9999))
    def restart(self, seed: int | None) -> None:
        end_offset = self.log.end_offset
        self.directory.close()
        if seed is not None:
            self.disk.crash(random.Random(seed))
        self.reopen()
        assert self.directory.was_clean
        assert self.log.end_offset == end_offset

    @rule(late=st.integers(0, 3000))
    def retain(self, late: int) -> None:
        self.log.advance_high_watermark(self.log.end_offset)
        self.log.delete_old(self.now + late)
        self.log.remove_doomed(self.now + late)

    @invariant()
    def it_knows_what_its_batches_say(self) -> None:
        replayed, aborted = Producers(), []
        for segment in self.log.segments:
            for at in segment.batches():
                data = segment.file.read_at(at.position, at.size)
                apply(replayed, aborted, read_header(data), data)
        if self.log.segments[0].base_offset == 0:  # else the log remembers more than its batches can tell
            assert what_is_known(self.log.producers) == what_is_known(replayed)
            assert self.log.aborted_txns(0, 2**62) == aborted


def what_is_known(producers: Producers) -> dict[int, tuple[int, int, int, int]]:
    return {
        p.producer_id: (p.epoch, p.last_sequence, p.txn_first_offset, p.coordinator_epoch)
        for p in producers.all()
    }


TestLogSpeaksForItsBatches = LogSpeaksForItsBatches.TestCase
TestLogSpeaksForItsBatches.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
