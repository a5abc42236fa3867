"""The process beside the broker: which modules it runs, and that it never stays behind."""

import asyncio
import json
import sys
import threading

import pytest

import ottla
from ottla.broker import cleaning_worker
from ottla.broker.cleaning_worker import NoWorker, WorkerProcess, WorkerThread, has_real_files
from ottla.storage.cleaning.job import Done, Failed, Job
from ottla.storage.files import OsFiles
from ottla.testing.disk import SimDisk
from tests.unit.broker.compacting import is_alive, until
from tests.unit.broker.handlers.coordinating import scenario


def job_in(directory, **changes):
    fields = {
        "directory": str(directory),
        "settings": {},
        "segments": [],
        "first_dirty_offset": 0,
        "end_offset": 0,
        "producers": {},
        "map_bytes": 1 << 20,
        "load_factor": 0.9,
        "io_buffer_bytes": 1 << 16,
        "now_ms": 0,
    }
    return Job(**{**fields, **changes})


def test_only_files_of_the_operating_system_can_be_shared_with_a_process(monkeypatch):
    assert has_real_files(OsFiles())
    assert not has_real_files(SimDisk())
    monkeypatch.setattr(sys, "executable", "")
    assert not has_real_files(OsFiles())


@scenario
async def test_it_runs_the_modules_of_the_broker_and_not_those_that_lie_about(tmp_path, monkeypatch):
    for decoy in ("ottla.py", "json.py", "queue.py"):
        (tmp_path / decoy).write_text("raise SystemExit('a decoy')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    worker = await WorkerProcess.start()
    events = [event async for event in worker.clean(job_in(tmp_path))]
    assert isinstance(events[-1], Done)
    await worker.close()


@scenario
async def test_it_finds_the_very_package_that_this_process_runs():
    environment = cleaning_worker._environment()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", "import ottla, json; print(json.dumps(ottla.__file__))"),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    out, _ = await process.communicate()
    assert json.loads(out) == ottla.__file__


@scenario
async def test_it_takes_one_job_after_the_other_and_tells_of_failures(tmp_path):
    worker = await WorkerProcess.start()
    missing = job_in(tmp_path / "gone", segments=[(0, 100)], end_offset=10)
    *_, failed = [event async for event in worker.clean(missing)]
    assert isinstance(failed, Failed)
    assert worker.is_usable
    assert isinstance([event async for event in worker.clean(job_in(tmp_path))][-1], Done)
    await worker.close()
    assert not worker.is_usable
    assert not is_alive(worker.pid)


@scenario
async def test_it_ends_when_nobody_talks_to_it_any_more():
    worker = await WorkerProcess.start()
    worker._process.stdin.close()
    await until(lambda: not is_alive(worker.pid))
    await worker.close()


@scenario
async def test_one_whose_start_is_given_up_does_not_stay():
    started = []
    starting = asyncio.create_task(WorkerProcess.start())
    real = cleaning_worker.WorkerProcess.__init__

    def note(self, process):
        real(self, process)
        started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaning_worker.WorkerProcess, "__init__", note)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
    assert starting.cancelled()
    assert [is_alive(worker.pid) for worker in started] == [False]


@scenario
async def test_a_machine_that_gives_no_process_is_no_broken_disk(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(NoWorker, match=r"no worker process can be started \(/no/such/python\): No such file"):
        await WorkerProcess.start()


@scenario
async def test_who_gives_up_a_thread_waits_for_the_step_that_it_is_at(monkeypatch):
    began, goes_on, ended = threading.Event(), threading.Event(), []

    def clean(files, job, spend):
        try:
            began.set()
            goes_on.wait(60)
            yield Failed("never seen")
        finally:
            ended.append(True)

    async def in_thread(step):
        return await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(step)))

    monkeypatch.setattr("ottla.storage.cleaning.cleaner.clean", clean)
    worker = WorkerThread(SimDisk(), in_thread)
    asked = asyncio.ensure_future(anext(worker.clean(job_in("nowhere"))))
    await asyncio.to_thread(began.wait, 60)
    asked.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert ended == [True]
