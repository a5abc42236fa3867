"""How fast does an empty follower catch up with 1 GiB? Beside `cp` of the same files to the same disk.

One partition on one broker; then a second one is told to have a replica as well, and the time is taken from the order
until its file is as long as the leader's, and until the leader has it in the ISR. Neither side syncs, and both read
what the page cache holds. Batches of 1 MB are what librdkafka makes under load, those of 16 KB what others make.
"""

import os
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.cluster_sides import Cluster, create_topic, ottla_cluster, partitions_of, wait_for
from bench.processes import IS_QUICK, REPETITIONS, has_compiled_broker
from bench.stored import batch_of
from bench.table import Seen, number, spread
from bench.wire import PRODUCE, call, exchange, produce_frame
from ottla.protocol.codec import decode
from ottla.protocol.messages.produce import ProduceResponse
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest as Reassignments,
)
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsResponse,
)

SIZE_BYTES = (256 << 20) if IS_QUICK else (1 << 30)
REASSIGN = (45, 0)
TOPIC = "copied"
AIM_MIN = 0.5
BATCH_RECORDS = {"1 MB": 990, "16 KB": 16}


def fill(cluster: Cluster, records: int) -> None:
    """Write so many bytes, in batches of so many records of 1 KB."""
    frame = produce_frame(TOPIC, 0, batch_of(records, 1000), acks=1)
    count = SIZE_BYTES // len(frame)
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=60) as connection:
        for _ in range(count):
            reply = decode(ProduceResponse, bytes(exchange(connection, frame)), PRODUCE[1], 5)[0]
            done = reply.responses[0].partition_responses[0]
            assert done.error_code == 0, done


def move(cluster: Cluster, *brokers: int) -> None:
    """Have the partition on these brokers from now on."""
    partition = Reassignments.Topic.Partition(partition_index=0, replicas=list(brokers))
    request = Reassignments(topics=[Reassignments.Topic(name=TOPIC, partitions=[partition])])
    done = call(cluster.port, REASSIGN, request, AlterPartitionReassignmentsResponse)
    assert done.error_code == 0 and done.responses[0].partitions[0].error_code == 0, done


def log_bytes(directory: Path) -> int:
    """The size of the partition's segments; 0 if it is not there."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(directory) if entry.name.endswith(".log"))
    except FileNotFoundError:
        return 0


def catch_up(cluster: Cluster, leader: Path, follower: Path) -> Seen:
    size, cpu = log_bytes(leader), cluster.cpu_seconds()
    begun = time.perf_counter()
    move(cluster, 1, 2)
    copied = wait_for(lambda: log_bytes(follower) == size, "the follower has everything")
    wait_for(lambda: 2 in partitions_of(cluster.port, TOPIC)[0].isr_nodes, "the follower is in sync")
    seen = {
        "MB/s": size / 1e6 / copied,
        "MB/s until it is in sync": size / 1e6 / (time.perf_counter() - begun),
        "CPU s of both for a GB": (cluster.cpu_seconds() - cpu) / size * 1e9,
    }
    move(cluster, 1)
    # The next turn must not share the disk with this one's pages.
    wait_for(lambda: not list(follower.parent.glob(f"{TOPIC}-0*")), "the follower has nothing")
    return seen


def copy(source: Path, target: Path) -> Seen:
    """`cp`, in a process of its own as the follower is."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(["cp", "-r", source, target], check=True)
    seconds, after = time.perf_counter() - begun, os.times()
    size = log_bytes(target)
    subprocess.run(["rm", "-r", target], check=True)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"MB/s": size / 1e6 / seconds, "CPU s of both for a GB": cpu / size * 1e9}


def measure(directory: Path, name: str, batches: str) -> None:
    with ottla_cluster(directory, compiled=name == "compiled", nodes=2) as cluster:
        create_topic(
            cluster, TOPIC, 1, {0: [1]}, **{"min.insync.replicas": "1", "max.message.bytes": "2000000"}
        )
        fill(cluster, BATCH_RECORDS[batches])
        leader, follower = (directory / f"{name}-{number}" / f"{TOPIC}-0" for number in (1, 2))
        ours: list[Seen] = []
        theirs: list[Seen] = []
        for turn in range(REPETITIONS):
            for is_ours in (turn % 2 == 0, turn % 2 != 0):
                if is_ours:
                    ours.append(catch_up(cluster, leader, follower))
                else:
                    theirs.append(copy(leader, directory / "copy"))
        show(
            f"a follower catches up with {log_bytes(leader) / 1e6:,.0f} MB, batches of {batches}",
            name,
            ours,
            theirs,
        )


def show(what: str, name: str, ours: list[Seen], theirs: list[Seen]) -> None:
    print(what, flush=True)
    for key in ours[0]:
        cp = theirs[0].get(key) and number(statistics.median(seen[key] for seen in theirs))
        print(
            f"  {key:<28} {name} {spread([seen[key] for seen in ours])}" + (f"  cp {cp}" if cp else ""),
            flush=True,
        )
    for key in ("MB/s", "MB/s until it is in sync"):
        found = [a[key] / b["MB/s"] for a, b in zip(ours, theirs, strict=True)]
        verdict = ", MISSED" if statistics.median(found) < AIM_MIN else ""
        print(f"    {name} / cp, {key}: {spread(found)} (aim: at least {AIM_MIN}{verdict})", flush=True)


def main() -> None:
    for name in ("pure", "compiled") if has_compiled_broker() else ("pure",):
        for batches in BATCH_RECORDS:
            with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
                measure(Path(directory), name, batches)


if __name__ == "__main__":
    main()
