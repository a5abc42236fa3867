"""How much can the coordinators bear? Large groups, many groups, transactions, commits, and a start with all of it.

Ottla and Apache Kafka with the same settings, each a process of its own, in turns. The clients are scripts in one
process (`conversations.py`), whose CPU time is printed too. `QUICK=1` takes two turns, and short ones. The last part
runs alone as `python -m bench.coordinator_load`; of the others, `python -m bench.coordinators commits` runs one.
"""

import sys
from functools import partial

from bench import coordinator_load
from bench.coordinator_sides import sides
from bench.processes import IS_QUICK, Side
from bench.table import Aim, Figure, Seen, Series, alternate, run, show
from bench.wire import create_topic, delete_topic

SECONDS = 2.0 if IS_QUICK else 5.0
TURNS = 2 if IS_QUICK else 5
MEMBERS, MEMBERS_BEAT_SECONDS = 500, 0.5
GROUPS, MEMBERS_EACH, BEAT_SECONDS = 200, 3, 0.3
PRODUCERS, PER_SECOND = 100, 10
DEFAULT_DELAY = {"group.initial.rebalance.delay.ms": "3000"}
REBALANCE_AIMS = (Aim(at_most=10), Aim("apache", at_most=1))


def rebalances() -> None:
    with sides() as found:
        show_rebalances("without initial delay", alternate(found, rebalance, TURNS))
        series = alternate(found, partial(rebalance, is_crowd=True), TURNS)
        show(f"{MEMBERS} members that connect at once: to all synced", series, *forming_figures())
    with sides(DEFAULT_DELAY) as found:
        show_rebalances("with the delay of 3 s", alternate(found, rebalance, TURNS))


def show_rebalances(what: str, series: Series) -> None:
    members = f"{MEMBERS} members, {what}"
    show(f"{members}: first join to all synced", series, *forming_figures())
    show(
        f"{members}: one more joins",
        series,
        Figure("again_seconds", "s", REBALANCE_AIMS),
        Figure("again_cpu", "s of CPU"),
        Figure("client_cpu", "s of CPU of the client"),
    )


def forming_figures() -> list[Figure]:
    return [
        Figure("form_seconds", "s", REBALANCE_AIMS),
        Figure("form_cpu", "s of CPU"),
        Figure("generations", "generations"),
    ]


def rebalance(side: Side, turn: int, *, is_crowd: bool = False) -> Seen:
    return run(
        "bench.coordinator_client",
        what="rebalance",
        port=side.port,
        pid=side.pid,
        group=f"{'crowd' if is_crowd else 'large'}-{turn}",
        members=MEMBERS,
        beat_seconds=MEMBERS_BEAT_SECONDS,
        is_crowd=is_crowd,
    )


def heartbeats() -> None:
    def work(side: Side, turn: int) -> Seen:
        return run(
            "bench.coordinator_client",
            what="heartbeats",
            port=side.port,
            pid=side.pid,
            group=f"small-{turn}",
            groups=GROUPS,
            members=MEMBERS_EACH,
            beat_seconds=BEAT_SECONDS,
            seconds=SECONDS,
        )

    with sides() as found:
        series = alternate(found, work, TURNS)
    show(
        f"{GROUPS} groups of {MEMBERS_EACH}, a heartbeat every {BEAT_SECONDS * 1000:g} ms each",
        series,
        Figure("per_second", "heartbeats/s"),
        Figure("p50_ms", "p50 ms"),
        Figure("p99_ms", "p99 ms", (Aim("apache", at_most=1),)),
        Figure("busy_p99_ms", "ApiVersions meanwhile, p99 ms"),
        Figure("idle_p50_ms", "ApiVersions of the idle broker, p50 ms"),
        Figure("idle_p99_ms", "ApiVersions of the idle broker, p99 ms"),
        Figure("cpu_us", "broker CPU us each", (Aim("apache", at_most=1),)),
        Figure("client_cpu_us", "client CPU us each"),
    )


