"""An event loop in a thread: work is done there, errors come back, nothing stays behind."""

import asyncio
import concurrent.futures
import gc
import os
import threading

import pytest

from ottla.core.loop_thread import LoopThread


def threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


async def name_of_thread() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def fail() -> None:
    raise TimeoutError("my own")


def test_work_is_done_in_the_thread_and_its_result_comes_back():
    before = threads()
    thread = LoopThread("ottla-test")
    try:
        assert thread.run(name_of_thread()) == "ottla-test"
        with pytest.raises(TimeoutError, match="my own"):
            thread.run(fail())
    finally:
        thread.end()
    assert threads() == before


def test_work_under_way_is_cancelled_in_the_end_and_threads_of_the_loop_end_too():
    before = threads()
    thread = LoopThread()
    cancelled = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def begin() -> None:
        thread.waiting = asyncio.create_task(wait_for_ever())
        await asyncio.to_thread(lambda: None)

    thread.run(begin())
    thread.end()
    assert cancelled.is_set()
    assert threads() == before


def test_a_thread_that_nobody_knows_any_more_ends():
    before = threads()
    LoopThread().run(name_of_thread())
    gc.collect()
    assert threads() == before


def test_after_the_end_nothing_is_taken():
    thread = LoopThread()
    thread.end()
    thread.end()
    with pytest.raises(RuntimeError, match="it has ended"):
        thread.run(name_of_thread())


def test_waiting_for_oneself_is_refused():
    thread = LoopThread()

    async def wait_for_itself() -> None:
        thread.run(name_of_thread())

    try:
        with pytest.raises(RuntimeError, match="would wait for itself"):
            thread.run(wait_for_itself())
    finally:
        thread.end()


def test_a_child_is_told_that_the_thread_did_not_come_along(monkeypatch):
    thread = LoopThread()
    with monkeypatch.context() as fork:
        fork.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="did not come along in the fork"):
            thread.run(name_of_thread())
    assert thread.run(name_of_thread()) == "ottla-broker"
    thread.end()


def test_whoever_hands_something_in_at_the_moment_of_the_end_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr("ottla.core.loop_thread._GLANCE_SECONDS", 0.001)
    thread = LoopThread(patience_seconds=None)
    lost: concurrent.futures.Future[None] = concurrent.futures.Future()

    def lose(work, loop):
        work.close()
        thread.end()
        return lost

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lose)
    with pytest.raises(RuntimeError, match="it has ended"):
        thread.run(name_of_thread())
    assert lost.cancelled()


def test_patience_has_an_end_and_the_work_is_cancelled():
    thread = LoopThread(patience_seconds=0.0)
    cancelled = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    try:
        with pytest.raises(TimeoutError, match="no answer in 0 s"):
            thread.run(wait_for_ever(), 0.05)
        assert cancelled.wait(10)
    finally:
        thread.end()


def test_it_knows_its_own_thread_and_its_loop():
    thread = LoopThread(patience_seconds=None)

    async def is_current() -> tuple[bool, bool]:
        return thread.is_current, asyncio.get_running_loop() is thread.loop

    try:
        assert thread.run(is_current()) == (True, True)
        assert not thread.is_current
        assert thread.is_ours
    finally:
        thread.end()
