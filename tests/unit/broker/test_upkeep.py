"""What the broker does while nobody asks: retention, syncs, checkpoints, removal; and what goes wrong there."""

import asyncio
import errno
import logging
import threading

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.sober_clock import NOTED_EVERY_MS, Noted, read_note
from ottla.broker.upkeep import SEGMENTS_AT_A_TIME, Upkeep
from ottla.core.clock import ManualClock
from ottla.core.ids import TopicPartition
from ottla.storage import checkpoints
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, config, put

ORDERS, VISITS = TopicPartition("orders", 0), TopicPartition("visits", 3)
HOUR, DAY, YEAR = 3_600_000, 86_400_000, 365 * 86_400_000
SETTINGS = {
    "log.flush.scheduler.interval.ms": 2**63 - 1,
    "replica.high.watermark.checkpoint.interval.ms": 5_000,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "log.retention.check.interval.ms": 300_000,
    "log.segment.delete.delay.ms": 60_000,
    "producer.id.expiration.check.interval.ms": 600_000,
}


class Kept:
    """Directories on one simulated disk, and what was reported of them."""

    def __init__(self, *paths: str, **settings: object) -> None:
        self.disk = SimDisk()
        self.clock = ManualClock(NOW)
        self.directories = [
            LogDirectory.open(self.disk, path, lambda topic: config(**settings)) for path in paths or ("d",)
        ]
        self.failed: dict[str, OSError] = {}
        self.upkeep = Upkeep(self, SETTINGS, self.clock, self.disk)

    def directory_failed(self, path: str, error: OSError) -> None:
        self.failed[path] = error
        self.directories = [d for d in self.directories if d.path != path]

    def commit_of(self, log: Log) -> GroupCommit:
        return GroupCommit(log, self.disk)

    def log(self, partition: TopicPartition = ORDERS, count: int = 0, directory: int = 0) -> Log:
        log = self.directories[directory].create(partition)
        for n in range(count):
            put(log, b"%d" % n * 100, at_ms=self.clock.now_ms(), now_ms=self.clock.now_ms())
        log.advance_high_watermark(log.end_offset)
        return log

    def doomed(self) -> list[str]:
        return [name for name in self.disk.names("d/orders-0") if name.endswith(".deleted")]

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        return checkpoints.read_offsets(self.disk, f"d/{name}")


# --- retention ---------------------------------------------------------------------------------------------------


def test_old_segments_go_and_their_files_follow_after_a_while():
    kept = Kept(retention_ms=HOUR)
    log = kept.log(count=30)
    kept.clock.advance(HOUR - 1)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert log.log_start_offset == 0
    kept.clock.advance(2)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert (log.log_start_offset, log.end_offset) == (30, 30)
    assert [name for name in kept.disk.names("d/orders-0") if name.endswith(".log.deleted")]
    kept.clock.advance(60_000)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert not [name for name in kept.disk.names("d/orders-0") if name.endswith(".deleted")]


def test_a_log_that_is_too_large_loses_its_beginning():
    kept = Kept(retention_bytes=2048)
    log = kept.log(count=30)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert 0 < log.log_start_offset < 30
    assert log.segments.size < 2048 + 1024


def test_requests_are_served_between_two_logs_that_lose_something():
    kept = Kept(retention_bytes=2048)
    logs = [kept.log(TopicPartition("orders", n), count=30) for n in range(5)]
    seen = set()

    async def main():
        deleting = asyncio.ensure_future(kept.upkeep.delete_old_segments())
        while not deleting.done():
            await asyncio.sleep(0)
            seen.add(sum(log.log_start_offset > 0 for log in logs))

    asyncio.run(main())
    assert seen >= {1, 2, 3, 4, 5}


def test_a_producer_of_old_records_does_not_keep_retention_busy_with_its_log():
    """Every batch of a backfill is too old as it comes: each in a segment of its own would be thousands of files."""
    kept = Kept(retention_ms=HOUR)
    log, other = kept.log(count=1), kept.log(VISITS, count=30)
    kept.clock.advance(DAY)

    async def main():
        deleting = asyncio.ensure_future(kept.upkeep.delete_old_segments())
        for _ in range(100):
            await asyncio.sleep(0)
            put(log, b"old", at_ms=NOW, now_ms=kept.clock.now_ms())
            log.advance_high_watermark(log.end_offset)
        assert deleting.done()

    asyncio.run(main())
    assert len(log.doomed) < 5
    assert other.log_start_offset == 30


