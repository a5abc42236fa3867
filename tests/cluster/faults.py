"""What is done to the cluster: a function for each fault, which strikes once and leaves everything running again.

A fault finds the cluster whole, and whoever called it waits until it is whole again. Seconds are those of the world: a
session of ZooKeeper ends after three of them, and what lasts longer outlives it.
"""

import random
import threading
from collections.abc import Callable
from typing import NamedTuple

from tests.cluster.ballast import ballast
from tests.cluster.brokers import BrokerHost, wait_until
from tests.cluster.cluster import GROUPS, SESSION_TIMEOUT_MS, TRANSACTIONS, FaultyCluster
from tests.cluster.hosts import cut
from tests.cluster.load import Load
from tests.cluster.power import lose_power

SHORT_CUT_SECONDS, LONG_CUT_SECONDS = 1.0, 2.5 * SESSION_TIMEOUT_MS / 1000
ZOOKEEPER_AWAY_SECONDS = 5.0
ISR_CHANGES_MAX = 4  # of a partition, in the minute for which a follower is slow


class Scene(NamedTuple):
    """Where a fault strikes. `is_long` in `make chaos`."""

    cluster: FaultyCluster
    load: Load
    source: random.Random
    is_long: bool

    def leader(self) -> BrokerHost:
        """Of one of the partitions that are written to."""
        topic, _, number = self.source.choice(self.load.keys).rpartition("-")
        found: list[int] = []
        wait_until(lambda: self._find_leader(topic, int(number), found), f"{topic}-{number} has a leader")
        return self.cluster.brokers[found[0]]

    def _find_leader(self, topic: str, number: int, found: list[int]) -> bool:
        found[:] = [self.cluster.state().partitions[topic, number].leader]
        return found[0] in self.cluster.brokers

    def last(self, seconds: float) -> None:
        """Let it last. The load goes on meanwhile, or would like to."""
        threading.Event().wait(seconds)


# --- brokers that die ----------------------------------------------------------------------------------------------


def kill_leader(scene: Scene) -> None:
    _kill(scene, scene.leader())


def kill_controller(scene: Scene) -> None:
    _kill(scene, scene.cluster.controller())


def kill_group_coordinator(scene: Scene) -> None:
    group = scene.source.choice(scene.load.groups).settings["group.id"]
    with scene.load.watched():
        _kill(scene, scene.cluster.coordinator_of(group, GROUPS))


def kill_txn_coordinator(scene: Scene) -> None:
    name = scene.source.choice(scene.load.transactional_ids)
    _kill(scene, scene.cluster.coordinator_of(name, TRANSACTIONS))


def _kill(scene: Scene, broker: BrokerHost) -> None:
    broker.kill()
    scene.cluster.wait_until_gone(broker)
    broker.start()


def restart_at_once(scene: Scene) -> None:
    """Its old session is still there when it comes back."""
    broker = scene.leader()
    broker.kill()
    broker.start()


def cut_power(scene: Scene) -> None:
    """Its disk forgets what was not synced. It comes back before its session is over, or after."""
    broker = scene.leader()
    broker.kill()
    lose_power(broker.data_dir)
    if scene.source.random() < 0.5:
        scene.cluster.wait_until_gone(broker)
    broker.start()


def roll(scene: Scene) -> None:
    """Every broker in turn, as an administrator does it."""
    for broker in scene.cluster.brokers.values():
        assert broker.terminate() == 0, broker.last_words()
        broker.start()
        scene.cluster.wait_until_whole()


# --- brokers that stand still --------------------------------------------------------------------------------------


def stop_controller(scene: Scene) -> None:
    _stop(scene, scene.cluster.controller(), LONG_CUT_SECONDS)


def stop_leader(seconds: float) -> Callable[[Scene], None]:
    return lambda scene: _stop(scene, scene.leader(), seconds)


def _stop(scene: Scene, broker: BrokerHost, seconds: float) -> None:
    broker.stop()
    try:
        scene.last(seconds)
    finally:
        broker.wake()


