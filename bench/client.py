"""How fast are the producers and consumers of `ottla.client`, beside those of other libraries at the same broker?

Each client is a process of its own, and all of them talk to one broker: an Ottla broker, then an Apache Kafka. Ours
runs pure and compiled, blocking and on a loop. One part runs alone with `python -m bench.client produce` (or `consume`,
`latency`, `memory`, `apache`).
"""

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from bench.client_table import beside, compare
from bench.processes import (
    COMPILED_TREE,
    IS_QUICK,
    ROOT,
    Side,
    apache,
    environment,
    has_compiled_broker,
    ottla,
)
from bench.stored import Layout
from bench.table import Aim, Figure, Seen, alternate, run, show
from bench.wire import PARTITIONS, call, create_topic, delete_topic, fill
from ottla.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse

CLIENT = "bench.client_process"
TURNS = 2 if IS_QUICK else 5
COUNTS = {100: 400_000, 1000: 100_000}
SHARES = {"kafka-python": 0.2, "confluent": 2.0}
"""Who is much slower or faster gets less or more to do, so that all take some seconds."""
STORED = {100: Layout(100, 1000, 300), 1000: Layout(1000, 128, 300)}  # batches of 110 to 130 KB
LATENCY_SECONDS = 1.0 if IS_QUICK else 3.0
EQUAL = {"batch.size": 128 * 1024, "linger.ms": 5}
MEMORY_RECORDS = 1_000_000
LIST_OFFSETS = (2, 5)


class Library(NamedTuple):
    """One of those that take turns."""

    name: str
    library: str
    is_compiled: bool | None = None

    @property
    def env(self) -> dict[str, str]:
        """With which build of Ottla, if any: the measurements themselves are in this tree."""
        found = environment(compiled=bool(self.is_compiled))
        found["PYTHONPATH"] = f"{COMPILED_TREE}:{ROOT}" if self.is_compiled else str(ROOT)
        return found


OURS = [
    Library("pure", "ottla", False),
    Library("pure async", "ottla-async", False),
    Library("compiled", "ottla", True),
    Library("compiled async", "ottla-async", True),
]
THEIRS = [
    Library("aiokafka", "aiokafka"),
    Library("kafka-python", "kafka-python"),
    Library("confluent", "confluent"),
]


def libraries() -> list[Library]:
    if has_compiled_broker():
        return [*OURS, *THEIRS]
    print("without the compiled build: there is none; `make compiled` makes it")
    return [each for each in (*OURS, *THEIRS) if not each.is_compiled]


def measure(broker: Side, library: Library, what: str, topic: str, **arguments: Any) -> Seen:
    return run(
        CLIENT,
        env=library.env,
        what=what,
        library=library.library,
        is_compiled=library.is_compiled,
        server=f"127.0.0.1:{broker.port}",
        topic=topic,
        **{"settings": {}, **arguments},
    )


def share_of(library: Library, count: int) -> int:
    return int(count * SHARES.get(library.name, 1.0)) // (4 if IS_QUICK else 1)


def throughput(seen: Seen) -> Seen:
    return {"rate": seen["count"] / seen["seconds"], "cpu": seen["cpu"] / seen["count"] * 1e6}


def end_offsets(port: int, topic: str) -> int:
    """How many records there are in all partitions."""
    partition = ListOffsetsRequest.Topic.Partition
    rows = [partition(partition_index=number, timestamp=-1) for number in range(PARTITIONS)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=rows)]
    )
    found = call(port, LIST_OFFSETS, request, ListOffsetsResponse).topics[0].partitions
    assert not any(row.error_code for row in found), found
    return sum(row.offset for row in found)


# --- the parts --------------------------------------------------------------------------------------------------------


def produce(
    broker: Side,
    what: str,
    value_bytes: int,
    settings: Mapping[str, object],
    *,
    is_keyed: bool = False,
    names: Iterable[str] = (),
    turns: int = TURNS,
) -> None:
    def work(library: Library, turn: int) -> Seen:
        topic, count = f"produce-{turn}", share_of(library, COUNTS[value_bytes])
        create_topic(broker.port, topic)
        try:
            seen = measure(
                broker,
                library,
                "produce",
                topic,
                value_bytes=value_bytes,
                settings=settings,
                is_keyed=is_keyed,
                count=count,
            )
            stored = end_offsets(broker.port, topic) - PARTITIONS
            assert stored == count, f"{stored} records of {count} are in the log"
        finally:
            delete_topic(broker.port, topic)
        return throughput(seen)

    sides = [each for each in libraries() if not names or each.library in names]
    compare(f"produce {value_bytes} B{what}", alternate(sides, work, turns))


