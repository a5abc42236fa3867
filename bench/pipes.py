"""How fast do lines go through `ottla produce`, and records through `ottla consume`, beside kcat at the same broker?

Files of lines are read from the page cache and piped into each of them; all talk to one pure Ottla broker, in turns. A
part runs alone with `python -m bench.pipes produce`. Without kcat on the machine ours is measured alone.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.processes import COMPILED_TREE, IS_QUICK, Side, environment, ottla
from bench.table import Aim, Figure, Seen, alternate, show
from bench.wire import create_topic, delete_topic

LINE_SIZES = (100, 1024)
FILE_BYTES = (512 if IS_QUICK else 2048) << 20
TURNS = 2 if IS_QUICK else 5
OTTLA = [sys.executable, "-m", "ottla.cli.main"]
RATE_MIN = {1024: 100.0}
"""MB/s that are aimed at, by the size of lines."""
CPU = Figure("cpu_us", "us of CPU for a line", (Aim("kcat", at_most=8.0),))


class Program(NamedTuple):
    """One of those that take turns: its command for a broker and a topic."""

    name: str
    command: Callable[[int, str], list[str]]
    env: dict[str, str] | None = None


def programs(ours: list[str], kcat: list[str]) -> list[Program]:
    """Ours, pure and if there is one compiled, and kcat if it is here. `{port}` and `{topic}` are filled in."""

    def filled(words: list[str]) -> Callable[[int, str], list[str]]:
        return lambda port, topic: [word.format(port=port, topic=topic) for word in words]

    found = [Program("pure", filled([*OTTLA, *ours]), environment(compiled=False))]
    if (COMPILED_TREE / "ottla" / "cli" / "main.py").exists():
        found.append(Program("compiled", filled([*OTTLA, *ours]), environment(compiled=True)))
    if path := shutil.which("kcat"):
        found.append(Program("kcat", filled([path, *kcat])))
    else:
        print("    kcat is not here", flush=True)
    return found


@contextmanager
def lines_file(directory: str, size: int) -> Iterator[Path]:
    """Lines of so many bytes, with their ends; different ones, so that nothing is guessed."""
    path = Path(directory) / f"lines-{size}"
    block = b"".join(
        os.urandom(size // 2).hex().encode()[: size - 1].ljust(size - 1) + b"\n" for _ in range(4096)
    )
    with path.open("wb") as file:
        for _ in range(FILE_BYTES // len(block)):
            file.write(block)
    try:
        yield path
    finally:
        path.unlink()


def rate(size: int) -> Figure:
    beside = Aim("kcat", at_least=0.3)
    return Figure(
        "mb_per_s", "MB/s", (Aim(at_least=RATE_MIN[size]), beside) if size in RATE_MIN else (beside,)
    )


def measured(command: list[str], env: dict[str, str] | None, stdin: Path | None) -> tuple[float, float]:
    """Seconds elapsed, and of CPU, of a program whose input is piped into it by `cat`, which counts as well."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile() as said:
        feeder = None if stdin is None else subprocess.Popen(["cat", str(stdin)], stdout=subprocess.PIPE)
        source = subprocess.DEVNULL if feeder is None else feeder.stdout
        done = subprocess.run(
            command, env=env, stdin=source, stdout=subprocess.DEVNULL, stderr=said, timeout=600
        )
        seconds = time.perf_counter() - begun
        if feeder is not None:
            assert feeder.stdout is not None, "it was asked for"
            feeder.stdout.close()
            feeder.wait()
        if done.returncode:
            said.seek(0)
            raise RuntimeError(said.read().decode().strip() or f"exit code {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def produce(broker: Side, directory: str) -> None:
    """Lines from a pipe, without keys, to one partition."""
    sides = programs(
        ["produce", "{topic}", "-b", "localhost:{port}", "--quiet"],
        ["-P", "-b", "localhost:{port}", "-t", "{topic}", "-X", "acks=all", "-X", "enable.idempotence=true"],
    )
    for size in LINE_SIZES:
        with lines_file(directory, size) as path:
            total = path.stat().st_size

            def one(
                program: Program, turn: int, path: Path = path, size: int = size, total: int = total
            ) -> Seen:
                topic = f"lines-{size}-{program.name}-{turn}"
                create_topic(broker.port, topic, 1)
                try:
                    seconds, cpu = measured(program.command(broker.port, topic), program.env, path)
                finally:
                    delete_topic(broker.port, topic)
                return {"mb_per_s": total / 1e6 / seconds, "cpu_us": cpu * 1e6 / (total // size)}

            show(f"lines of {size} B piped into produce", alternate(sides, one, TURNS), rate(size), CPU)


def drained(command: list[str], env: dict[str, str] | None) -> tuple[float, float, int]:
    """Seconds elapsed, and of CPU, of a program whose output goes through a pipe; and how many bytes that was."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    size = 0
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None, "it was asked for"
        while piece := process.stdout.read(1 << 20):
            size += len(piece)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, size


def consume(broker: Side, directory: str) -> None:
    """All values of a topic into a pipe, each with a newline, from the start of the command to the end of the pipe."""
    sides = programs(
        ["consume", "{topic}", "-b", "localhost:{port}", "-e", "--quiet"],
        ["-C", "-b", "localhost:{port}", "-t", "{topic}", "-e", "-q"],
    )
    fill = programs(["produce", "{topic}", "-b", "localhost:{port}", "--quiet"], [])[0]
    for size in LINE_SIZES:
        topic = f"values-{size}"
        create_topic(broker.port, topic, 1)
        with lines_file(directory, size) as path:
            total = path.stat().st_size
            measured(fill.command(broker.port, topic), fill.env, path)

        def one(program: Program, _: int, topic: str = topic, size: int = size, total: int = total) -> Seen:
            seconds, cpu, found = drained(program.command(broker.port, topic), program.env)
            assert found == total, f"{found} bytes came instead of {total}"
            return {"mb_per_s": total / 1e6 / seconds, "cpu_us": cpu * 1e6 / (total // size)}

        show(f"consume piped, values of {size} B", alternate(sides, one, TURNS), rate(size), CPU)
        delete_topic(broker.port, topic)


PARTS = {"produce": produce, "consume": consume}


def main(names: list[str] | None = None) -> None:
    with tempfile.TemporaryDirectory() as directory, ottla(directory) as broker:
        for name in names or PARTS:
            PARTS[name](broker, directory)


if __name__ == "__main__":
    main(sys.argv[1:])