# --- cables --------------------------------------------------------------------------------------------------------


def unplug_leader(scene: Scene) -> None:
    scene.leader().host.unplug()
    scene.last(LONG_CUT_SECONDS)
    scene.cluster.network.heal()


def deafen_leader(scene: Scene) -> None:
    """It hears no broker and no ZooKeeper; they hear it. Clients are as before."""
    leader = scene.leader()
    leader.host.ignore(scene.cluster.hosts_but(leader))
    scene.last(LONG_CUT_SECONDS)
    scene.cluster.network.heal()


def silence_leader(scene: Scene) -> None:
    """No broker and no ZooKeeper hears it; it hears them. Clients are as before."""
    leader = scene.leader()
    for host in scene.cluster.hosts_but(leader):
        host.ignore([leader.host])
    scene.last(LONG_CUT_SECONDS)
    scene.cluster.network.heal()


def cut_leader_from_followers(scene: Scene) -> None:
    leader = scene.leader()
    followers = [host for host in scene.cluster.broker_hosts if host is not leader.host]
    cut([leader.host], followers)
    scene.last(LONG_CUT_SECONDS)
    scene.cluster.network.heal()


def cut_leader_from_zookeeper(scene: Scene) -> None:
    cut([scene.leader().host], scene.cluster.zookeeper_hosts)
    scene.last(LONG_CUT_SECONDS)
    scene.cluster.network.heal()


def jepsen_2013(scene: Scene) -> None:
    """The leader and ZooKeeper on one side, the followers on the other; then the leader dies, and all is healed.

    Whatever the leader acknowledged when it was alone would be lost. It must not acknowledge anything."""
    cluster, leader = scene.cluster, scene.leader()
    followers = [host for host in cluster.broker_hosts if host is not leader.host]
    cut([leader.host, *cluster.zookeeper_hosts], followers)
    scene.last(LONG_CUT_SECONDS)
    leader.kill()
    cluster.network.heal()
    scene.last(SESSION_TIMEOUT_MS / 1000)
    leader.start()


def slow_follower(scene: Scene) -> None:
    """A host at one megabit per second, and more than that to follow. Partitions lose it from their ISR, once."""
    cluster = scene.cluster
    topic = scene.load.create_ballast()
    before = cluster.wait_until_whole()
    leader = before.partitions[topic, 0].leader
    slow = next(broker for number, broker in cluster.brokers.items() if number != leader)
    with ballast(cluster.bootstrap_servers, topic):
        slow.host.slow_down("1mbit")
        wait_until(lambda: not cluster.is_in_sync(slow, topic), f"{slow.number} cannot keep up")
        scene.last(60.0 if scene.is_long else 5.0)
        changes = cluster.state().isr_changes_since(before)
    cluster.network.heal()
    assert max(changes.values()) <= ISR_CHANGES_MAX, changes


def storm(scene: Scene) -> None:
    """One after the other, as chance has it, and nobody waits until the cluster is whole again."""
    for strike in scene.source.sample(STORM, STORM_STRIKES):
        strike(scene)


# --- ZooKeeper -----------------------------------------------------------------------------------------------------


def kill_zookeeper_leader(scene: Scene) -> None:
    zookeeper = scene.cluster.zookeeper
    leader = zookeeper.leader()
    assert leader is not None, "ZooKeeper has no leader"
    zookeeper.kill(leader)
    wait_until(lambda: zookeeper.leader() is not None, "ZooKeeper has a new leader")
    scene.last(SHORT_CUT_SECONDS)
    zookeeper.start_server(leader)
    zookeeper.wait_until_serving()


def lose_quorum(scene: Scene) -> None:
    zookeeper = scene.cluster.zookeeper
    away = scene.source.sample(range(len(zookeeper)), 2)
    for index in away:
        zookeeper.kill(index)
    scene.last(10.0 if scene.is_long else 5.0)
    for index in away:
        zookeeper.start_server(index)
    zookeeper.wait_until_serving()


