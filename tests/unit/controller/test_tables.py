"""The tables of states, and what may be stored."""

import pytest

from ottla.controller import tables
from ottla.controller.context import NO_STATE
from ottla.controller.partitions import store
from ottla.controller.tables import PartitionPhase, ReplicaPhase
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import state

NEWBORN = state(NO_LEADER, "01", "", partition_epoch=NO_STATE, leader_epoch=-1)


def test_the_phase_of_a_partition_is_read_off_its_state():
    phases = [tables.partition_phase(s) for s in (None, NEWBORN, state(0, "0", "0"), state(-1, "0", ""))]
    assert phases == list(PartitionPhase)


def test_the_phase_of_a_replica_is_read_off_its_partition():
    led = state(0, "012", "0", offline=(1,))
    assert tables.replica_phase(None, 0, {0}) is ReplicaPhase.NON_EXISTENT
    assert tables.replica_phase(led, 7, {7}) is ReplicaPhase.NON_EXISTENT
    assert tables.replica_phase(NEWBORN, 0, {0}) is ReplicaPhase.NEW
    phases = [tables.replica_phase(led, id, {0, 1}) for id in (0, 1, 2)]
    assert phases == [ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.OFFLINE]


def test_a_replica_is_deleted_only_after_it_was_taken_offline():
    tables.check_replica_move(ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED)
    with pytest.raises(AssertionError, match="from OnlineReplica to ReplicaDeletionStarted"):
        tables.check_replica_move(ReplicaPhase.ONLINE, ReplicaPhase.DELETION_STARTED)


def test_every_phase_can_be_reached_and_left():
    for table in (tables.PARTITION_PREDECESSORS, tables.REPLICA_PREDECESSORS):
        phases = set(table)
        assert phases == {before for many in table.values() for before in many}
        reached = {next(iter(table))}
        while more := {after for after in phases - reached if reached & set(table[after])}:
            reached |= more
        assert reached == phases


@pytest.mark.parametrize(
    "wrong",
    [
        state(0, "01", "1"),
        state(NO_LEADER, "01", "1"),
        state(0, "01", "0", elr=(0,)),
        state(0, "01", "02"),
        state(0, "01", "0", elr=(2,)),
        state(0, "01", "0", last_known_leader=1),
    ],
)
def test_a_state_that_cannot_be_is_not_stored(wrong):
    with pytest.raises(AssertionError):
        store(wrong, 5, set())


@pytest.mark.parametrize(
    "after",
    [
        state(0, "01", "0", leader_epoch=2),
        state(1, "01", "01"),
        state(NO_LEADER, "01", ""),
        state(0, "01", "0", partition_epoch=8),
        state(0, "01", "0", partition_epoch=6),
    ],
)
def test_a_state_that_cannot_follow_is_not_stored(after):
    with pytest.raises(AssertionError):
        store(after, 5, set(), state(0, "01", "01"))
    with pytest.raises(AssertionError):
        tables.check_state(state(0, "01", "01"), NEWBORN)


def test_pictures_show_every_move():
    assert tables.render_partitions().splitlines()[:3] == [
        "stateDiagram-v2",
        "    OfflinePartition --> NonExistentPartition",
        "    NonExistentPartition --> NewPartition",
    ]
    assert tables.render_replicas().count("-->") == sum(map(len, tables.REPLICA_PREDECESSORS.values()))
