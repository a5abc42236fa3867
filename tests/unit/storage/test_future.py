"""Future logs: copies that follow a log through all that happens to it, and take its place without losing anything."""

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage import leftovers
from ottla.storage.snapshots import encode
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.helpers import NOW, end_txn, put, values_of
from tests.unit.storage.moving import ORDERS, TOPIC_ID, LazyDisk, begun, content, copy, finish, opened, settle


@pytest.fixture
def disk():
    return SimDisk()


def filled(disk, count=40, **settings):
    one, two = opened(disk, **settings)
    log = one.create(ORDERS, TOPIC_ID)
    for number in range(count):
        put(log, b"%d" % number, epoch=number // 15)
    log.advance_high_watermark(log.end_offset - 2)
    return one, two, log


def test_a_copy_holds_the_same_bytes_epochs_and_marks(disk):
    one, two, log = filled(disk, segment_bytes=500)
    assert len(log.segments) > 3
    log.advance_log_start(17)
    future = begun(one, two)
    assert future.lag == 23
    settle(future)
    assert future.lag == 0
    copied = two.futures[ORDERS]
    assert values_of(copied) == values_of(log)
    assert copied.epochs.entries == log.epochs.entries
    assert (copied.log_start_offset, copied.high_watermark) == (17, 38)
    assert copied.recovery_point == 40


def test_the_log_stays_the_object_that_it_was_and_lies_elsewhere(disk):
    one, two, log = filled(disk)
    before, marks = content(log), (log.log_start_offset, log.high_watermark, log.end_offset)
    future = begun(one, two)
    assert disk.exists(f"two/{future.name}") and future.name.endswith("-future")
    finish(future)
    assert (one.logs, two.logs, two.futures) == ({}, {ORDERS: log}, {})
    assert log.directory == "two/orders-0"
    assert content(log) == before
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == marks
    assert disk.names("one")[-1].endswith("-delete") and "orders-0" not in disk.names("one")
    put(log, b"more", epoch=3)
    log.flush()
    log.truncate_to(20)
    put(log, b"instead", epoch=4)
    log.close()
    (one, two) = opened(disk)
    assert values_of(two.logs[ORDERS])[20] == b"instead"


def test_a_reader_that_holds_a_place_in_the_old_files_reads_on(disk):
    one, two, log = filled(disk)
    held = log.read(0, 1 << 20)
    data = held.read()
    old = finish(begun(one, two))
    assert held.read() == data == log.read(0, 1 << 20).read()
    assert all(segment.path.startswith("one/orders-0.") for segment in old.segments)


def test_producers_that_left_no_batch_behind_are_remembered_after_a_crash(disk):
    one, two, log = filled(disk, count=0, segment_bytes=300)
    put(log, b"numbered", producer=(7, 0, 0))
    for number in range(20):
        put(log, b"%d" % number)
    log.advance_high_watermark(log.end_offset)
    log.advance_log_start(10)
    known = encode(log.producers.all())
    finish(begun(one, two))
    assert encode(log.producers.all()) == known
    disk.crash(random.Random(1))
    one, two = opened(disk)
    assert encode(two.logs[ORDERS].producers.all()) == known
    with pytest.raises(KafkaError) as refused:
        put(two.logs[ORDERS], b"again", producer=(7, 0, 5))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_aborted_transactions_stay_aborted(disk):
    one, two, log = filled(disk, count=0)
    put(log, b"no", producer=(7, 0, 0), is_transactional=True)
    put(log, b"yes", producer=(8, 0, 0), is_transactional=True)
    end_txn(log, 7, commit=False)
    end_txn(log, 8, commit=True)
    put(log, b"open", producer=(7, 0, 1), is_transactional=True)
    log.advance_high_watermark(log.end_offset)
    aborted, stable = log.aborted_txns(0, 5), log.last_stable_offset
    finish(begun(one, two))
    assert (log.aborted_txns(0, 5), log.last_stable_offset) == (aborted, stable)
    end_txn(log, 7, commit=False)
    assert len(log.aborted_txns(0, 6)) == 2


def test_what_is_cut_off_the_log_is_cut_off_the_copy(disk):
    one, two, log = filled(disk)
    future = begun(one, two)
    copy(future)
    log.truncate_to(25)
    put(log, b"another", epoch=7)
    assert future.is_overtaken and not future.catches_up(NOW)
    finish(future)
    assert values_of(log)[25] == b"another" and log.end_offset == 26
    assert log.epochs.latest == 7


def test_a_copy_begins_anew_when_the_log_has_lost_its_beginning(disk):
    one, two, log = filled(disk, segment_bytes=200)
    future = begun(one, two)
    future.next_step(NOW)()
    log.advance_high_watermark(log.end_offset)
    log.advance_log_start(35)
    log.delete_old(NOW)
    assert future.is_overtaken
    finish(future)
    assert list(values_of(log)) == [35, 36, 37, 38, 39]


def test_a_log_that_starts_within_a_batch_is_copied_from_that_batch_on(disk):
    one, two, log = filled(disk, count=0)
    put(log, b"a", b"b", b"c", b"d")
    put(log, b"e")
    log.advance_high_watermark(5)
    log.advance_log_start(2)
    finish(begun(one, two))
    assert values_of(log) == {2: b"c", 3: b"d", 4: b"e"}
    disk.crash(random.Random(2))
    one, two = opened(disk)
    assert values_of(two.logs[ORDERS]) == {2: b"c", 3: b"d", 4: b"e"}


def test_a_gap_at_the_end_is_no_obstacle(disk):
    one, two, log = filled(disk, count=3, cleanup_policy="compact")
    log.end_offset = log.roll(9).base_offset  # as compaction by others may leave it
    finish(begun(one, two))
    put(log, b"next", epoch=1)
    assert values_of(log) == {0: b"0", 1: b"1", 2: b"2", 9: b"next"}


def test_how_far_it_is_compacted_goes_along(disk):
    one, two, _ = filled(disk, cleanup_policy="compact")
    for step in one.note_cleaned(ORDERS, 12):
        step()
    finish(begun(one, two))
    assert two.cleaned_to(ORDERS) == 12
    disk.crash(random.Random(3))
    one, two = opened(disk, cleanup_policy="compact")
    assert two.cleaned_to(ORDERS) == 12


def test_damage_is_not_copied(disk):
    one, two, log = filled(disk)
    segment = log.segments[0]
    segment.file.write_at(segment.size - 1, b"\xff")
    future = begun(one, two)
    with pytest.raises(KafkaError) as refused:
        copy(future)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE and not future.is_overtaken


def test_a_copy_that_is_given_up_leaves_nothing(disk):
    one, two, log = filled(disk)
    future = begun(one, two)
    copy(future)
    future.abandon()
    future.discard()
    assert (two.futures, one.on_cut) == ({}, {})
    assert all("orders" not in name for name in disk.names("two"))
    put(log, b"on", epoch=3)
    finish(begun(one, two))
    assert len(values_of(log)) == 41


def test_a_stray_of_an_earlier_topic_makes_room(disk):
    one, two, _ = filled(disk)
    disk.make_directory("two/orders-0")
    disk.open("two/orders-0/00000000000000000000.log", create=True)
    finish(begun(one, two))
    assert any(name.endswith("-stray") for name in disk.names("two"))


@pytest.mark.parametrize("operation", ["rename", "sync"])
def test_a_disk_that_refuses_the_last_step_leaves_the_log_where_it_was(disk, operation):
    one, two, log = filled(disk)
    future = begun(one, two)
    settle(future)
    assert future.catches_up(NOW)
    disk.fail_next(operation, errno.EIO)
    with pytest.raises(OSError):
        future.take_place()
    assert (one.logs, two.logs) == ({ORDERS: log}, {})
    assert disk.exists("one/orders-0") and not disk.exists("two/orders-0")
    put(log, b"on", epoch=3)


# --- losing power ---------------------------------------------------------------------------------------------------


class Story:
    """A move under load: what was synced, and all that was ever written, in the only order that there is."""

    def __init__(self, disk, chance):
        self.disk, self.chance = disk, chance
        self.one, self.two = opened(disk, segment_bytes=400)
        self.log = self.one.create(ORDERS, TOPIC_ID)
        self.written, self.synced, self.start = {}, 0, 0
        for _ in range(30):
            self.work()
        self.delete(5)

    def work(self, epoch=0):
        value = b"%d" % self.log.end_offset
        sequence = self.log.end_offset
        self.written[self.log.end_offset] = value
        put(self.log, value, epoch=epoch, producer=(9, 0, sequence))
        self.log.advance_high_watermark(self.log.end_offset)
        if self.chance.random() < 0.3:
            self.log.flush()
            self.synced = self.log.end_offset

    def delete(self, offset):
        self.log.advance_log_start(offset)
        (self.one if ORDERS in self.one.logs else self.two).checkpoint()
        self.start = offset

    def run(self):
        future = begun(self.one, self.two)
        while (step := future.next_step(NOW)) is not None:
            step()
            if self.chance.random() < 0.5:
                self.work(epoch=1)
        settle(future)
        self.work(epoch=2)
        while not future.catches_up(NOW):
            settle(future)
        old = future.take_place()
        for _ in range(4):
            self.work(epoch=2)
        self.one.retire(ORDERS, old)
        self.one.checkpoint()
        for _ in range(4):
            self.work(epoch=2)

    def check(self, *, has_lost_power):
        one, two = opened(self.disk, segment_bytes=400)
        leftovers.settle([one, two], are_all_here=True)
        (directory,) = [each for each in (one, two) if ORDERS in each.logs]
        assert not one.damaged and not two.damaged
        assert not any("-future" in name for each in (one, two) for name in self.disk.names(each.path))
        log = directory.logs[ORDERS]
        assert log.recovery.damage == []
        found = values_of(log)
        assert found == {offset: self.written[offset] for offset in range(self.start, log.end_offset)}
        assert log.end_offset >= (self.synced if has_lost_power else self.log.end_offset)
        if log.end_offset:
            put(log, b"next", epoch=5, producer=(9, 0, log.end_offset))


@pytest.mark.parametrize("disk_type", [SimDisk, LazyDisk])
@pytest.mark.parametrize("seed", range(3))
def test_whenever_the_power_goes_one_log_is_in_charge_and_has_all_that_was_synced(disk_type, seed):
    operations = 0
    while True:
        disk = disk_type()
        story = Story(disk, random.Random(seed))
        disk.crash_after(operations)
        try:
            story.run()
        except PowerLoss:
            disk.crash(random.Random(seed * 1000 + operations))
            story.check(has_lost_power=True)
        else:
            break
        operations += 1
    assert operations > 100
    disk.crash_after(1 << 30)
    story.check(has_lost_power=False)


@pytest.mark.parametrize("seed", range(2))
def test_whenever_the_process_is_killed_nothing_at_all_is_lost(seed):
    operations = 0
    while True:
        disk = SimDisk()
        story = Story(disk, random.Random(seed))
        disk.crash_after(operations)
        try:
            story.run()
        except PowerLoss:
            disk.kill()
            disk.crash_after(1 << 30)
            story.check(has_lost_power=False)
        else:
            break
        operations += 1
    assert operations > 100


# --- whatever happens to the log --------------------------------------------------------------------------------------

_STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("cut"), st.floats(0, 1)),
    st.tuples(st.just("delete"), st.floats(0, 1)),
    st.tuples(st.just("restart"), st.integers(0, 20)),
    st.tuples(st.just("roll"), st.none()),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("copy"), st.integers(1, 3)),
    st.tuples(st.just("settle"), st.none()),
)


