"""What do three replicas cost? Produce with acks=all to three brokers, beside acks=1 to one, and Apache Kafka's three.

Records of 1 KB from librdkafka as it batches by itself, over six partitions, so that each of three brokers leads two;
then one record at a time, with one in flight. All brokers and the client share the cores of one machine, so that
throughput is also a question of CPU time: it is printed as seconds for a gigabyte, of all brokers together.
"""

import statistics

from bench.cluster_sides import Cluster, all_clusters, create_topic
from bench.processes import IS_QUICK
from bench.table import Aim, Seen, Series, alternate, judge, number, run, spread
from bench.wire import delete_topic

CLIENT = "bench.librdkafka_client"
PARTITIONS = 6
IDLE_PARTITIONS = 300
VALUE_BYTES = 1000
COUNT = 50_000 if IS_QUICK else 300_000
SYNC_SECONDS = 1.0 if IS_QUICK else 3.0
WARM_UP_TURNS = 1 if IS_QUICK else 3
OF_ALONE_MIN = 0.3
ALONE = {"pure": "one", "compiled": "one compiled"}


def with_topic(cluster: Cluster, topic: str, **arguments: object) -> Seen:
    """Measure on a topic of its own, which is gone afterwards."""
    create_topic(cluster, topic, PARTITIONS)
    try:
        return run(
            CLIENT,
            port=cluster.port,
            pids=cluster.pids,
            acks=cluster.acks,
            partitions=PARTITIONS,
            topic=topic,
            **arguments,
        )
    finally:
        delete_topic(cluster.port, topic)


def produce(cluster: Cluster, turn: int) -> Seen:
    seen = with_topic(cluster, f"produce{turn}", what="produce", value_bytes=VALUE_BYTES, count=COUNT)
    megabytes = seen["bytes"] / 1e6
    return {
        "MB/s": megabytes / seen["seconds"],
        "CPU s of the brokers for a GB": seen["broker_cpu"] / megabytes * 1000,
        "CPU s of the client for a GB": seen["client_cpu"] / megabytes * 1000,
    }


def sync(cluster: Cluster, turn: int) -> Seen:
    seen = with_topic(cluster, f"sync{turn}", what="sync", seconds=SYNC_SECONDS)
    return {
        "p50 us": seen["p50_us"],
        "p99 us": seen["p99_us"],
        "CPU us of the brokers for a record": seen["broker_cpu"] / seen["count"] * 1e6,
    }


def show(what: str, series: Series) -> None:
    """Medians of all sides; below them ours beside one broker alone and beside Apache Kafka's three."""
    print(what, flush=True)
    for key, values in series.items():
        medians = "  ".join(f"{name} {number(statistics.median(each))}" for name, each in values.items())
        print(f"  {key:<36} {medians}", flush=True)
        for name, one in ALONE.items():
            for other in (one, "apache"):
                if name in values and other in values:
                    compare(key, name, other, values)


def compare(key: str, name: str, other: str, values: dict[str, list[float]]) -> None:
    """Against one broker there is an aim for throughput only: the rest says what replicas cost."""
    if key == "MB/s":
        judge(name, values, Aim(other, at_least=1 if other == "apache" else OF_ALONE_MIN))
    elif other == "apache" and "client" not in key:
        judge(name, values, Aim(other, at_most=1))
    else:
        found = [a / b for a, b in zip(values[name], values[other], strict=True)]
        print(f"    {name} / {other}: {spread(found)}", flush=True)


def idle(clusters: list[Cluster]) -> None:
    """The same beside partitions in which nothing happens: a follower asks about all of them in one fetch."""
    for cluster in clusters:
        create_topic(cluster, "idle", IDLE_PARTITIONS)
    show(f"one record at a time beside {IDLE_PARTITIONS} idle partitions", alternate(clusters, sync))
    for cluster in clusters:
        delete_topic(cluster.port, "idle")


def warm_up(clusters: list[Cluster]) -> list[Cluster]:
    """What is not counted: a JVM compiles what it has seen often, and each Python has its first time, too.

    Those that have come through it.
    """
    ready = []
    for cluster in clusters:
        try:
            for turn in range(1, WARM_UP_TURNS + 1):
                produce(cluster, -turn)
                sync(cluster, -turn)
        except (RuntimeError, AssertionError, OSError) as error:
            print(f"without {cluster.name}: {error}", flush=True)
        else:
            ready.append(cluster)
    return ready


def main() -> None:
    with all_clusters() as clusters:
        clusters = warm_up(clusters)
        show("librdkafka, 1 KB", alternate(clusters, produce))
        show("one record at a time", alternate(clusters, sync))
        idle(clusters)


if __name__ == "__main__":
    main()
