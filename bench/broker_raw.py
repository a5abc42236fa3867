"""What does a request cost the broker, when its client costs next to nothing?

Blocking sockets and frames that were built before. One-record produce requests and small fetches against the null
broker; batches of 1 MB and large fetches against a blocking server that receives and writes, or reads and sends, and
does nothing else.
"""

from bench.processes import IS_QUICK, Side, all_sides
from bench.stored import Layout
from bench.table import Aim, Figure, Seen, alternate, run, show
from bench.wire import create_topic, delete_topic, fill

SECONDS = 0.5 if IS_QUICK else 1.5
SMALL_FETCH = Layout(100, 1, 2000)
LARGE_FETCH = Layout(1000, 1000, 60)
LARGE_FETCH_BYTES = 8 << 20
CHEAP = Aim("null", at_most=2)


def prepared(side: Side, topic: str) -> None:
    if side.name != "raw":
        create_topic(side.port, topic, by_asking=side.name == "null")


def removed(side: Side, topic: str) -> None:
    """Written pages of one turn should not weigh on the next one."""
    if side.name not in ("raw", "null"):
        delete_topic(side.port, topic)


def figures(seen: Seen) -> Seen:
    cpu = max(seen["broker_cpu"], 0.001)
    megabytes = seen["requests"] * (seen["request_bytes"] + seen["reply_bytes"]) / 1e6
    found = {
        "per_second": seen["requests"] / seen["seconds"],
        "cpu_us": cpu / seen["requests"] * 1e6,
        "mb_per_second": megabytes / seen["seconds"],
        "mb_per_cpu_second": megabytes / cpu,
        "cpu_per_gb": cpu / megabytes * 1000,
    }
    return {**found, **{key: seen[key] for key in ("p50_us", "p99_us") if key in seen}}


def produce(
    side: Side, turn: int, *, records: int, value_bytes: int, connections: int, in_flight: int
) -> Seen:
    topic = f"raw-{turn}-{value_bytes}-{connections}-{in_flight}"
    prepared(side, topic)
    seen = run(
        "bench.raw_client",
        what="produce",
        port=side.port,
        pid=side.pid,
        topic=topic,
        records=records,
        value_bytes=value_bytes,
        connections=connections,
        in_flight=in_flight,
        # What is written fast must also find room in the page cache.
        seconds=SECONDS if value_bytes < 100_000 else SECONDS / 2,
    )
    removed(side, topic)
    return figures(seen)


def fetch(side: Side, layout: Layout, *, bytes_max: int, connections: int, in_flight: int) -> Seen:
    seen = run(
        "bench.raw_client",
        what="fetch",
        port=side.port,
        pid=side.pid,
        topic=layout.topic,
        bytes_max=bytes_max,
        connections=connections,
        in_flight=in_flight,
        seconds=SECONDS,
    )
    return figures(seen)


def small_requests(sides: list[Side]) -> None:
    for connections, in_flight in ((1, 1), (8, 1), (8, 5)):
        what = f"one-record produce, {connections} connections, {in_flight} in flight"

        def work(side: Side, turn: int, connections: int = connections, in_flight: int = in_flight) -> Seen:
            return produce(
                side, turn, records=1, value_bytes=100, connections=connections, in_flight=in_flight
            )

        is_many = connections > 1
        series = alternate(sides, work)
        show(
            what,
            series,
            Figure("per_second", "requests/s", (Aim(at_least=25_000),) if is_many else ()),
            Figure("cpu_us", "broker CPU us", (Aim(at_most=30), CHEAP) if is_many else (CHEAP,)),
        )
        if not is_many:
            show(what, series, Figure("p50_us", "p50 us"), Figure("p99_us", "p99 us"))
    for side in sides:
        stored(side, SMALL_FETCH)
    for connections in (1, 8):
        series = alternate(
            sides,
            lambda side, _, connections=connections: fetch(  # type: ignore[misc]  # a default argument
                side, SMALL_FETCH, bytes_max=1, connections=connections, in_flight=1
            ),
        )
        what = f"one-record fetch, {connections} connections"
        show(what, series, Figure("per_second", "requests/s"), Figure("cpu_us", "broker CPU us", (CHEAP,)))


def stored(side: Side, layout: Layout) -> None:
    prepared(side, layout.topic)
    if side.name not in ("raw", "null"):
        fill(side.port, layout.topic)


def large_requests(sides: list[Side]) -> None:
    series = alternate(
        sides,
        lambda side, turn: produce(side, turn, records=1, value_bytes=1_000_000, connections=1, in_flight=4),
    )
    what = "produce of 1 MB batches"
    show(what, series, *large_figures(0.7))
    for side in sides:
        stored(side, LARGE_FETCH)
    series = alternate(
        sides,
        lambda side, _: fetch(side, LARGE_FETCH, bytes_max=LARGE_FETCH_BYTES, connections=1, in_flight=2),
    )
    what = "fetch of 8 MB"
    show(what, series, *large_figures(0.8))


def large_figures(of_raw: float) -> list[Figure]:
    return [
        Figure("mb_per_second", "MB/s", (Aim("raw", at_least=of_raw),)),
        Figure("mb_per_cpu_second", "MB per broker CPU second", (Aim("raw", at_least=of_raw),)),
        Figure("cpu_per_gb", "broker CPU seconds per GB", (CHEAP,)),
    ]


def main() -> None:
    with all_sides("pure", "compiled", "null", "raw", "apache") as sides:
        small_requests([side for side in sides if side.name != "raw"])
        large_requests(sides)


if __name__ == "__main__":
    main()