def a_damaged_log(kept: Kept, number: int, high_watermark: int) -> tuple[Log, str]:
    """One of whose segments nobody can tell how old it is; and the path of that."""
    before = kept.log(count=30)
    path = before.segments[number].path
    before.close()
    damaged = kept.disk.open(path)
    damaged.write_at(20, b"\xff" * (damaged.size() - 20))
    kept.disk.remove(path.replace(".log", ".timeindex"))
    settings = config(retention_ms=HOUR)
    log = Log.open(
        kept.disk, "d/orders-0", settings, recovery_point=30, high_watermark=high_watermark, clean=True
    )
    kept.directories[0].logs[ORDERS] = log
    return log, path


def test_what_is_not_replicated_yet_may_be_damaged_too(caplog):
    kept = Kept(retention_ms=HOUR)
    _, path = a_damaged_log(kept, 0, high_watermark=0)
    other = kept.log(VISITS, count=30)
    kept.clock.advance(2 * HOUR)
    asyncio.run(kept.upkeep.run_once())
    assert other.log_start_offset == 30
    assert f"{path}: no batch starts here at byte 0" in caplog.text and "a failure of ours" not in caplog.text


@pytest.mark.parametrize("number", [0, 2])
def test_a_damaged_segment_is_reported_and_stays_while_its_log_serves_on_and_others_lose_theirs(
    caplog, number
):
    kept = Kept(retention_ms=HOUR)
    log, path = a_damaged_log(kept, number, high_watermark=30)
    base = log.segments[number].base_offset
    other = kept.log(VISITS, count=30)
    kept.clock.advance(2 * HOUR)
    for _ in range(2):
        asyncio.run(kept.upkeep.run_once())
    assert other.log_start_offset == 30
    assert f"{path}: no batch starts here at byte 0" in caplog.text
    assert "a failure of ours" not in caplog.text and not kept.failed
    put(log, b"new", now_ms=kept.clock.now_ms())
    assert (log.log_start_offset, log.end_offset) == (base, 31), "what came before it is gone"
    log.config.update({"retention.bytes": 2048})
    asyncio.run(kept.upkeep.run_once())
    assert log.log_start_offset > base, "by its size it can be judged"


