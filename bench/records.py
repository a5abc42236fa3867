"""How fast are records decoded, compiled and pure, beside kafka-python's and aiokafka's parsers?

The same bytes, a batch of 5000 records of about 110 bytes, are read by all; every reader looks at the same five fields
of every record: offset, timestamp, key, value, headers. Each build of Ottla lives in a process of its own; rounds
alternate between readers, a line gives the median of CPU times, and ratios are taken within a round.
"""

import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILED_TREE = ROOT / "build" / "compiled" / "lib"
RECORDS = 5000
REPETITIONS = 15

Reader = Callable[[], object]


def readers() -> dict[str, Reader]:
    """What this process can time. Imports stay in here: the parent process needs none of them."""
    from ottla.records import batch
    from ottla.records.builder import build
    from ottla.records.record import Record

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
        from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

    written = [Record(i, 1_700_000_000_000 + i, b"key-%06d" % i, b"v" * 95) for i in range(RECORDS)]
    raw = build(written)

    def attributes_of(batches: Callable[[bytes], object]) -> Reader:
        def read() -> None:
            for record in batches(raw):  # type: ignore[attr-defined]
                record.offset, record.timestamp, record.key, record.value, record.headers  # noqa: B018

        return read

    def rows() -> None:
        for _offset, _timestamp, _key, _value, _headers in batch.rows_of(raw):
            pass

    return {
        "rows": rows,
        "objects": attributes_of(batch.records_of),
        "walk": lambda: batch.walk(raw),
        "build": lambda: build(written),
        "aiokafka": attributes_of(AiokafkaBatch),
        "kafka-python": attributes_of(KafkaPythonBatch),
    }


def serve() -> None:
    """The worker: for every name on stdin, the seconds of CPU that reading one batch took."""
    from ottla.records import is_compiled

    known = readers()
    print("compiled" if is_compiled() else "pure", flush=True)
    for line in sys.stdin:
        read = known[line.strip()]
        started = time.process_time()
        read()
        print(time.process_time() - started, flush=True)


class Worker:
    """A process that holds one build of Ottla and times on request."""

    def __init__(self, tree: Path | None) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree or ROOT), "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.build = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self, name: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.communicate()


def measure(repetitions: int) -> dict[str, list[float]]:
    """Seconds per round and reader, named `build reader`; the others are timed in the pure process."""
    workers = [Worker(None)]
    assert workers[0].build == "pure"
    if COMPILED_TREE.exists():
        workers.append(Worker(COMPILED_TREE))
        assert workers[1].build == "compiled"
    plan = [(worker, name) for worker in workers for name in ("rows", "objects", "walk", "build")]
    plan += [(workers[0], "aiokafka"), (workers[0], "kafka-python")]
    times: dict[str, list[float]] = {}
    for round_number in range(repetitions + 1):
        for worker, name in plan:
            taken = worker.seconds(name)
            if round_number:  # the first warms up
                times.setdefault(f"{worker.build} {name}", []).append(taken)
    for worker in workers:
        worker.close()
    return times


def rows(repetitions: int = REPETITIONS) -> list[tuple[str, float, str]]:
    """Lines of the table: what, figure, unit. Ratios above 1 mean that Ottla is faster."""
    times = measure(repetitions)
    theirs = {"aiokafka": times.pop("pure aiokafka"), "kafka-python": times.pop("pure kafka-python")}
    lines: list[tuple[str, float, str]] = []
    for name, taken in [*times.items(), *theirs.items()]:
        lines.append((f"records, {name}", RECORDS / statistics.median(taken) / 1e6, "M records/s"))
    for name, taken in times.items():
        if name.endswith(("rows", "objects")):
            for other, their in theirs.items():
                ratio = statistics.median(b / a for a, b in zip(taken, their, strict=True))
                lines.append((f"records, {name} against {other}", ratio, "times as fast"))
    if not COMPILED_TREE.exists():
        lines.append(("records, compiled: not built", 0.0, "see setup.py"))
    return lines


def main() -> None:
    for what, figure, unit in rows():
        print(f"{what:<48} {figure:9.2f} {unit}")


if __name__ == "__main__":
    if "--worker" in sys.argv:
        serve()
    else:
        main()
