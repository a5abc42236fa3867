"""Three brokers and three ZooKeeper servers, each on a host of its own, for all faults of a module.

It is whole when every broker is registered, every partition has all its replicas in sync, and the brokers believe so
too. Faults leave it whole; one that could not heals it by force, so that the next one is not blamed.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.broker.coordinators import place_of
from ottla.testing import zookeeper
from ottla.testing.zookeeper import ZooKeeper
from tests.cluster import hosts
from tests.cluster.brokers import BrokerHost, wait_until
from tests.cluster.hosts import Host, Network
from tests.cluster.power import mounted
from tests.cluster.state import UNREADABLE, ClusterState, read_state

BROKERS, ZOOKEEPERS = 3, 3
SESSION_TIMEOUT_MS = 3000
WHOLE_SECONDS_MAX = 120.0
COORDINATOR_PARTITIONS = 5
SETTINGS: Mapping[str, object] = {
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
    "zookeeper.connection.timeout.ms": 30_000,
    "replica.lag.time.max.ms": 3000,
    # A host that was cut off does not say so: whoever waits for it gives up after this, not after half a minute.
    "replica.socket.timeout.ms": 2000,
    "controller.socket.timeout.ms": 2000,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": COORDINATOR_PARTITIONS,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": COORDINATOR_PARTITIONS,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "log.segment.bytes": 1 << 18,  # so that segments are rolled while it is broken
}
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def ensure() -> None:
    """Skip the test where there can be no such cluster."""
    hosts.ensure()
    try:
        zookeeper.ensure()
    except zookeeper.Unavailable as reason:
        pytest.skip(str(reason))


class FaultyCluster:
    """The cluster, and the handles by which it is broken. If it is forgetful, so are the disks of its brokers."""

    def __init__(self, path: Path, *, is_forgetful: bool = False) -> None:
        self.path = path
        self._is_forgetful = is_forgetful
        self.network = Network()
        self.brokers: dict[int, BrokerHost] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "FaultyCluster":
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.network)
            self.zookeeper_hosts = [self.network.add(f"zookeeper-{n}") for n in range(ZOOKEEPERS)]
            self.zookeeper = stack.enter_context(
                ZooKeeper(
                    ZOOKEEPERS,
                    directory=self.path / "zookeeper",
                    hosts=[host.address for host in self.zookeeper_hosts],
                    prefixes=[host.command() for host in self.zookeeper_hosts],
                )
            )
            for number in range(1, BROKERS + 1):
                self.brokers[number] = self._broker(number, stack)
                stack.callback(self.brokers[number].kill)
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def _broker(self, number: int, stack: contextlib.ExitStack) -> BrokerHost:
        host, data = self.network.add(f"broker-{number}"), self.path / f"broker-{number}"
        if self._is_forgetful:
            stack.enter_context(mounted(data))
        output = self.path / f"broker-{number}.txt"
        return BrokerHost(host, number, self.zookeeper.connect_string, data, output, SETTINGS)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def broker_hosts(self) -> list[Host]:
        return [broker.host for broker in self.brokers.values()]

    def hosts_but(self, broker: BrokerHost) -> list[Host]:
        """The other brokers and all of ZooKeeper."""
        return [host for host in self.broker_hosts + self.zookeeper_hosts if host is not broker.host]

    # --- asking ----------------------------------------------------------------------------------------------------

    def state(self) -> ClusterState:
        """Asks again while ZooKeeper elects, or has just come back."""
        found: list[ClusterState] = []
        wait_until(lambda: self._reads_state(found), "ZooKeeper answers")
        return found[0]

    def _reads_state(self, found: list[ClusterState]) -> bool:
        with contextlib.suppress(*UNREADABLE):
            found.append(read_state(self.zookeeper.connect_string))
        return bool(found)

    def leader_of(self, topic: str, partition: int) -> BrokerHost:
        return self.brokers[self.state().partitions[topic, partition].leader]

    def coordinator_of(self, name: str, topic: str) -> BrokerHost:
        """Of a group if `topic` is GROUPS, of a transactional id if it is TRANSACTIONS."""
        return self.leader_of(topic, place_of(name, COORDINATOR_PARTITIONS))

    def is_in_sync(self, broker: BrokerHost, topic: str) -> bool:
        return broker.number in self.state().partitions[topic, 0].isr

    def controller(self) -> BrokerHost:
        number = self.state().controller
        assert number is not None, "there is no controller"
        return self.brokers[number]

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait_until_gone(self, broker: BrokerHost) -> None:
        """Until ZooKeeper has ended its session."""
        wait_until(lambda: broker.number not in self.state().brokers, f"{broker.number} is not registered")

    def wait_until_whole(self) -> ClusterState:
        found = ["nobody has looked"]
        try:
            wait_until(lambda: self._is_whole(found), "whole", WHOLE_SECONDS_MAX)
        except AssertionError:
            raise AssertionError(f"not whole after {WHOLE_SECONDS_MAX:.0f} s: {'; '.join(found)}") from None
        return self.state()

    def _is_whole(self, found: list[str]) -> bool:
        try:
            found[:] = self.state().faults(BROKERS)
            for number, broker in self.brokers.items():
                if not found and (count := broker.metric("ottla_under_replicated_partitions")):
                    found.append(f"{number} says that {count:.0f} partitions are not in sync")
        except OSError as error:
            found[:] = [f"a broker does not answer: {error}"]
        return not found

    def mend(self) -> None:
        """Whatever was done to it: everything runs again, and everybody hears everybody."""
        self.network.heal()
        for index in range(ZOOKEEPERS):
            if self.zookeeper.pid(index) is None:
                self.zookeeper.start_server(index)
            self.zookeeper.resume(index)
        for broker in self.brokers.values():
            if broker.is_running:
                broker.wake()
            else:
                broker.kill()
                broker.launch()
        self.zookeeper.wait_until_serving()