def transactions() -> None:
    with sides() as found:
        for version in (1, 2):
            for has_readers in (True, False):
                work = partial(transact, version=version, has_readers=has_readers)
                series = alternate(found, work, TURNS)
                what = f"{PRODUCERS} producers, {PER_SECOND} transactions/s each, version {version}"
                if has_readers:
                    show(f"{what}, with readers", series, *transaction_figures())
                else:
                    show(f"{what}, without readers", series, *cost_figures())


def transact(side: Side, turn: int, *, version: int, has_readers: bool) -> Seen:
    topic = f"txn-{version}-{turn}-{'read' if has_readers else 'unread'}"
    create_topic(side.port, topic)
    seen = run(
        "bench.transaction_client",
        port=side.port,
        pid=side.pid,
        topic=topic,
        producers=PRODUCERS,
        per_second=PER_SECOND,
        version=version,
        seconds=SECONDS,
        has_readers=has_readers,
    )
    delete_topic(side.port, topic)
    return seen


def cost_figures() -> list[Figure]:
    return [
        Figure("per_second", "transactions/s", (Aim(at_least=0.98 * PRODUCERS * PER_SECOND),)),
        Figure("commit_p99_ms", "EndTxn p99 ms", (Aim(at_most=250), Aim("apache", at_most=1))),
        Figure("cpu_us", "broker CPU us each", (Aim("apache", at_most=1),)),
        Figure("client_cpu_us", "client CPU us each"),
    ]


def transaction_figures() -> list[Figure]:
    return [
        *cost_figures(),
        Figure("commit_p50_ms", "EndTxn p50 ms"),
        Figure("produce_p99_ms", "Produce p99 ms"),
        Figure("whole_p50_ms", "from when it was due to its commit, p50 ms"),
        Figure("whole_p99_ms", "from when it was due to its commit, p99 ms"),
        Figure("lag_p50_ms", "from the reply until readers see it, p50 ms"),
        Figure("lag_p99_ms", "from the reply until readers see it, p99 ms"),
        Figure("concurrent", "CONCURRENT_TRANSACTIONS in a hundred"),
    ]


def commits() -> None:
    with sides() as found:
        for in_flight in (1, 5):
            for kind, name in (
                ("commit", "OffsetCommit of one partition"),
                ("produce", "one-record produce"),
            ):
                work = partial(requests, kind=kind, in_flight=in_flight)
                show(
                    f"{name}, 8 connections, {in_flight} in flight",
                    alternate(found, work, TURNS),
                    Figure("per_second", "requests/s", (Aim("apache", at_least=1),)),
                    Figure("cpu_us", "broker CPU us", (Aim("apache", at_most=1),)),
                    Figure("client_cpu_us", "client CPU us each"),
                )


def requests(side: Side, turn: int, *, kind: str, in_flight: int) -> Seen:
    topic = f"{kind}-{turn}-{in_flight}"
    create_topic(side.port, topic)
    shape = {"port": side.port, "pid": side.pid, "topic": topic, "connections": 8, "in_flight": in_flight}
    seconds = SECONDS / 3
    if kind == "commit":
        seen = run("bench.coordinator_client", what="commits", group=topic, seconds=seconds, **shape)
    else:
        raw = run("bench.raw_client", what="produce", records=1, value_bytes=100, seconds=seconds, **shape)
        seen = {
            "per_second": raw["requests"] / raw["seconds"],
            "cpu_us": raw["broker_cpu"] / raw["requests"] * 1e6,
            "client_cpu_us": raw["client_cpu"] / raw["requests"] * 1e6,
        }
    delete_topic(side.port, topic)
    return seen


PARTS = {
    "rebalances": rebalances,
    "heartbeats": heartbeats,
    "transactions": transactions,
    "commits": commits,
    "loading": coordinator_load.main,
}


def main(names: list[str] | None = None) -> None:
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
