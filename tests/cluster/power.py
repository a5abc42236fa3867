"""Disks whose power can be cut: a forgetful file system, mounted for as long as a test needs it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.brokers import wait_until

POWER = ".power"
"""Whoever writes to this file of a forgetful file system cuts its power."""


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[Path]:
    """A forgetful file system in this directory, as long as this is open."""
    if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        pytest.skip("a file system that forgets needs root and /dev/fuse")
    directory.mkdir()
    program = [sys.executable, "-m", "tests.cluster.forgetful", str(directory)]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: process.poll() is not None or directory.is_mount(), f"{directory} is mounted")
            if process.poll() is not None:
                pytest.skip(
                    "a file system that forgets needs libfuse (Debian: fuse3), and to be allowed to mount"
                )
            yield directory
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], capture_output=True)
            process.terminate()


def lose_power(directory: Path) -> None:
    """Nobody may have a file open in it any more."""
    (directory / POWER).write_text("off")
