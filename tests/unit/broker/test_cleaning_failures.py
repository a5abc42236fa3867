"""Compaction that cannot go on: workers die, disks fill up, segments are damaged, topics go, brokers stop."""

import asyncio
import errno
import logging
import os
import signal
import sys

import pytest

from ottla.broker import cleaning_state
from ottla.core.ids import TopicPartition
from ottla.storage.replacement import Replacement
from tests.unit.broker.compacting import ORDERS, SLOW, Topic, compacting, is_alive, until
from tests.unit.broker.handlers.coordinating import scenario

FAST = "1e12"


def complaints(caplog):
    ours = [record for record in caplog.records if record.name.startswith("ottla.")]
    return [record.getMessage() for record in ours if record.levelno >= logging.WARNING]


async def uncleanable(topic):
    topic.cleaning.request(ORDERS)
    await until(lambda: topic.status.state == "uncleanable")
    return topic.status.last_error


# --- failures -----------------------------------------------------------------------------------------------------


@scenario
async def test_a_worker_that_is_killed_costs_one_message_and_the_log_is_cleaned_by_another(caplog):
    async with compacting(config={SLOW: 1}) as topic:
        topic.fill()
        before = topic.count
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: topic.status.state == "uncleanable")
        assert topic.status.last_error == "its worker process was killed by signal 9"
        assert (topic.count, topic.leftovers()) == (before, [])
        assert complaints(caplog) == [
            "orders-0 cannot be compacted: its worker process was killed by signal 9; it stays as it is, and is "
            "tried again later"
        ]
        topic.node.config.update({SLOW: FAST})
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        assert (topic.status.state, topic.status.last_error) == ("idle", None)
        assert topic.find() == topic.newest


@scenario
async def test_it_is_tried_again_by_itself_after_a_pause_that_grows(monkeypatch, caplog):
    monkeypatch.setattr(cleaning_state, "RETRY_MS_MIN", 1)
    async with compacting(config={SLOW: 1, "log.cleaner.backoff.ms": 5}) as topic:
        topic.fill()
        killed = []
        while len(killed) < 3:
            worker = await topic.busy()
            if worker.pid not in killed:
                killed.append(worker.pid)
                os.kill(worker.pid, signal.SIGKILL)
            await asyncio.sleep(0.001)
        topic.node.config.update({SLOW: FAST})
        await topic.cleaned()
        assert len(complaints(caplog)) == 1
        failures = topic.node.metrics.cleaner_failures.labels().value
        assert failures == 3


def test_the_pause_grows_and_ends_when_something_changes():
    state = cleaning_state.LogState(log=None)
    pauses = []
    for _ in range(12):
        state.failed("damaged", is_full=False, circumstances=(1,), now_ms=0)
        pauses.append(state.failure.again_ms)
    assert pauses[:3] == [15_000, 30_000, 60_000]
    assert pauses[-1] == 3_600_000
    assert not state.may_try((1,), 3_599_999)
    assert state.may_try((1,), 3_600_000)
    assert state.may_try((2,), 0)


@scenario
async def test_a_segment_whose_keys_do_not_fit_is_named_and_more_memory_helps_at_once(caplog):
    config = {"log.cleaner.dedupe.buffer.size": (1 << 20) + 1}
    async with compacting(config=config, segment_bytes=1 << 30) as topic:
        topic.fill(rounds=1, keys=40_000, size=1)
        error = await uncleanable(topic)
        assert "holds 40000 records" in error
        assert "raise log.cleaner.dedupe.buffer.size" in error
        await topic.cleaning.look()
        assert len(complaints(caplog)) == 1
        shown = topic.node.registry.expose()
        assert "ottla_cleaner_uncleanable_partitions 1\n" in shown
        topic.node.config.update({"log.cleaner.dedupe.buffer.size": str(8 << 20)})
        await topic.cleaned()
        assert "ottla_cleaner_uncleanable_partitions 0\n" in topic.node.registry.expose()


