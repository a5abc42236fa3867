"""What do 10,000 segments in one partition directory cost: to open, to read at random, to delete, to close?

After a clean stop, in a process that may have 2,000 open files, each build in one of its own. The directory was just
made, so the kernel knows it by heart. Times are elapsed ones where nothing else is said. Aim: open in at most 5 s, with
at most 2,000 descriptors.
"""

import asyncio
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILED_TREE = Path(os.environ.get("OTTLA_COMPILED_TREE") or ROOT / "build" / "compiled" / "lib")
SEGMENTS = 1_000 if os.environ.get("QUICK") else 10_000
DESCRIPTORS_MAX = 2_000
READS = 3_000
UNITS = {
    "open": "s to open (aim: at most 5)",
    "memory": "MB more than before",
    "read": "us to find and read at a random offset, most segments for the first time",
    "descriptors": f"descriptors at the end of that (aim: at most {DESCRIPTORS_MAX})",
    "by time": "s to find a time in the last of them",
    "retention": "s of CPU to let all of them go, while others have their turn",
    "longest turn": "ms of CPU before others have their turn",
    "close": "s to close all of them, had they stayed",
}


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def measure(path: str) -> dict[str, float]:
    """Each build in a process that sees only that one."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_MAX, DESCRIPTORS_MAX))
    from ottla.broker.descriptors import shares
    from ottla.storage.files import OsFiles
    from ottla.storage.log_directory import LogDirectory
    from tests.unit.storage.many_segments import BATCHES_EACH, NOW, PARTITION, settings

    files, config, found, opened = OsFiles(shares(DESCRIPTORS_MAX).files), settings(), {}, []
    before_mb = rss_mb()
    found["open"] = timed(lambda: opened.append(LogDirectory.open(files, path, lambda topic: config)))
    found["memory"] = rss_mb() - before_mb
    log = opened[0].logs[PARTITION]
    assert opened[0].was_clean and len(log.segments) == SEGMENTS + 1
    source = random.Random(7)
    offsets = [source.randrange(log.end_offset) for _ in range(READS)]
    found["read"] = timed(lambda: [log.read(offset, 4096).read() for offset in offsets]) / READS * 1e6
    found["descriptors"] = len(os.listdir("/proc/self/fd")) - 1
    found["by time"] = timed(lambda: log.offset_by_time(NOW + BATCHES_EACH))
    found["close"] = timed(lambda: opened[0].close(1))

    again = LogDirectory.open(files, path, lambda topic: config)
    config.update({"retention.ms": "1000"})
    gc.collect()
    gc.freeze()  # a broker does so when it has started
    found |= asyncio.run(retain(again, files))
    assert len(again.logs[PARTITION].segments) == 1
    return found


async def retain(directory: object, files: object) -> dict[str, float]:
    """As a broker does it, beside something that wants its turn. In CPU time: renames wait for the disk."""
    from ottla.broker.upkeep import Upkeep
    from ottla.core.clock import SystemClock

    class Keeper:
        directories = (directory,)

    longest, last, is_done = 0.0, time.process_time(), False

    async def wait_for_turns() -> None:
        nonlocal longest, last
        while not is_done:
            now = time.process_time()
            longest, last = max(longest, now - last), now
            await asyncio.sleep(0)

    upkeep = Upkeep(Keeper(), {}, SystemClock(), files)  # type: ignore[arg-type]  # as much as it takes for this
    waiting = asyncio.create_task(wait_for_turns())
    started = time.process_time()
    await upkeep.delete_old_segments()
    seconds, is_done = time.process_time() - started, True
    await waiting
    return {"retention": seconds, "longest turn": longest * 1000}


def measured(compiled: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        from tests.unit.storage.many_segments import make

        make(directory, SEGMENTS)
        os.sync()  # otherwise the first sync of the directory waits for all that was just made
        paths = [str(COMPILED_TREE)] * compiled + [str(ROOT)]
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, str(Path(__file__).resolve()), directory]
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def main() -> None:
    builds = {"pure": measured(False)} | ({"compiled": measured(True)} if COMPILED_TREE.exists() else {})
    print(f"{'':14}" + "".join(f"{build:>10}" for build in builds))
    for name, unit in UNITS.items():
        print(f"{name:14}" + "".join(f"{found[name]:10.2f}" for found in builds.values()) + f"  {unit}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(measure(sys.argv[1])))
