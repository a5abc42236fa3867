"""Three brokers as processes that share one metadata store, and one alone: what measurements of clusters compare.

The store of Ottla's brokers is the one that the first of them serves, or ZooKeeper where elections are measured. Every
process is asked for its CPU time; that of the store is within the first broker's, and ZooKeeper's is not counted.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.processes import (
    cpu_seconds,
    environment,
    free_port,
    has_compiled_broker,
    ottla_command,
    started,
)
from bench.wire import CREATE_TOPICS, METADATA, call
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse

NODES = 3
PATIENCE_S = 120.0
SETTINGS = ("log.segment.delete.delay.ms=1000",)


class Cluster(NamedTuple):
    """One of those that take turns. `acks` and `replicas` are how it is asked to keep records."""

    name: str
    ports: list[int]
    pids: list[int]
    acks: int = -1
    replicas: int = NODES

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def pid(self) -> int:
        return self.pids[0]

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self.pids))


@contextlib.contextmanager
def ottla_cluster(
    directory: Path, *settings: str, compiled: bool = False, nodes: int = NODES, zookeeper: str = ""
) -> Iterator[Cluster]:
    """Brokers 1 to `nodes`, all of which know each other when this yields."""
    name = "compiled" if compiled else "pure"
    store = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        sides = []
        for number in range(1, nodes + 1):
            role = "listen" if number == 1 else "connect"
            place = f"zookeeper.connect={zookeeper}" if zookeeper else f"metadata.store.{role}={store}"
            command = broker_command(directory / f"{name}-{number}", number, place, *settings)
            sides.append(stack.enter_context(started(name, command, environment(compiled=compiled))))
        cluster = Cluster(name, [side.port for side in sides], [side.pid for side in sides])
        wait_for(
            lambda: all(len(brokers_of(port)) == nodes for port in cluster.ports),
            "all brokers know each other",
        )
        yield cluster


def broker_command(directory: Path, number: int, *settings: str) -> list[str]:
    return ottla_command(directory, 0, f"broker.id={number}", *SETTINGS, *settings)


@contextlib.contextmanager
def alone(directory: Path, *, compiled: bool = False) -> Iterator[Cluster]:
    """One broker, asked for acks=1: what replication is held against."""
    name = "one compiled" if compiled else "one"
    command = ottla_command(directory / name.replace(" ", "-"), 0, *SETTINGS)
    with started(name, command, environment(compiled=compiled)) as side:
        yield Cluster(name, [side.port], [side.pid], acks=1, replicas=1)


@contextlib.contextmanager
def apache(directory: Path) -> Iterator[Cluster]:
    from bench.apache_cluster import apache_cluster

    with apache_cluster(directory, {"log.segment.delete.delay.ms": "1000"}) as (ports, pids):
        yield Cluster("apache", ports, pids)


@contextlib.contextmanager
def all_clusters() -> Iterator[list[Cluster]]:
    """Those that can be had here, and a line about each that cannot."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-")))
        openers: list[tuple[str, Callable[[], contextlib.AbstractContextManager[Cluster]]]] = [
            ("one", lambda: alone(directory)),
            ("pure", lambda: ottla_cluster(directory)),
        ]
        if has_compiled_broker():
            openers.append(("one compiled", lambda: alone(directory, compiled=True)))
            openers.append(("compiled", lambda: ottla_cluster(directory, compiled=True)))
        else:
            print("without the compiled build: there is none; `make compiled` makes it")
        openers.append(("apache", lambda: apache(directory)))
        clusters = []
        for name, opener in openers:
            try:
                clusters.append(stack.enter_context(opener()))
            except Exception as error:  # a side that is missing leaves the others comparable
                print(f"without {name}: {str(error).splitlines()[0] if str(error) else error!r}")
        yield clusters


# --- topics -----------------------------------------------------------------------------------------------------------


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int,
    assignment: Mapping[int, Sequence[int]] | None = None,
    **configs: str,
) -> None:
    """The topic, with every replica in sync when this returns. Two must be in sync where there are three."""
    wanted = CreateTopicsRequest.Topic(
        name=topic,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else cluster.replicas,
        assignments=[
            CreateTopicsRequest.Topic.Assignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (assignment or {}).items()
        ],
        configs=[],
    )
    said = {"min.insync.replicas": str(min(2, cluster.replicas)), **configs}
    wanted.configs = [CreateTopicsRequest.Topic.Setting(name=key, value=value) for key, value in said.items()]
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000, validate_only=False)
    done = call(cluster.port, CREATE_TOPICS, request, CreateTopicsResponse).topics[0]
    assert done.error_code == 0, done
    wait_for(lambda: all(is_whole(port, topic, partitions) for port in cluster.ports), f"{topic} is in sync")


def brokers_of(port: int) -> list[MetadataResponse.Broker]:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    found: list[MetadataResponse.Broker] = call(port, METADATA, request, MetadataResponse).brokers
    return found


def partitions_of(port: int, topic: str) -> "list[MetadataResponse.Topic.Partition]":
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False)
    found: list[MetadataResponse.Topic.Partition] = (
        call(port, METADATA, request, MetadataResponse).topics[0].partitions
    )
    return found


def is_whole(port: int, topic: str, partitions: int) -> bool:
    """Has each partition a leader, and all of its replicas in sync, as this broker knows it?"""
    found = partitions_of(port, topic)
    return len(found) == partitions and all(
        each.leader_id >= 0 and set(each.isr_nodes) == set(each.replica_nodes) for each in found
    )


def wait_for(condition: Callable[[], bool], what: str, seconds_max: float = PATIENCE_S) -> float:
    """Until it holds; how many seconds that took."""
    begun = time.perf_counter()
    while not condition():
        if time.perf_counter() - begun > seconds_max:
            raise RuntimeError(f"not after {seconds_max:g} seconds: {what}")
        time.sleep(0.005)
    return time.perf_counter() - begun
