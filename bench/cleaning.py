"""How fast is a log compacted beside copying its file, with how much memory, and how well?

- 1 GiB of records of 1 KiB, keys drawn from a million, a map of 27 MB, in the worker process that a broker would start.
  Against copying the file, and copying with a sync of the copy, both right before and after. Aim: at least 0.3 of
  the speed of the copying compiled, 0.08 pure; at most 60 MB beside the map. And the time that a record takes in
  either pass.
- Each key twice: what is left, against what a producer would have written of the records that stay. Aim: at most 2 %
  more.
- Produce requests while a broker cleans a large log, against the same without it. Aim: p99 at most twice as long.

The last is `python -m bench.cleaning_beside` alone. `QUICK=1` takes an eighth of the data.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from bench import cleaning_beside
from bench.keyed import RECORD_BYTES, Values, batches, drawn, in_pairs
from bench.processes import IS_QUICK, ROOT, cpu_seconds, environment, has_compiled_broker
from bench.table import spread
from ottla.records.compression import Codec
from ottla.storage.cleaning.job import Job
from ottla.storage.cleaning.offset_map import SLOT_BYTES
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log

TOTAL_BYTES = (128 << 20) if IS_QUICK else 1 << 30
KEYS = TOTAL_BYTES // RECORD_BYTES * 1_000_000 // (1 << 20)
MAP_BYTES = 27_000_000 * KEYS // 1_000_000
LOAD_FACTOR, IO_BUFFER_BYTES = 0.9, 512 << 10  # as a broker has them
TURNS = 2 if IS_QUICK else 5
NICENESS = 10
WORKER = "ottla.storage.cleaning.worker"
AIMS = {"pure": 0.08, "compiled": 0.3}


class Cleaned(NamedTuple):
    """One cleaning by a worker: what it took, and what it left."""

    map_s: float
    copy_s: float
    map_cpu_s: float
    copy_cpu_s: float
    peak_bytes: int
    bytes_kept: int
    records_read: int

    @property
    def seconds(self) -> float:
        return self.map_s + self.copy_s

    @property
    def cpu_s(self) -> float:
        return self.map_cpu_s + self.copy_cpu_s


class Copied(NamedTuple):
    """One copy of the same file: elapsed, with the sync, and the CPU time of both."""

    seconds: float
    synced_s: float
    cpu_s: float


# --- a log -----------------------------------------------------------------------------------------------------------


def make_log(directory: str, keys: list[int], codec: Codec) -> Job:
    """One closed segment with a record for each of the keys, and what a worker is told about it."""
    config = TopicConfig({"cleanup.policy": "compact", "segment.bytes": str(2**31 - 1)})
    log = Log.open(OsFiles(), directory, config)
    values = Values()
    now_ms = int(time.time() * 1000)
    for batch in batches(keys, values, codec):
        log.append(batch, 0, now_ms)
    log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    job = Job.of(
        log,
        cleanable(log, None, now_ms),
        map_bytes=MAP_BYTES,
        load_factor=LOAD_FACTOR,
        io_buffer_bytes=IO_BUFFER_BYTES,
        now_ms=now_ms,
    )
    log.close()
    return job


def ideal_bytes(keys: list[int], codec: Codec) -> int:
    """What a producer would have written, had it sent only the records that stay."""
    newest = {key: number for number, key in enumerate(keys)}
    return sum(map(len, batches(keys, Values(), codec, sorted(newest.values()))))


# --- the worker, and the copying -------------------------------------------------------------------------------------


@contextmanager
def worker(build: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", WORKER],
        env=environment(compiled=build == "compiled"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def clean(job: Job, build: str) -> Cleaned:
    """Have the log cleaned, and leave it as it was: the replacement is thrown away. The clock starts with the first
    event, when the process is up and the map is there."""
    with worker(build) as process:
        assert process.stdin is not None and process.stdout is not None
        tell(process.stdin, clean=json.loads(job.to_json()))
        marks = []
        for line in process.stdout:
            event = json.loads(line)
            if not marks or event["event"] in ("mapped", "done"):
                marks.append((time.perf_counter(), cpu_seconds(process.pid)))
            if event["event"] == "group":
                tell(process.stdin, go=True)
            elif event["event"] == "failed":
                raise RuntimeError(event["reason"])
            elif event["event"] == "done":
                break
        records_read, _, _, bytes_kept = event["stats"]
        peak = peak_bytes(process.pid)
    for path in Path(job.directory).glob("*.cleaned"):
        path.unlink()
    (began, cpu), (mapped, mapped_cpu), (done, done_cpu) = marks
    passes = mapped - began, done - mapped, mapped_cpu - cpu, done_cpu - mapped_cpu
    return Cleaned(*passes, peak, bytes_kept, records_read)


def tell(worker_input: IO[str], **order: object) -> None:
    worker_input.write(json.dumps(order) + "\n")
    worker_input.flush()


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]  # it is always there


def copy(path: str) -> Copied:
    """In a process as nice as the worker, so that what else the machine does weighs the same on both."""
    command = [sys.executable, "-m", "bench.cleaning", "copy", path]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Copied(*json.loads(done.stdout))


def copy_here(path: str) -> list[float]:
    os.nice(NICENESS)
    target = f"{path}.copied"
    began, cpu = time.perf_counter(), time.process_time()
    shutil.copyfile(path, target)
    copied = time.perf_counter()
    with open(target, "rb") as file:
        os.fdatasync(file.fileno())
    synced, used = time.perf_counter(), time.process_time() - cpu
    os.unlink(target)
    return [copied - began, synced - began, used]


# --- what is measured ------------------------------------------------------------------------------------------------


def builds() -> list[str]:
    if has_compiled_broker():
        return ["pure", "compiled"]
    print("without the compiled build: there is none; `make compiled` makes it")
    return ["pure"]


def speed(directory: str, codec: Codec) -> None:
    """Copy, clean, copy, clean... so that every cleaning stands between two copies."""
    is_plain = codec is Codec.NONE
    records = TOTAL_BYTES // RECORD_BYTES // (1 if is_plain else 4)  # codecs take their time
    job = make_log(f"{directory}/{codec.name}", drawn(records, KEYS, 7), codec)
    path = next(str(path) for path in Path(job.directory).glob("*.log") if path.stat().st_size)
    clean(job, "pure")  # the pages of the file are in memory from here on
    copies, cleaned = [copy(path)], {build: [] for build in builds()}
    ratios: dict[str, dict[str, list[float]]] = {build: {} for build in cleaned}
    for _ in range(TURNS if is_plain else 2):
        for build, runs in cleaned.items():
            runs.append(clean(job, build))
            copies.append(copy(path))
            before, after = copies[-2:]
            for name, field in [
                ("copying", "seconds"),
                ("copying and a sync", "synced_s"),
                ("both, CPU", "cpu_s"),
            ]:
                mine = runs[-1].cpu_s if field == "cpu_s" else runs[-1].seconds
                ratio = (getattr(before, field) + getattr(after, field)) / 2 / mine
                ratios[build].setdefault(name, []).append(ratio)
    mb = os.path.getsize(path) / 1e6
    copied, synced = spread([c.seconds for c in copies]), spread([c.synced_s for c in copies])
    cpu = spread([c.cpu_s for c in copies])
    print(f"{codec.name.lower()}, {mb:.0f} MB: copied in {copied} s, with a sync in {synced}, CPU {cpu}")
    for build, runs in cleaned.items():
        show(build, runs, ratios[build], aim=f" (aim: at least {AIMS[build]})" if is_plain else "")
    shutil.rmtree(job.directory)


def show(build: str, runs: list[Cleaned], ratios: dict[str, list[float]], aim: str) -> None:
    records = runs[0].records_read
    times, cpu = spread([run.seconds for run in runs]), spread([run.cpu_s for run in runs])
    print(f"    {build}: cleaned in {times} s, CPU {cpu}")
    for name, found in ratios.items():
        print(f"        of the speed of {name}: {spread(found)}{aim}")
    maps = spread([run.map_cpu_s / records * 1e6 for run in runs])
    copies = spread([run.copy_cpu_s / records * 1e6 for run in runs])
    print(f"        CPU us for a record: map {maps}, copy {copies}")
    map_mb = min(MAP_BYTES, records * SLOT_BYTES / LOAD_FACTOR) / 1e6  # a small log gets a small one
    beside_mb = max(run.peak_bytes for run in runs) / 1e6 - map_mb
    print(f"        map {map_mb:.1f} MB, beside it at most {beside_mb:.1f} (aim: at most 60)", flush=True)


def size(directory: str, codec: Codec) -> None:
    keys = in_pairs(TOTAL_BYTES // RECORD_BYTES // 4, 7)
    job = make_log(f"{directory}/pairs", keys, codec)
    found, ideal = clean(job, "pure").bytes_kept, ideal_bytes(keys, codec)
    aim = " (aim: at most 2)" if codec is Codec.NONE else ""
    more = (found / ideal - 1) * 100
    print(
        f"{codec.name.lower()}, each key twice: {found / 1e6:.1f} MB, {more:.2f} % more than ideal{aim}",
        flush=True,
    )
    shutil.rmtree(job.directory)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
            speed(directory, codec)
            size(directory, codec)
    print(f"\n{(cleaning_beside.__doc__ or '').splitlines()[0]}", flush=True)
    cleaning_beside.main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["copy"]:
        print(json.dumps(copy_here(sys.argv[2])))
    else:
        main()