@scenario
async def test_a_damaged_segment_is_not_made_to_look_sound(tmp_path, caplog):
    async with compacting(tmp_path) as topic:
        topic.fill()
        sizes = [segment.size for segment in topic.log.segments]
        path = tmp_path / "orders-0" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(data)
        error = await uncleanable(topic)
        assert "fails its checksum at byte 0" in error
        assert [segment.size for segment in topic.log.segments][: len(sizes)] == sizes
        assert (topic.leftovers(), len(complaints(caplog))) == ([], 1)
        assert path.read_bytes() == data


@scenario
async def test_a_full_disk_stops_the_cleaning_of_a_log_and_nothing_else(caplog):
    async with compacting(memory=True, segment_bytes=1 << 20) as topic:
        topic.fill()
        before = topic.count
        topic.broker.disk.capacity = topic.broker.disk.used + 300
        error = await uncleanable(topic)
        assert os.strerror(errno.ENOSPC) in error
        assert (topic.count, topic.leftovers()) == (before, [])
        topic.fill(rounds=1, keys=1, size=10)
        for _ in range(3):
            topic.cleaning.request(ORDERS)
            await until(lambda: topic.status.state == "uncleanable")
        assert [line for line in complaints(caplog) if "cannot be compacted" in line] == [
            f"orders-0 cannot be compacted: {error}; it stays as it is, and is tried again later"
        ]
        assert topic.node.replicas.offline == {}
        topic.broker.disk.capacity = None
        topic.cleaning.request(ORDERS)
        await topic.cleaned()
        assert topic.find() == topic.newest


@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
@scenario
async def test_a_disk_that_fails_while_a_log_is_cleaned_goes_offline(caplog, operation):
    async with compacting(memory=True) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        topic.broker.disk.fail_next(operation, errno.EIO)
        await until(lambda: topic.node.replicas.offline)
        await until(lambda: not topic.cleaning.workers)
        assert "orders-0" not in "".join(line for line in complaints(caplog) if "cannot be compacted" in line)


@scenario
async def test_what_a_worker_says_on_its_standard_error_is_in_the_log(caplog, monkeypatch):
    monkeypatch.setattr("ottla.broker.cleaning_worker.MODULE", "ottla.no_such_module")
    async with compacting() as topic:
        topic.fill()
        assert await uncleanable(topic) == "its worker process ended with exit code 1"
        assert any("No module named ottla.no_such_module" in line for line in complaints(caplog))


@scenario
async def test_a_machine_that_gives_no_process_keeps_its_disk(monkeypatch):
    async with compacting() as topic:
        topic.fill()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/no/such/python")
            assert "no worker process can be started" in await uncleanable(topic)
        assert topic.node.replicas.offline == {}
        topic.cleaning.request(ORDERS)
        await topic.cleaned()


@scenario
async def test_a_log_that_never_stays_as_it_is_gets_a_rest(monkeypatch, caplog):
    monkeypatch.setattr(Replacement, "commit", lambda self, monotonic_ms: False)
    async with compacting(memory=True) as topic:
        topic.fill()
        assert await uncleanable(topic) == "its segments change while it is being compacted"
        assert (topic.find(), topic.leftovers(), len(complaints(caplog))) == (topic.newest, [], 1)


@scenario
async def test_a_log_that_cannot_even_be_looked_at_keeps_no_other_from_being_compacted(tmp_path, caplog):
    async with compacting(tmp_path, max_compaction_lag_ms=1) as topic:
        topic.fill()
        await topic.broker.create_topic("visits", cleanup_policy="compact", segment_bytes=4096)
        await topic.broker.stop()
        path = tmp_path / "orders-0" / "00000000000000000000.log"
        path.write_bytes(b"?" * 100 + path.read_bytes()[100:])
        await topic.broker.start()
        visits = Topic(topic.broker, TopicPartition("visits", 0)).fill()
        for _ in range(2):
            await topic.cleaning.look()
        await visits.cleaned()
        assert visits.find() == visits.newest
        assert topic.status.state == "uncleanable"
        assert "no batch starts here at byte 0" in topic.status.last_error
        assert len([line for line in complaints(caplog) if "orders-0 cannot be compacted" in line]) == 1
        assert not [line for line in complaints(caplog) if "ours" in line]


