"""How soon do 300 partitions of a broker that was killed have new leaders?

Three brokers with a real ZooKeeper, a topic of 300 partitions with three replicas each, all led by one broker. That one
is killed with SIGKILL, and the time runs until both others name another leader for each partition. It includes the
session timeout, in which nobody can know: that is stated beside, and nothing is subtracted. Once the victim is a broker
like the others, once the controller, whose office must be taken over first. Where there is no ZooKeeper, the store of
one of the brokers is served, and that one is not killed.
"""

import contextlib
import os
import signal
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.cluster_sides import Cluster, create_topic, ottla_cluster, partitions_of, wait_for
from bench.processes import IS_QUICK, has_compiled_broker
from bench.table import spread
from bench.wire import METADATA, call
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

PARTITIONS = 300
SESSION_MS = 3_000
BEYOND_SESSION_S_MAX = 3.0
TURNS = 1 if IS_QUICK else 5
TOPIC = "led"


def controller_of(cluster: Cluster) -> int:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    found: int = call(cluster.port, METADATA, request, MetadataResponse).controller_id
    return found


def has_other_leaders(port: int, broker: int) -> bool:
    return all(each.leader_id not in (broker, -1) for each in partitions_of(port, TOPIC))


def fail_over(cluster: Cluster, victim: int) -> float:
    """Seconds from the kill until both others know other leaders."""
    others = [port for number, port in enumerate(cluster.ports, 1) if number != victim]
    os.kill(cluster.pids[victim - 1], signal.SIGKILL)
    return wait_for(lambda: all(has_other_leaders(port, victim) for port in others), "all have new leaders")


def turn(directory: Path, zookeeper: str, *, compiled: bool, is_controller: bool) -> float:
    settings = (f"zookeeper.session.timeout.ms={SESSION_MS}", f"broker.session.timeout.ms={SESSION_MS}")
    with ottla_cluster(directory, *settings, compiled=compiled, zookeeper=zookeeper) as cluster:
        controller = controller_of(cluster)
        victim = controller if is_controller else max({1, 2, 3} - {controller})
        others = sorted({1, 2, 3} - {victim})
        create_topic(
            cluster, TOPIC, PARTITIONS, {n: [victim, *others[:: 1 - 2 * (n % 2)]] for n in range(PARTITIONS)}
        )
        return fail_over(cluster, victim)


@contextlib.contextmanager
def store() -> Iterator[str]:
    """Where a real ZooKeeper is; empty, and a line about it, if there is none here."""
    from ottla.testing.zookeeper import Unavailable, ZooKeeper

    with contextlib.ExitStack() as stack:
        try:
            zookeeper = stack.enter_context(ZooKeeper())
        except Unavailable as error:
            print(f"without ZooKeeper: {error}")
            yield ""
        else:
            yield zookeeper.connect_string


def measure(zookeeper: str, *, compiled: bool, is_controller: bool) -> None:
    seconds = []
    for number in range(TURNS):
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
            chroot = f"{zookeeper}/{compiled}-{is_controller}-{number}" if zookeeper else ""
            took = turn(Path(directory), chroot, compiled=compiled, is_controller=is_controller)
        seconds.append(took)
    victim = "the controller" if is_controller else "a broker"
    build, where = "compiled" if compiled else "pure", "ZooKeeper" if zookeeper else "a served store"
    session_s = SESSION_MS / 1000
    verdict = ", MISSED" if statistics.median(seconds) > session_s + BEYOND_SESSION_S_MAX else ""
    print(f"{victim} that leads {PARTITIONS} partitions is killed ({build}, {where})", flush=True)
    print(f"  s until all have new leaders, session timeout of {session_s:g} s: {spread(seconds)}", end=" ")
    print(f"(aim: at most {session_s + BEYOND_SESSION_S_MAX:g}{verdict})", flush=True)


def main() -> None:
    with store() as zookeeper:
        for compiled in (False, True) if has_compiled_broker() else (False,):
            for is_controller in (False, True) if zookeeper else (False,):
                measure(zookeeper, compiled=compiled, is_controller=is_controller)


if __name__ == "__main__":
    main()