@settings(deadline=None)
@given(st.lists(_STEPS, max_size=40))
def test_a_copy_follows_a_log_through_everything(steps):
    disk = SimDisk()
    one, two, log = filled(disk, count=5, segment_bytes=300)
    future, epoch = begun(one, two), 1
    for what, how in steps:
        if what == "append":
            put(log, *(b"%d" % log.end_offset for _ in range(how)), epoch=epoch)
        elif what == "cut":
            log.truncate_to(log.log_start_offset + round(how * (log.end_offset - log.log_start_offset)))
            epoch += 1
        elif what == "delete":
            log.advance_high_watermark(log.end_offset)
            log.advance_log_start(
                log.log_start_offset + round(how * (log.high_watermark - log.log_start_offset))
            )
            log.delete_old(NOW)
        elif what == "restart":
            log.restart_at(log.end_offset + how)
        elif what == "roll":
            log.roll()
        elif what == "flush":
            log.flush()
        elif what == "copy":
            for _ in range(how):
                if (step := future.next_step(NOW)) is not None:
                    step()
        else:
            settle(future)
    expected, start, end = values_of(log), log.log_start_offset, log.end_offset
    entries = list(log.epochs.entries)
    finish(future)
    assert (values_of(log), log.log_start_offset, log.end_offset) == (expected, start, end)
    assert log.epochs.entries == entries
    disk.kill()
    one, two = opened(disk, segment_bytes=300)
    assert not one.logs and values_of(two.logs[ORDERS]) == expected
    assert two.logs[ORDERS].recovery.damage == []
