"""Who compacts logs for the broker: a process beside it, or a thread where the files are only simulated.

A process has its own interpreter, so that neither its work nor its memory is the broker's. It is told by lines of JSON
on its standard input what to do and how fast, and tells by such lines how far it is; what it says on its standard error
goes to the broker's log. When the broker is gone, its input ends, and so does it.
"""

import asyncio
import contextlib
import json
import logging
import os
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol

import ottla
from ottla.core.errors import OttlaError
from ottla.storage.cleaning.job import Done, Event, Failed, Group, Job, event_from_json
from ottla.storage.files import Files, OsFiles

logger = logging.getLogger(__name__)

MODULE = "ottla.storage.cleaning.worker"
_LINE_BYTES_MAX = 16 << 20
_ERROR_LINE_MAX = 1000
_GOODBYE_S = 5.0

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class NoWorker(OttlaError):
    """There is nobody to do the work."""


class Worker(Protocol):
    """Who compacts one log at a time."""

    @property
    def is_usable(self) -> bool:
        """Can it be given another log?"""

    def clean(self, job: Job) -> AsyncGenerator[Event, None]:
        """The events of a cleaning. Segments of a Group must be swapped in before the next event is asked for."""

    def set_rate(self, rate: float | None) -> None:
        """Bytes per second from now on: 0 is a pause, None no limit."""

    def kill(self) -> None:
        """End at once, whatever it is at."""

    async def close(self) -> None:
        """End, and return when it has."""


def has_real_files(files: Files) -> bool:
    """Can another process open what lies in these files?"""
    return isinstance(files, OsFiles) and bool(sys.executable)


class WorkerProcess:
    """A process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_busy = False
        self._rate: float | None = None
        self._listening = asyncio.create_task(self._listen(), name=f"errors of cleaner {process.pid}")

    @classmethod
    async def start(cls) -> "WorkerProcess":
        """Raises NoWorker if the machine gives none. Who is cancelled meanwhile leaves no process behind."""
        starting = asyncio.ensure_future(cls._start())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            worker = await starting
            worker.kill()
            await worker.close()
            raise

    @classmethod
    async def _start(cls) -> "WorkerProcess":
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=_LINE_BYTES_MAX,
                env=_environment(),
                start_new_session=True,  # what a terminal sends to the broker is not meant for it
            )
        except OSError as error:
            reason = f"no worker process can be started ({sys.executable}): {error.strerror or error}"
            raise NoWorker(reason) from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        return self._process.returncode is None and not self._is_busy

    async def clean(self, job: Job) -> AsyncGenerator[Event, None]:
        assert self._process.stdout is not None, "it was asked for"
        self._is_busy = True
        self._send(f'{{"clean": {job.to_json()}}}')
        while True:
            line = await self._process.stdout.readline()
            event = event_from_json(line.decode()) if line.endswith(b"\n") else await self._obituary()
            if isinstance(event, Done | Failed):
                self._is_busy = False
                yield event
                return
            yield event
            if isinstance(event, Group):
                self._send(json.dumps({"go": True}))

    async def _obituary(self) -> Failed:
        code = await self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return Failed(f"its worker process {how}")

    def set_rate(self, rate: float | None) -> None:
        if rate != self._rate:
            self._rate = rate
            self._send(json.dumps({"rate": rate}))

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None, "it was asked for"
        if self._process.returncode is None and not self._process.stdin.is_closing():
            self._process.stdin.write(line.encode() + b"\n")

    async def _listen(self) -> None:
        """What a worker has to say that is no event. Reading to the end keeps it from waiting for us."""
        assert self._process.stderr is not None, "it was asked for"
        while line := await self._process.stderr.readline():
            text = line.decode(errors="backslashreplace").rstrip()[:_ERROR_LINE_MAX]
            logger.warning("cleaner %d: %s", self.pid, text)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """An idle one sees the end of its input, and ends. A busy one is not asked."""
        assert self._process.stdin is not None, "it was asked for"
        self._process.stdin.close()
        if self._is_busy:
            self.kill()
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        finally:
            await asyncio.wait([self._listening], timeout=_GOODBYE_S)


class WorkerThread:
    """A thread of the broker, for files that no other process sees."""

    def __init__(self, files: Files, in_thread: InThread) -> None:
        self._files = files
        self._in_thread = in_thread
        self._spent = 0
        self._rate: float | None = None
        self._hurry = asyncio.Event()
        self.is_usable = True

    async def clean(self, job: Job) -> AsyncGenerator[Event, None]:
        from ottla.storage.cleaning.cleaner import clean  # most brokers have real files, and never need it

        events = clean(self._files, job, self._spend)
        turn = threading.Lock()  # who gives up does not end the step that its thread is at

        def step() -> Event | None:
            with turn:
                return next(events, None)

        def close() -> None:
            with turn:
                events.close()

        try:
            while (event := await self._in_thread(step)) is not None:
                yield event
                await self._hold_back()
        finally:
            await self._in_thread(close)

    def _spend(self, count: int) -> None:
        self._spent += count

    async def _hold_back(self) -> None:
        """Between two steps, and not within one: a thread that waits is one less for others."""
        while self._rate is not None:
            seconds = self._spent / self._rate if self._rate > 0 else None
            self._hurry.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._hurry.wait()
            except TimeoutError:
                break
        self._spent = 0

    def set_rate(self, rate: float | None) -> None:
        if rate != self._rate:
            self._rate = rate
            self._hurry.set()

    def kill(self) -> None:
        self.is_usable = False

    async def close(self) -> None:
        self.is_usable = False


def _environment() -> dict[str, str]:
    """The worker finds the very modules that this process runs, compiled or not, and nothing in the directory that it
    happens to be started in."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(ottla.__file__)))
    others = [path for path in sys.path if path and path != home]
    # A hash seed that somebody set is known to others, and by the hashes of keys it is decided what is superseded.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return {**inherited, "PYTHONPATH": os.pathsep.join([home, *others])}
