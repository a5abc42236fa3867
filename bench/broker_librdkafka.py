"""What does librdkafka reach with the broker, and what with the mock broker in C inside its own process?

Four partitions, all replicas asked for. The mock writes no file and lives in the client, so it is a bound for
throughput and latency; for CPU time the null broker is.
"""

from bench.processes import IS_QUICK, Side, all_sides
from bench.stored import Layout
from bench.table import Aim, Figure, Seen, alternate, run, show
from bench.wire import create_topic, delete_topic, fill

CLIENT = "bench.librdkafka_client"
COUNTS = {100: 400_000, 1000: 100_000, 10_000: 20_000}
STORED = [Layout(100, 9000, 4), Layout(1000, 900, 4)]  # 4 MB per partition: the mock keeps 5
PASSES = 3 if IS_QUICK else 8
SYNC_SECONDS = 0.5 if IS_QUICK else 1.5


def with_topic(side: Side, topic: str, **arguments: object) -> Seen:
    """Measure on a topic of its own."""
    is_real = side.name not in ("mock", "null")
    if side.port:
        create_topic(side.port, topic, by_asking=not is_real)
    seen = run(CLIENT, port=side.port, pid=side.pid, topic=topic, **arguments)
    if is_real:
        delete_topic(side.port, topic)
    return seen


def rates(seen: Seen) -> Seen:
    megabytes = seen["bytes"] / 1e6
    return {
        "mb_per_second": megabytes / seen["seconds"],
        "cpu_per_gb": seen["broker_cpu"] / megabytes * 1000,
        "client_cpu_per_gb": seen["client_cpu"] / megabytes * 1000,
    }


def produce(sides: list[Side], value_bytes: int, count: int) -> None:
    def work(side: Side, turn: int) -> Seen:
        topic = f"produce-{value_bytes}-{turn}"
        return rates(with_topic(side, topic, what="produce", value_bytes=value_bytes, count=count))

    what = f"librdkafka, produce {value_bytes} B"
    series = alternate(sides, work)
    show(what, series, *throughput(0.85))


def throughput(of_mock: float) -> list[Figure]:
    fast = Aim("mock", at_least=of_mock), Aim("apache", at_least=1)
    cheap = Aim("null", at_most=2), Aim("apache", at_most=0.5)
    return [
        Figure("mb_per_second", "MB/s", fast),
        Figure("cpu_per_gb", "broker CPU seconds per GB", cheap),
        Figure("client_cpu_per_gb", "client CPU seconds per GB"),
    ]


def sync(sides: list[Side]) -> None:
    def work(side: Side, turn: int) -> Seen:
        seen = with_topic(side, f"sync-{turn}", what="sync", seconds=SYNC_SECONDS)
        return {
            "speed": 1e6 / seen["p50_us"],
            "p50_us": seen["p50_us"],
            "p99_us": seen["p99_us"],
            "cpu_us": seen["broker_cpu"] / seen["count"] * 1e6,
        }

    what = "librdkafka, one message at a time"
    series = alternate(sides, work)
    show(what, series, Figure("p50_us", "p50 us"), Figure("p99_us", "p99 us"))
    show(what, series, Figure("speed", "1 / p50", (Aim("mock", at_least=0.85),)))
    show(what, series, Figure("cpu_us", "broker CPU us per message", (Aim("null", at_most=2),)))


def consume(sides: list[Side], layout: Layout) -> None:
    for side in sides:
        if side.port:
            create_topic(side.port, layout.topic, by_asking=side.name == "null")
            if side.name != "null":
                fill(side.port, layout.topic)

    def work(side: Side, _: int) -> Seen:
        return rates(
            run(CLIENT, what="consume", port=side.port, pid=side.pid, topic=layout.topic, passes=PASSES)
        )

    what = f"librdkafka, consume {layout.record_bytes} B"
    series = alternate(sides, work)
    show(what, series, *throughput(0.9))


def main() -> None:
    with all_sides("pure", "compiled", "null", "mock", "apache") as sides:
        for value_bytes, count in COUNTS.items():
            produce(sides, value_bytes, count // 4 if IS_QUICK else count)
        sync(sides)
        for layout in STORED:
            consume(sides, layout)


if __name__ == "__main__":
    main()
