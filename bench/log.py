"""How close does the log come to what the operating system can do, appending, recovering and looking up?

- Appends of 16 KiB and 1 MiB batches, against `pwrite` of the same bytes to a file. Aim: 16 KiB at least 0.4 of it
  pure and 0.55 compiled, 1 MiB at least 0.8.
- A recovery scan of 1 GiB of 16 KiB batches, against reading the file. Aim: at most 3 times as long.
- Finding a random offset in 1 GiB: segment and index entry. Aim: at most 20 microseconds.

Each build of Ottla works in a process of its own; the two sides of a ratio take turns within it, and a line gives the
median of the ratios of all turns. Times are CPU times: what else the machine does should not count.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILED_TREE = ROOT / "build" / "compiled" / "lib"
REPETITIONS = 9
APPENDED_BYTES = 128 << 20
SLICE_BYTES = 4 << 20
NOW_MS = 1_700_000_000_000
SCANNED_BYTES = 1 << 30
LOOK_UPS = 20_000


def timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def batch_of(size: int) -> bytearray:
    from ottla.records.builder import build
    from ottla.records.record import Record

    values = [os.urandom(size // 16 - 12) for _ in range(16)]
    return bytearray(build([Record(i, NOW_MS + i, None, v) for i, v in enumerate(values)]))


def append_ratios(directory: str, size: int) -> list[float]:
    """What of the speed of pwrite the log reaches. Within a turn the two take short turns of their own, so that a
    machine that slows down slows down both."""
    from ottla.storage.config import TopicConfig
    from ottla.storage.files import OsFiles
    from ottla.storage.log import Log

    batch = memoryview(batch_of(size))
    config = TopicConfig({"max.message.bytes": "2 MiB"})
    per_slice = max(1, SLICE_BYTES // len(batch))
    ratios = []
    for turn in range(REPETITIONS):
        path = f"{directory}/raw-{turn}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        log = Log.open(OsFiles(), f"{directory}/log-{turn}", config)
        raw = ours = 0.0
        for first in range(0, APPENDED_BYTES // len(batch), per_slice):
            numbers = range(first, first + per_slice)
            raw += timed(
                lambda fd=fd, numbers=numbers: [os.pwrite(fd, batch, n * len(batch)) for n in numbers]
            )
            ours += timed(lambda log=log, numbers=numbers: [log.append(batch, 0, NOW_MS) for _ in numbers])
        os.close(fd)
        os.unlink(path)
        log.abandon()
        shutil.rmtree(log.directory)
        ratios.append(raw / ours)
    return ratios


def recovery_ratios(directory: str) -> list[float]:
    """How many times as long as reading the file a recovery takes."""
    from ottla.storage.files import aligned_buffer
    from ottla.storage.log import Log

    log, config, files = big_log(directory)
    paths = [segment.path for segment in log.segments]
    log.close()
    buffer = aligned_buffer(1 << 20)

    def read() -> None:
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    def recover() -> None:
        Log.open(files, log.directory, config, recovery_point=0).abandon()

    read()
    ratios = []
    for _ in range(REPETITIONS):
        reading = timed(read)
        ratios.append(timed(recover) / reading)
    shutil.rmtree(log.directory)
    return ratios


def look_up_micros(directory: str) -> list[float]:
    """Microseconds from an offset to the segment and the index entry at or before it, warm."""
    log, _, _ = big_log(directory, segment_bytes="64 MiB")
    source = random.Random(7)
    offsets = [source.randrange(log.end_offset) for _ in range(LOOK_UPS)]

    def look_up() -> None:
        for offset in offsets:
            next(log.segments.from_offset(offset)).offsets.look_up(offset)

    look_up()
    micros = [timed(look_up) / LOOK_UPS * 1e6 for _ in range(REPETITIONS)]
    log.abandon()
    shutil.rmtree(log.directory)
    return micros


def big_log(directory: str, segment_bytes: str = "1 GiB") -> tuple:
    from ottla.storage.config import TopicConfig
    from ottla.storage.files import OsFiles
    from ottla.storage.log import Log

    files = OsFiles()
    config = TopicConfig({"segment.bytes": segment_bytes})
    log = Log.open(files, f"{directory}/big", config)
    batch = memoryview(batch_of(16 << 10))
    for _ in range(SCANNED_BYTES // len(batch)):
        log.append(batch, 0, NOW_MS)
    return log, config, files


MEASUREMENTS: dict[str, Callable[[str], list[float]]] = {
    "append 16 KiB": lambda directory: append_ratios(directory, 16 << 10),
    "append 1 MiB": lambda directory: append_ratios(directory, 1 << 20),
    "recovery": recovery_ratios,
    "look-up": look_up_micros,
}


def measure(name: str, *, compiled: bool) -> list[float]:
    """Run one measurement in a process that sees one build."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    environment["PYTHONPATH"] = str(COMPILED_TREE) if compiled else str(ROOT)
    command = [sys.executable, str(Path(__file__).resolve()), name]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def rows() -> list[tuple[str, float, str]]:
    """What was measured, the median, and what it is to be held against."""
    builds = [False, *([True] if COMPILED_TREE.exists() else [])]
    found = []
    for name, unit in [
        ("append 16 KiB", "of pwrite's speed (aim: 0.4 pure, 0.55 compiled)"),
        ("append 1 MiB", "of pwrite's speed (aim: 0.8)"),
        ("recovery", "times as long as reading 1 GiB (aim: at most 3)"),
        ("look-up", "microseconds to segment and index entry in 1 GiB (aim: at most 20)"),
    ]:
        for compiled in builds:
            figure = statistics.median(measure(name, compiled=compiled))
            found.append((f"{name}, {'compiled' if compiled else 'pure'}", figure, unit))
    return found


def main() -> None:
    for name, figure, unit in rows():
        print(f"{name:28} {figure:8.2f} {unit}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(MEASUREMENTS[sys.argv[1]](directory)))