def produces(broker: Side) -> None:
    """Idempotent and with acks=all: with each library's own batches, and with the same for all."""
    for value_bytes in COUNTS:
        produce(broker, "", value_bytes, {})
        produce(broker, ", 128 KiB, 5 ms", value_bytes, EQUAL)
    produce(broker, " with keys", 100, {}, is_keyed=True)
    for codec in ("lz4", "zstd"):
        who = ("ottla", "ottla-async", "aiokafka", "confluent")
        produce(broker, f", {codec}", 1000, {**EQUAL, "compression.type": codec}, names=who)


_filled: set[tuple[int, str]] = set()


def stored(broker: Side, value_bytes: int) -> Layout:
    """A topic that is filled, once."""
    layout = STORED[value_bytes]
    create_topic(broker.port, layout.topic)
    if (broker.port, layout.topic) not in _filled:
        fill(broker.port, layout.topic)
        _filled.add((broker.port, layout.topic))
    return layout


def consume(broker: Side, value_bytes: int, turns: int = TURNS) -> None:
    layout = stored(broker, value_bytes)
    count_max = layout.end_offset * PARTITIONS * 9 // 10

    def work(library: Library, _: int) -> Seen:
        count = min(count_max, share_of(library, COUNTS[value_bytes] * 2))
        arguments = {"value_bytes": value_bytes, "count": count}
        return throughput(measure(broker, library, "consume", layout.topic, **arguments))

    compare(f"consume {value_bytes} B", alternate(libraries(), work, turns))


def consumes(broker: Side) -> None:
    for value_bytes in STORED:
        consume(broker, value_bytes)


def waiting(broker: Side, what: str, title: str, turns: int = TURNS) -> None:
    def work(library: Library, turn: int) -> Seen:
        topic = f"{what.replace('_', '-')}-{turn}"
        create_topic(broker.port, topic)
        try:
            arguments = {"value_bytes": 100, "seconds": LATENCY_SECONDS, "settings": {"linger.ms": 0}}
            seen = measure(broker, library, what, topic, **arguments)
        finally:
            delete_topic(broker.port, topic)
        return {"cpu_us": seen["cpu"] / seen["count"] * 1e6, **seen}

    series = alternate(libraries(), work, turns)
    beside(title, series, p50_us="p50 us", p99_us="p99 us", cpu_us="CPU us each")


def latencies(broker: Side) -> None:
    waiting(broker, "sync", "one record and its acknowledgement")
    waiting(broker, "end_to_end", "from send to a consumer in the same process")


def memory(broker: Side) -> None:
    flat = Figure("growth", "times as much after a million records as after 100,000", (Aim(at_most=1.1),))
    figures = (flat, Figure("late_mb", "MB after a million"))
    ours = [each for each in libraries() if each.name.startswith(("pure", "compiled"))]
    layout = stored(broker, 100)

    def producing(library: Library, turn: int) -> Seen:
        topic = f"memory-{turn}"
        create_topic(broker.port, topic)
        try:
            # A buffer that is full long before the first look: else its filling would be what is seen.
            arguments = {"value_bytes": 100, "count": MEMORY_RECORDS, "settings": {"buffer.memory": 4 << 20}}
            return measure(broker, library, "producer_memory", topic, **arguments)
        finally:
            delete_topic(broker.port, topic)

    def consuming(library: Library, _: int) -> Seen:
        return measure(
            broker, library, "consumer_memory", layout.topic, value_bytes=100, count=MEMORY_RECORDS
        )

    show("memory of a producer", alternate(ours, producing, 2), *figures)
    show("memory of a consumer", alternate(ours, consuming, 2), *figures)


def beside_apache(broker: Side) -> None:
    """The same with another broker, in fewer turns."""
    for value_bytes in COUNTS:
        produce(broker, "", value_bytes, {}, turns=min(TURNS, 3))
    for value_bytes in STORED:
        consume(broker, value_bytes, turns=min(TURNS, 3))
    waiting(broker, "sync", "one record and its acknowledgement", turns=min(TURNS, 3))
    waiting(broker, "end_to_end", "from send to a consumer in the same process", turns=min(TURNS, 3))


PARTS: dict[str, Callable[[Side], None]] = {
    "produce": produces,
    "consume": consumes,
    "latency": latencies,
    "memory": memory,
    "apache": beside_apache,
}


def main(names: Iterable[str] = ()) -> None:
    chosen = list(names) or list(PARTS)
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-"))
        ours = [name for name in chosen if name != "apache"]
        if ours:
            is_compiled = has_compiled_broker()
            with ottla(directory, compiled=is_compiled) as broker:
                print(f"the broker is Ottla, {broker.name}")
                for name in ours:
                    PARTS[name](broker)
        if "apache" in chosen:
            try:
                broker = stack.enter_context(apache(directory))
            except Exception as error:  # the others are comparable without it
                print(f"without apache: {str(error).splitlines()[0] if str(error) else error!r}")
                return
            print("the broker is Apache Kafka")
            beside_apache(broker)


if __name__ == "__main__":
    main(sys.argv[1:])
