"""Brokers for the measurements of coordinators: all with the same settings, those that Kafka has by itself."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.processes import Side, environment, has_compiled_broker, ottla_command, started

SETTINGS = {
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
}
NAMES = ("pure", "compiled", "apache")


def names_here() -> list[str]:
    """Who can run, and a line about each who cannot."""
    found = []
    for name in NAMES:
        if name == "compiled" and not has_compiled_broker():
            print("without the compiled build: there is none; `make compiled` makes it")
        elif name == "apache" and shutil.which("java") is None:
            print("without apache: there is no Java")
        else:
            found.append(name)
    return found


@contextmanager
def broker(name: str, directory: str, settings: Mapping[str, str]) -> Iterator[Side]:
    """One broker with its data in this directory."""
    wanted = {**SETTINGS, **settings}
    if name == "apache":
        from tests.oracles.apache_kafka import apache_kafka

        with apache_kafka(wanted, data_dir=Path(directory)) as found:
            yield Side(name, found.port, found.pid)
    else:
        pairs = [f"{key}={value}" for key, value in wanted.items()]
        env = environment(compiled=name == "compiled")
        with started(name, ottla_command(directory, 0, *pairs), env) as side:
            yield side


@contextmanager
def sides(settings: Mapping[str, str] | None = None) -> Iterator[list[Side]]:
    """All who can run, at the same time, each with new data."""
    with ExitStack() as stack:
        base = stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-"))
        found = []
        for name in names_here():
            try:
                found.append(stack.enter_context(broker(name, f"{base}/{name}", settings or {})))
            except Exception as error:  # a side that is missing leaves the others comparable
                print(f"without {name}: {str(error).splitlines()[0] if str(error) else error!r}")
        yield found