# --- what was cleaned goes away -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [False, True], ids=["process", "thread"])
@scenario
async def test_a_topic_can_be_deleted_while_it_is_cleaned_and_made_anew(caplog, memory):
    async with compacting(memory=memory, config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        await topic.busy()
        await topic.node.controller.delete_topics(["orders"])
        assert topic.cleaning.workers == []
        await topic.broker.create_topic("orders", cleanup_policy="compact", segment_bytes=4096)
        again = Topic(topic.broker, ORDERS).fill()
        assert (again.status.runs, again.checkpoint) == (0, None)
        topic.node.config.update({SLOW: FAST})
        topic.cleaning.request(ORDERS)
        await again.cleaned()
        assert again.find() == again.newest
        assert complaints(caplog) == []


@scenario
async def test_a_directory_that_fails_takes_its_cleaning_along(tmp_path, caplog):
    async with compacting(tmp_path, config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        topic.node.replicas.directory_failed(str(tmp_path), OSError(errno.EIO, "gone"))
        await until(lambda: not is_alive(worker.pid) and not topic.cleaning.workers)
        assert not [line for line in complaints(caplog) if "compact" in line or "clean" in line]


@scenario
async def test_segments_that_retention_deletes_meanwhile_are_no_reason_to_complain(caplog):
    async with compacting(config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        await topic.busy()
        topic.log.advance_log_start(topic.log.segments[2].base_offset)
        topic.log.delete_old(topic.node.clock.now_ms())
        topic.node.config.update({SLOW: FAST})
        await topic.cleaned()
        assert topic.find() == topic.newest
        assert [line for line in complaints(caplog) if "cannot" in line] == []


@scenario
async def test_a_topic_that_is_not_to_be_compacted_any_more_keeps_what_was_about_to_go(caplog):
    async with compacting(config={SLOW: 1}) as topic:
        topic.fill()
        before = topic.count
        topic.cleaning.request(ORDERS)
        await topic.busy()
        topic.log.config.update({"cleanup.policy": "delete"})
        topic.node.config.update({SLOW: FAST})
        await until(lambda: topic.status.state == "idle")
        assert (topic.count, topic.leftovers(), topic.status.runs) == (before, [], 0)
        assert complaints(caplog) == []


# --- the broker ends ----------------------------------------------------------------------------------------------


@scenario
async def test_a_broker_that_stops_leaves_no_process_and_no_files_of_a_cleaning(tmp_path, caplog):
    async with compacting(tmp_path, config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        await topic.broker.stop()
        assert not is_alive(worker.pid)
        assert not [path for path in tmp_path.rglob("*") if path.suffix in (".cleaned", ".swap")]
        assert complaints(caplog) == []
        await topic.broker.start()
        assert topic.find() == topic.newest


@scenario
async def test_a_broker_that_is_killed_takes_its_worker_along(tmp_path, caplog):
    async with compacting(tmp_path, config={SLOW: 1}) as topic:
        topic.fill()
        topic.cleaning.request(ORDERS)
        worker = await topic.busy()
        await topic.broker.kill()
        await until(lambda: not is_alive(worker.pid))
        assert complaints(caplog) == []
        await topic.broker.start()
        assert (topic.find(), topic.leftovers()) == (topic.newest, [])


@pytest.mark.parametrize("how", ["stop", "kill"])
@scenario
async def test_a_broker_can_end_at_any_moment_of_a_cleaning(tmp_path, how, caplog):
    """The more it waits, the further the cleaning is: from before the start of a worker to after the checkpoint."""
    async with compacting(tmp_path) as topic:
        for turn in range(12):
            topic.fill(rounds=10, first=turn * 10)
            topic.cleaning.request(ORDERS)
            for _ in range(turn * 60):
                await asyncio.sleep(0.001)
                if topic.status.runs:
                    break
            await getattr(topic.broker, how)()
            await topic.broker.start()
            assert (topic.find(), topic.leftovers()) == (topic.newest, [])
        assert [line for line in complaints(caplog) if "cannot" in line or "ours" in line] == []
