"""Group commit: many waiters, few syncs; failures reach everybody, cancellations nobody else."""

import asyncio
import threading

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk, SimFile
from tests.unit.storage.helpers import NOW, config, crash, open_log, put, values_of


class CountingDisk(SimDisk):
    """Counts syncs, and can hold them back until the test opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()

    def step(self, operation: str) -> None:
        if operation == "sync" and threading.current_thread() is not threading.main_thread():
            self.waiting.set()
            assert self.gate.wait(20)
        self.syncs += operation == "sync"
        super().step(operation)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def log(disk) -> Log:
    log = open_log(disk, config(segment_bytes=1 << 20, segment_index_bytes=4096))
    put(log, b"first")
    log.flush()
    return log


def test_what_is_on_the_disk_already_needs_no_sync(disk, log):
    before = disk.syncs
    asyncio.run(GroupCommit(log, disk).reach(1))
    assert disk.syncs == before


def test_reaching_an_offset_makes_it_last(disk, log):
    put(log, b"second")
    asyncio.run(GroupCommit(log, disk).reach(2))
    assert log.recovery_point == 2
    crash(disk)
    assert values_of(open_log(disk, recovery_point=2)) == {0: b"first", 1: b"second"}


def test_all_that_wait_while_one_sync_runs_share_the_next(disk, log):
    commit = GroupCommit(log, disk)

    async def scenario() -> int:
        disk.gate.clear()
        put(log, b"a")
        waiters = [asyncio.create_task(commit.reach(log.end_offset))]
        await asyncio.to_thread(disk.waiting.wait, 20)
        for _ in range(50):
            put(log, b"more")
            waiters.append(asyncio.create_task(commit.reach(log.end_offset)))
        await asyncio.sleep(0)
        before = disk.syncs
        disk.gate.set()
        await asyncio.gather(*waiters)
        return disk.syncs - before

    assert asyncio.run(scenario()) == 2 * 3, "two rounds of three files: log, index, time index"
    assert log.recovery_point == log.end_offset == 52


def test_a_waiter_that_gives_up_does_not_take_the_sync_from_the_others(disk, log):
    commit = GroupCommit(log, disk)

    async def scenario() -> None:
        disk.gate.clear()
        put(log, b"a")
        first = asyncio.create_task(commit.reach(2))
        second = asyncio.create_task(commit.reach(2))
        await asyncio.to_thread(disk.waiting.wait, 20)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert first.cancelled()
        assert not second.done()
        disk.gate.set()
        await second

    asyncio.run(scenario())
    assert log.recovery_point == 2


def test_a_failed_sync_reaches_all_waiters_and_is_never_tried_again(disk, log):
    commit = GroupCommit(log, disk)

    async def scenario() -> list[BaseException | None]:
        put(log, b"a")
        disk.fail_next("sync")
        found = await asyncio.gather(*(commit.reach(2) for _ in range(5)), return_exceptions=True)
        before = disk.syncs
        found += await asyncio.gather(commit.reach(2), return_exceptions=True)
        assert disk.syncs == before
        return found

    found = asyncio.run(scenario())
    assert [type(error) for error in found] == [KafkaError] * 6
    assert {error.code for error in found} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert log.recovery_point == 1
    assert log.failure is not None


def test_an_index_that_the_disk_has_no_room_for_is_an_error_that_passes(disk, log):
    commit = GroupCommit(log, disk)
    for _ in range(3):
        put(log, b"a")
    disk.capacity = disk.used
    with pytest.raises(KafkaError) as caught:
        asyncio.run(commit.reach(4))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity = None
    asyncio.run(commit.reach(4))
    assert log.recovery_point == 4


def test_waiting_for_records_that_are_truncated_ends_in_an_error(disk, log):
    commit = GroupCommit(log, disk)

    async def scenario() -> None:
        disk.gate.clear()
        put(log, b"a")
        waiter = asyncio.create_task(commit.reach(2))
        await asyncio.to_thread(disk.waiting.wait, 20)
        log.truncate_to(1)
        disk.gate.set()
        with pytest.raises(KafkaError) as caught:
            await waiter
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())
    assert log.recovery_point == 1
    assert log.failure is None


def test_records_written_after_a_truncation_wait_for_a_sync_of_their_own(disk, log):
    """The sync that was under way covered other bytes."""
    commit = GroupCommit(log, disk)

    async def scenario() -> None:
        disk.gate.clear()
        put(log, b"to be cut")
        first = asyncio.create_task(commit.reach(2))
        await asyncio.to_thread(disk.waiting.wait, 20)
        log.truncate_to(1)
        put(log, b"instead")
        disk.gate.set()
        await first

    asyncio.run(scenario())
    crash(disk)
    assert values_of(open_log(disk, recovery_point=log.recovery_point)) == {0: b"first", 1: b"instead"}


def test_a_segment_that_is_removed_during_a_sync_does_not_fail_the_log(disk):
    log = open_log(disk, config(segment_bytes=200))
    commit = GroupCommit(log, disk)

    async def scenario() -> None:
        for _ in range(10):
            put(log, b"x" * 50)
        disk.gate.clear()
        waiter = asyncio.create_task(commit.reach(10))
        await asyncio.to_thread(disk.waiting.wait, 20)
        log.restart_at(0)
        disk.gate.set()
        with pytest.raises(KafkaError) as caught:
            await waiter
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())
    assert log.failure is None
    put(log, b"goes on")


def test_a_second_flush_does_not_rely_on_names_that_the_first_has_yet_to_sync(disk):
    log = open_log(disk)
    put(log, b"a")
    unfinished = log.begin_flush()
    log.flush()
    assert log.recovery_point == 1
    assert unfinished.directory is not None
    for seed in range(20):
        crash(disk, seed)
        assert values_of(open_log(disk, recovery_point=1)) == {0: b"a"}


def test_bytes_are_synced_before_names(disk, log, monkeypatch):
    order: list[str] = []
    sync = SimFile.sync
    monkeypatch.setattr(SimFile, "sync", lambda file: (order.append(file.path[-10:]), sync(file))[1])
    monkeypatch.setattr(disk, "sync_directory", lambda path: order.append("directory"))
    put(log, b"a")
    log.roll()
    log.flush()
    assert order[-1] == "directory"
    assert any(path.endswith(".snapshot"[-10:]) for path in order)


def test_the_flush_policy_says_when_an_acknowledgement_waits_for_the_disk(disk):
    log = open_log(
        disk, config(segment_bytes=1 << 20, segment_index_bytes=4096, flush_messages=3, flush_ms=500)
    )
    commit = GroupCommit(log, disk)

    def recovery_point_after(now_ms: int) -> int:
        put(log, b"v")
        asyncio.run(commit.settle(log.end_offset, now_ms))
        return log.recovery_point

    assert [recovery_point_after(NOW) for _ in range(6)] == [0, 0, 3, 3, 3, 6], "every third record"
    assert [recovery_point_after(NOW + wait) for wait in (0, 500)] == [6, 8], "or after half a second"


def test_one_record_per_flush_is_a_sync_before_every_acknowledgement(disk):
    log = open_log(disk, config(segment_bytes=1 << 20, segment_index_bytes=4096, flush_messages=1))
    commit = GroupCommit(log, disk)
    for end_offset in range(1, 6):
        put(log, b"v")
        asyncio.run(commit.settle(end_offset, NOW))
        assert log.recovery_point == end_offset


def test_a_record_whose_sync_is_under_way_is_not_acknowledged_before_it_ends(disk):
    """Its flush began before anyone asked for it: that must not pass for a flush that is not due."""
    log = open_log(disk, config(segment_bytes=1 << 20, segment_index_bytes=4096, flush_messages=1))
    commit = GroupCommit(log, disk)

    async def scenario() -> bool:
        disk.gate.clear()
        put(log, b"a")
        put(log, b"b")
        first = asyncio.create_task(commit.settle(1, NOW))
        await asyncio.to_thread(disk.waiting.wait, 20)
        second = asyncio.create_task(commit.settle(2, NOW))
        for _ in range(5):
            await asyncio.sleep(0)
        early = second.done()
        disk.gate.set()
        await asyncio.gather(first, second)
        return early

    assert not asyncio.run(scenario())
    assert log.recovery_point == 2


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_comes_when_no_sync_is_under_way_and_none_begins_after_it(disk, log, fails):
    commit = GroupCommit(log, disk)

    async def scenario() -> list[bool]:
        disk.gate.clear()
        put(log, b"a")
        waiters = [asyncio.create_task(commit.reach(2))]
        await asyncio.to_thread(disk.waiting.wait, 20)
        put(log, b"b")
        waiters.append(asyncio.create_task(commit.reach(3)))
        if fails:
            disk.fail_next("sync")
        ending = asyncio.create_task(commit.end())
        await asyncio.sleep(0)
        early = ending.done()
        disk.gate.set()
        await ending
        told = await asyncio.gather(*waiters, return_exceptions=True)
        return [early, *(isinstance(each, KafkaError) for each in told)]

    assert asyncio.run(scenario()) == [False, fails, True]
    assert (log.recovery_point, log.failure is not None) == (1 if fails else 2, fails)
    asyncio.run(commit.end())


def test_while_syncs_are_paused_those_who_want_one_wait(disk, log):
    async def scenario():
        commit = GroupCommit(log, disk)
        await commit.pause()
        put(log, b"second")
        before, waiting = disk.syncs, asyncio.create_task(commit.reach(2))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done() and disk.syncs == before
        commit.resume()
        await waiting
        assert log.recovery_point == 2

    asyncio.run(scenario())


def test_a_pause_begins_when_the_sync_that_runs_has_ended(disk, log):
    async def scenario():
        commit = GroupCommit(log, disk)
        put(log, b"second")
        disk.gate.clear()
        waiting = asyncio.create_task(commit.reach(2))
        await asyncio.to_thread(disk.waiting.wait, 20)
        pausing = asyncio.create_task(commit.pause())
        await asyncio.sleep(0)
        assert not pausing.done()
        disk.gate.set()
        await pausing
        assert log.recovery_point == 2
        await waiting
        commit.resume()

    asyncio.run(scenario())


def test_who_waits_for_a_pause_to_end_is_told_when_the_log_goes(disk, log):
    async def scenario():
        commit = GroupCommit(log, disk)
        await commit.pause()
        put(log, b"second")
        waiting = asyncio.create_task(commit.reach(2))
        await asyncio.sleep(0)
        await commit.end()
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())
