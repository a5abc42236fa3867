"""Memory as the operating system counts it, since decoders allocate behind Python's back."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Peak:
    extra_bytes: int = 0


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


@contextmanager
def _peak() -> Iterator[Peak]:
    peak = Peak()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # start the high-water mark anew
    before = _status("VmRSS")
    yield peak
    peak.extra_bytes = _status("VmHWM") - before


@pytest.fixture
def peak_memory():
    """A context manager that says how much memory its block took at the most."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of a process's memory can only be reset on Linux")
    return _peak