def restart_zookeeper(scene: Scene) -> None:
    zookeeper = scene.cluster.zookeeper
    zookeeper.kill_all()
    scene.last(ZOOKEEPER_AWAY_SECONDS)
    for index in range(len(zookeeper)):
        zookeeper.start_server(index)
    zookeeper.wait_until_serving()


STORM = [
    kill_leader, restart_at_once, stop_leader(5.0), unplug_leader, deafen_leader, silence_leader,
    cut_leader_from_followers, cut_leader_from_zookeeper, lose_quorum, restart_zookeeper, jepsen_2013,
]  # fmt: skip
STORM_STRIKES = 5


DEATH_S = SESSION_TIMEOUT_MS / 1000 + 3


class Fault(NamedTuple):
    """What is done, and how often: in `make test`, and in `make chaos`."""

    name: str
    sentence: str
    strike: Callable[[Scene], None]
    short: int
    full: int
    away_seconds_max: float | None = None
    """For how long no partition should be away, on a machine that is not too busy. The table has it; no test does."""
    is_gentle: bool = False
    """Clients see no error: whatever happens, their own retries hide it."""


FAULTS = [
    Fault("kill-leader", "`kill -9` of a leader, started again when its session is over", kill_leader, 3, 20, DEATH_S),
    Fault("restart-at-once", "`kill -9` of a leader, started again at once", restart_at_once, 3, 10, DEATH_S),
    Fault("kill-controller", "`kill -9` of the controller", kill_controller, 1, 3, DEATH_S),
    Fault("stop-controller", "SIGSTOP of the controller for 7.5 s", stop_controller, 1, 3, DEATH_S),
    Fault("zombie-1s", "SIGSTOP of a leader for 1 s", stop_leader(1.0), 1, 3),
    Fault("zombie-5s", "SIGSTOP of a leader for 5 s", stop_leader(5.0), 1, 3),
    Fault("zombie-15s", "SIGSTOP of a leader for 15 s", stop_leader(15.0), 0, 3),
    Fault("unplugged", "a leader's host unplugged for 7.5 s", unplug_leader, 1, 3, DEATH_S),
    Fault("deaf", "a leader that hears no broker and no ZooKeeper for 7.5 s", deafen_leader, 1, 3),
    Fault("silent", "a leader that no broker and no ZooKeeper hears for 7.5 s", silence_leader, 1, 3),
    Fault("alone", "a leader cut off from its followers for 7.5 s", cut_leader_from_followers, 1, 3),
    Fault("no-zookeeper", "a leader cut off from ZooKeeper for 7.5 s", cut_leader_from_zookeeper, 1, 3),
    Fault("zookeeper-leader", "`kill -9` of ZooKeeper's leader", kill_zookeeper_leader, 1, 3, 1.0, True),
    Fault("no-quorum", "ZooKeeper without a quorum for 10 s (5 s in `make test`)", lose_quorum, 1, 3, 1.0, True),
    Fault("zookeeper-restart", "`kill -9` of all of ZooKeeper, away for 5 s", restart_zookeeper, 1, 3, None, True),
    Fault("rolling-restart", "SIGTERM and start of all brokers in turn", roll, 1, 3, 1.0, True),
    Fault("jepsen-2013", "leader and ZooKeeper cut off from the followers, then the leader killed", jepsen_2013, 1, 3),
    Fault("slow-follower", "a host at 1 Mbit/s for a minute (seconds in `make test`)", slow_follower, 1, 1),
    Fault("group-coordinator", "`kill -9` of a group's coordinator", kill_group_coordinator, 1, 5, DEATH_S),
    Fault("transaction-coordinator", "`kill -9` of a transaction's coordinator", kill_txn_coordinator, 1, 5, DEATH_S),
    Fault("storm", "five of these in a row, as chance has it, with no time to recover", storm, 0, 5),
]  # fmt: skip
POWER_LOSS = Fault(
    "power-loss", "a leader loses power, and what it had not synced", cut_power, 3, 20, DEATH_S
)
