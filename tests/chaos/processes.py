"""A broker as a process of its own, to be killed; and what it left on the disk."""

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.core.ids import TopicPartition
from ottla.records.batch import check, iter_batches, records_of
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log_directory import LogDirectory

START_SECONDS_MAX = 60


class BrokerProcess:
    """`ottla start` on a directory. It keeps its port over restarts, as a broker in the world does."""

    def __init__(self, data_dir: Path, settings: Mapping[str, object] | None = None) -> None:
        self.data_dir = data_dir
        self.port = 0
        self.settings = settings or {}
        """From the next start on."""
        self._process: subprocess.Popen[str] | None = None
        # Not beside the data, whose disk may be full.
        self._errors = Path(tempfile.gettempdir(), f"ottla-chaos-{uuid.uuid4()}.stderr")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def bootstrap_server(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "ottla.cli.main", "start", "--port", str(self.port)]
        if "log.dirs" not in self.settings:
            command += ["--data-dir", str(self.data_dir)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def start(self) -> float:
        """Return when it serves; the seconds that took."""
        began = time.monotonic()
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, f"it said {line!r}, and {self.errors}"
        self.port = int(found[1])
        return time.monotonic() - began

    def refuse_to_start(self) -> str:
        """Start it where it must not; what it says."""
        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=START_SECONDS_MAX)
        assert done.returncode != 0
        return done.stdout + done.stderr

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            process.send_signal(how)
            process.wait(START_SECONDS_MAX)
        return process.returncode

    def __enter__(self) -> "BrokerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._errors.unlink()


def values_in(path: Path) -> dict[TopicPartition, dict[int, bytes]]:
    """What lies in a directory that no broker has open: values by partition and offset. Every checksum is checked."""
    directory = LogDirectory.open(OsFiles(), str(path), lambda topic: TopicConfig())
    assert not directory.damaged
    found: dict[TopicPartition, dict[int, bytes]] = {}
    for partition, log in directory.logs.items():
        values = found[partition] = {}
        offset = log.log_start_offset
        while data := log.read(offset, 1 << 20).read():
            for position, header in iter_batches(data, partial=True):
                check(data, position)
                values |= {r.offset: r.value or b"" for r in records_of(data, position)}
                offset = header.next_offset
    directory.close()
    return found


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own, so small that it fills up. Only root may mount one."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small tmpfs is not permitted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def enlarge(path: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(path)], check=True)