@pytest.mark.parametrize("jump", [HOUR, YEAR, 50 * YEAR])
def test_a_clock_that_is_set_ahead_deletes_nothing_for_a_day(jump, caplog):
    kept = Kept(retention_ms=HOUR)
    log = kept.log(count=30)
    kept.clock.step_wall(jump)
    asyncio.run(kept.upkeep.delete_old_segments())
    kept.clock.advance(HOUR // 2)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert log.log_start_offset == 0
    assert caplog.text.count("the clock jumped ahead") == 1


def test_a_clock_that_goes_back_does_not_keep_files_of_deleted_segments():
    kept = Kept(retention_bytes=2048)
    kept.log(count=30)
    asyncio.run(kept.upkeep.delete_old_segments())
    kept.clock.step_wall(-YEAR)
    kept.clock.advance(60_000)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert kept.doomed() == []


def test_a_jump_that_is_believed_does_not_take_files_from_their_readers():
    kept = Kept(retention_ms=YEAR, retention_bytes=2048)
    log = kept.log(count=30)
    kept.clock.step_wall(2 * YEAR)
    asyncio.run(kept.upkeep.delete_old_segments())
    kept.clock.advance(DAY)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert (log.log_start_offset, len(kept.doomed()) > 0) == (30, True)


def a_log_of_many_old_segments() -> tuple[Kept, Log]:
    """One record in each."""
    kept = Kept(retention_ms=HOUR, segment_bytes=100)
    log = kept.log()
    for _ in range(3 * SEGMENTS_AT_A_TIME):
        put(log, b"v" * 20)
    log.advance_high_watermark(log.end_offset)
    kept.clock.advance(2 * HOUR)
    return kept, log


def test_thousands_of_segments_go_a_few_at_a_time():
    kept, log = a_log_of_many_old_segments()
    starts = set()

    async def main():
        deleting = asyncio.ensure_future(kept.upkeep.delete_old_segments())
        while not deleting.done():
            await asyncio.sleep(0)
            starts.add(log.log_start_offset)

    asyncio.run(main())
    assert starts >= {n * SEGMENTS_AT_A_TIME for n in (1, 2, 3)}
    assert (log.log_start_offset, len(log.segments)) == (log.end_offset, 1)


def test_a_log_that_is_deleted_between_two_helpings_is_left_alone():
    kept, log = a_log_of_many_old_segments()

    async def main():
        deleting = asyncio.ensure_future(kept.upkeep.delete_old_segments())
        while not log.log_start_offset:
            await asyncio.sleep(0)
        kept.directories[0].delete(ORDERS)
        await deleting

    asyncio.run(main())
    assert (log.log_start_offset, kept.failed) == (SEGMENTS_AT_A_TIME, {})


def test_records_from_the_future_are_kept_and_mentioned_once(caplog):
    kept = Kept(retention_ms=HOUR, message_timestamp_after_max_ms=YEAR)
    log = kept.log()
    for n in range(30):
        put(log, b"%d" % n * 100, at_ms=NOW + 30 * DAY if n == 2 else NOW)
    log.advance_high_watermark(30)
    kept.clock.advance(8 * HOUR)
    for _ in range(3):
        asyncio.run(kept.upkeep.delete_old_segments())
    assert log.log_start_offset == 2, "it started a segment of its own"
    assert caplog.text.count("d/orders-0 holds records from 29 days ahead") == 1
    kept.clock.advance(31 * DAY)
    asyncio.run(kept.upkeep.delete_old_segments())
    assert log.log_start_offset == 30


def test_only_the_topics_that_are_named_are_looked_at():
    kept = Kept(retention_bytes=2048)
    orders, visits = kept.log(count=30), kept.log(VISITS, count=30)
    asyncio.run(kept.upkeep.delete_old_segments({"visits"}))
    assert (orders.log_start_offset, visits.log_start_offset > 0) == (0, True)


def test_topics_that_cannot_wait_are_looked_at_at_once_and_files_go_when_their_delay_has_passed():
    kept = Kept()
    kept.upkeep = Upkeep(kept, dict.fromkeys(SETTINGS, 2**63 - 1), kept.clock, kept.disk)
    log, other = kept.log(count=30), kept.log(VISITS, count=30)

    async def scenario() -> None:
        kept.upkeep.start()
        log.advance_log_start(25)
        kept.upkeep.look_at(["orders"])
        await until(lambda: log.segments[0].base_offset > 0)
        assert kept.doomed()
        kept.clock.advance(60_000)
        kept.upkeep.look_at([])
        await until(lambda: not kept.doomed())
        await kept.upkeep.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
    assert (log.log_start_offset, other.segments[0].base_offset) == (25, 0)


def test_what_was_set_before_the_start_is_no_reason_to_hurry():
    kept = Kept(retention_bytes=2048)
    kept.upkeep = Upkeep(kept, dict.fromkeys(SETTINGS, 2**63 - 1), kept.clock, kept.disk)
    log = kept.log(count=30)

    async def scenario() -> None:
        kept.upkeep.look_at(["orders"])
        kept.upkeep.start()
        for _ in range(20):
            await asyncio.sleep(0)
        assert log.log_start_offset == 0
        await kept.upkeep.stop()

    asyncio.run(scenario())


def test_a_failure_of_ours_while_files_are_due_does_not_turn_into_a_busy_loop(caplog):
    kept = Kept(retention_bytes=2048)
    kept.upkeep = Upkeep(kept, dict.fromkeys(SETTINGS, 2**63 - 1), kept.clock, kept.disk)
    log = kept.log(count=30)

    async def scenario() -> None:
        kept.upkeep.start()
        await kept.upkeep.delete_old_segments()
        log.take_doomed = None  # a bug of ours
        kept.clock.advance(60_000)
        kept.upkeep.look_at([])
        await until(lambda: "a failure of ours" in caplog.text)
        for _ in range(50):
            await asyncio.sleep(0.001)
        await kept.upkeep.stop()

    asyncio.run(scenario())
    assert caplog.text.count("a failure of ours") == 1


# --- the time ----------------------------------------------------------------------------------------------------


def test_the_time_is_noted_now_and_then_and_at_the_end():
    kept = Kept()
    asyncio.run(kept.upkeep.note_clock())
    assert read_note(kept.disk, ["d"]) == Noted(NOW, NOW)
    kept.clock.advance(NOTED_EVERY_MS - 1)
    asyncio.run(kept.upkeep.note_clock())
    assert read_note(kept.disk, ["d"]) == Noted(NOW, NOW)
    kept.clock.advance(1)
    asyncio.run(kept.upkeep.note_clock())
    assert read_note(kept.disk, ["d"]).wall_ms == NOW + NOTED_EVERY_MS
    kept.clock.advance(1000)
    asyncio.run(kept.upkeep.stop())
    assert read_note(kept.disk, ["d"]).wall_ms == NOW + NOTED_EVERY_MS + 1000


def test_a_disk_that_does_not_take_the_time_has_failed_and_a_full_one_has_not(caplog):
    kept = Kept("d", "e")
    kept.disk.capacity = kept.disk.used
    asyncio.run(kept.upkeep.note_clock())
    assert (kept.failed, caplog.text.count("is full")) == ({}, 1)
    kept.disk.capacity = None
    kept.disk.fail_next("write")
    asyncio.run(kept.upkeep.note_clock())
    assert list(kept.failed) == ["d"]
    asyncio.run(kept.upkeep.note_clock())
    assert read_note(kept.disk, ["e"]) == Noted(NOW, NOW)


# --- producers ---------------------------------------------------------------------------------------------------


def test_silent_producers_are_forgotten_but_not_because_the_clock_was_set():
    kept = Kept(producer_id_expiration_ms=HOUR)
    log = kept.log()
    put(log, b"v", producer=(7, 0, 0))
    kept.clock.step_wall(YEAR)
    asyncio.run(kept.upkeep.expire_producers())
    assert log.producers.get(7) is not None
    kept.clock.advance(HOUR)
    asyncio.run(kept.upkeep.expire_producers())
    assert log.producers.get(7) is None


# --- lasting -----------------------------------------------------------------------------------------------------


def test_closed_segments_are_synced_and_open_ones_left_to_their_policy():
    kept = Kept()
    rolled, small = kept.log(count=30), kept.log(VISITS, count=2)
    asyncio.run(kept.upkeep.flush_due_logs())
    assert (rolled.recovery_point, small.recovery_point) == (30, 0)


def test_a_record_that_waited_for_flush_ms_is_synced():
    kept = Kept(flush_ms=500)
    log = kept.log(count=2)
    asyncio.run(kept.upkeep.flush_due_logs())
    assert log.recovery_point == 0
    kept.clock.advance(500)
    asyncio.run(kept.upkeep.flush_due_logs())
    assert log.recovery_point == 2


def test_high_watermarks_and_recovery_points_are_noted():
    kept = Kept()
    log = kept.log(count=5)
    log.advance_log_start(3)
    asyncio.run(kept.upkeep.note_high_watermarks())
    assert kept.offsets(checkpoints.HIGH_WATERMARK) == {ORDERS: 5}
    log.flush()
    asyncio.run(kept.upkeep.note_recovery_points())
    assert kept.offsets(checkpoints.RECOVERY_POINT) == {ORDERS: 5}
    asyncio.run(kept.upkeep.note_log_starts())
    assert kept.offsets(checkpoints.LOG_START) == {ORDERS: 3}


def test_nothing_is_written_while_nothing_moves():
    kept = Kept()
    for number in range(20):
        kept.log(TopicPartition("orders", number), count=3)
    asyncio.run(kept.upkeep.run_once())
    before = kept.disk.operations
    asyncio.run(kept.upkeep.run_once())
    assert kept.disk.operations == before


def test_deleted_partitions_stay_for_the_delay_and_then_go():
    kept = Kept()
    kept.log(count=3)
    kept.directories[0].delete(ORDERS)
    for wait, left in ((0, 1), (59_999, 1), (1, 0)):
        kept.clock.advance(wait)
        asyncio.run(kept.upkeep.remove_deleted_partitions())
        assert len(kept.directories[0].deleted()) == left


# --- failing -----------------------------------------------------------------------------------------------------


def test_a_sync_that_fails_takes_its_directory_out_of_service_and_no_other():
    kept = Kept("d", "e")
    kept.log(count=30)
    other = kept.log(VISITS, count=30, directory=1)
    kept.disk.fail_next("sync")
    asyncio.run(kept.upkeep.flush_due_logs())
    assert list(kept.failed) == ["d"]
    assert other.recovery_point == 30


def test_a_checkpoint_that_cannot_be_written_is_reported():
    kept = Kept()
    kept.log(count=3)
    kept.disk.fail_next("write")
    asyncio.run(kept.upkeep.note_high_watermarks())
    assert kept.failed["d"].errno == errno.EIO


def test_a_full_disk_stays_in_service_is_mentioned_once_and_catches_up_later(caplog):
    kept = Kept()
    kept.log(count=3)
    kept.disk.capacity = kept.disk.used
    asyncio.run(kept.upkeep.note_high_watermarks())
    asyncio.run(kept.upkeep.note_high_watermarks())
    assert (kept.failed, caplog.text.count("is full")) == ({}, 1)
    kept.disk.capacity = None
    asyncio.run(kept.upkeep.note_high_watermarks())
    assert kept.offsets(checkpoints.HIGH_WATERMARK) == {ORDERS: 3}


def test_retention_that_fails_is_reported():
    kept = Kept(retention_ms=HOUR)
    kept.log(count=30)
    kept.clock.advance(2 * HOUR)
    kept.disk.fail_next("rename")
    asyncio.run(kept.upkeep.delete_old_segments())
    assert list(kept.failed) == ["d"]


def test_a_partition_that_is_deleted_while_it_is_synced_is_no_failure(caplog):
    kept = Kept()
    log = kept.log(count=30)
    in_sync, go_on = threading.Event(), threading.Event()
    begin = log.begin_flush

    class Held:
        """A sync that waits until its log is gone, and then misses it."""

        def run(self, files: object) -> None:
            in_sync.set()
            go_on.wait(10)
            raise FileNotFoundError(errno.ENOENT, "gone")

    log.begin_flush = lambda: begin() and Held()

    async def scenario() -> None:
        flushing = asyncio.create_task(kept.upkeep.flush_due_logs())
        await asyncio.to_thread(in_sync.wait, 10)
        kept.directories[0].delete(ORDERS)
        go_on.set()
        await flushing

    asyncio.run(scenario())
    assert kept.failed == {}


def test_one_duty_that_crashes_does_not_stop_the_others(caplog):
    kept = Kept()
    log = kept.log(count=30)
    log.producers.expire = None  # a bug of ours
    log.delete_old = None
    asyncio.run(kept.upkeep.run_once())
    assert caplog.text.count("a failure of ours") == 2
    assert kept.offsets(checkpoints.HIGH_WATERMARK) == {ORDERS: 30}


# --- running -----------------------------------------------------------------------------------------------------


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_duties_come_round_by_themselves_until_they_are_stopped(caplog):
    caplog.set_level(logging.DEBUG, "asyncio")
    kept = Kept()
    kept.upkeep = Upkeep(kept, dict.fromkeys(SETTINGS, 1), kept.clock, kept.disk)

    async def scenario() -> None:
        kept.upkeep.start()
        log = kept.log(count=30)
        await until(lambda: log.recovery_point == 30)
        await until(lambda: kept.offsets(checkpoints.HIGH_WATERMARK) == {ORDERS: 30})
        put(log, b"v")
        log.advance_high_watermark(31)
        await until(lambda: kept.offsets(checkpoints.HIGH_WATERMARK) == {ORDERS: 31})
        await kept.upkeep.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_the_settings_of_a_broker_say_how_often():
    kept = Kept()
    upkeep = Upkeep(kept, BrokerConfig(), kept.clock, kept.disk)
    intervals = {duty.name: duty.interval_ms() for duty in upkeep.duties}
    assert intervals["delete old segments"] == 300_000
    assert intervals["flush due logs"] == 1_000
    assert min(intervals.values()) >= 1_000


def test_who_wants_deleted_files_gone_at_once_does_not_get_a_busy_loop():
    settings = {**SETTINGS, "log.segment.delete.delay.ms": 0, "log.flush.offset.checkpoint.interval.ms": 0}
    duties = Upkeep(Kept(), settings, ManualClock(NOW), SimDisk()).duties
    assert all(duty.interval_ms() >= 1000 for duty in duties)


def test_killing_leaves_no_task_behind():
    kept = Kept()

    async def scenario() -> None:
        kept.upkeep.start()
        kept.upkeep.kill()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(scenario())


def test_settings_without_end_are_waited_for_in_days():
    kept = Kept()
    kept.upkeep = Upkeep(kept, dict.fromkeys(SETTINGS, 2**63 - 1), kept.clock, kept.disk)

    async def scenario() -> None:
        kept.upkeep.start()
        await asyncio.sleep(0)
        await kept.upkeep.stop()

    asyncio.run(scenario())
