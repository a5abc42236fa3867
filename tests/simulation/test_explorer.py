"""Every order of events in small worlds: whoever may be elected has everything that was committed."""

from types import FunctionType

import pytest

from ottla.replication.partition import Partition
from ottla.testing.simulation.explorer.ledger import Broken, Ledger, judge
from ottla.testing.simulation.explorer.moves import Moves
from ottla.testing.simulation.explorer.office import Office
from ottla.testing.simulation.explorer.replicas import REPLICAS, Entry, Replica, Workshop, born, down
from ottla.testing.simulation.explorer.scopes import DEEP, SCOPES, Scope
from ottla.testing.simulation.explorer.search import explore

pytestmark = pytest.mark.skipif(
    not isinstance(vars(Partition)["append"], FunctionType), reason="compiled classes take real logs only"
)
A, B = Entry(0, 0), Entry(1, 0)


@pytest.mark.parametrize("name", SCOPES)
def test_everything_holds_in(name):
    report = explore(SCOPES[name])
    assert report.violation is None, str(report)
    assert report.is_complete or report.states >= report.scope.states_max, str(report)
    assert report.states > 1_000, "a scope in which nothing happens shows nothing"


@pytest.mark.parametrize("name", DEEP)
def test_the_first_of_what_happens_in(name):
    report = explore(DEEP[name].wider(states_max=3_000))
    assert report.violation is None, str(report)
    assert not report.is_complete


def test_the_same_scope_is_explored_the_same_way():
    first, second = (explore(SCOPES["retries"]) for _ in range(2))
    assert (first.states, first.moves, first.depth) == (second.states, second.moves, second.depth)


def test_a_violation_is_told_as_the_shortest_story(monkeypatch):
    monkeypatch.setattr(Partition, "check_epoch", lambda self, asked: None)
    report = explore(SCOPES["fence"])
    assert report.violation == "broker 3 is in sync with nothing, but a0 was committed"
    assert report.trace[0] == "broker 1, leader in epoch 0, writes a at offset 0"
    assert "the controller lets broker 2 lead" in report.trace
    assert len(report.trace) == 10
    assert "VIOLATION" in str(report)


def test_a_machine_that_breaks_is_a_violation_too(monkeypatch):
    def broken(*args):
        raise AssertionError("never")

    monkeypatch.setattr(Partition, "propose", broken)
    report = explore(SCOPES["isr"])
    assert report.violation == "AssertionError: never"


# --- what is kept of a replica ------------------------------------------------------------------------------------


def partition_of(moves, at):
    return moves.machines.replicas[moves.first().replicas[at]]


def test_a_replica_that_is_thawed_and_frozen_is_the_same():
    moves = Moves(Scope("any", "anything"))
    workshop = Workshop()
    leader, follower = partition_of(moves, 0), partition_of(moves, 1)
    leader = workshop.append(leader, 0)
    assert leader.entries == (A,)
    assert leader.high_watermark == 0
    for replica in (leader, follower):
        assert workshop.orders(replica, replica.state) == replica


def test_of_a_dead_broker_the_log_is_left_and_a_power_loss_leaves_less():
    replica = Replica(2, life=4, entries=(A, B), high_watermark=2)
    assert down(replica).entries == (A, B)
    assert down(replica, cut_at=1).entries == (A,)
    reborn = born(down(replica), 2)
    assert (reborn.life, reborn.is_up, reborn.high_watermark) == (5, True, 0)


# --- the judge ----------------------------------------------------------------------------------------------------


def test_the_judge_sees_who_lacks_what_was_committed():
    moves = Moves(Scope("any", "anything"))
    office = moves.machines.offices[moves.first().office]
    replicas = [Replica(id, 0, (A,) if id < 3 else ()) for id in REPLICAS]
    with pytest.raises(Broken, match="broker 3 is in sync with nothing, but a0 was committed"):
        judge(replicas, office, Ledger(committed=(A,)))


def test_who_has_lost_its_log_unseen_is_not_to_blame():
    moves = Moves(Scope("any", "anything"))
    office: Office = moves.machines.offices[moves.first().office]
    replicas = [Replica(id, 0, (A,) if id < 3 else ()) for id in REPLICAS]
    ledger = Ledger(committed=(A,), damaged=(-1, -1, 0))
    assert judge(replicas, office, ledger) == ledger
    with pytest.raises(Broken):  # but the controller knows the next life by now
        judge(replicas, office._replace(stored=(0, 0, 1)), ledger)


def test_the_judge_sees_logs_that_part_and_meet_again():
    moves = Moves(Scope("any", "anything"))
    office = moves.machines.offices[moves.first().office]
    replicas = [Replica(1, 0, (A, B)), Replica(2, 0, (Entry(2, 0), B)), Replica(3, 0)]
    with pytest.raises(Broken, match="part and meet again"):
        judge(replicas, office, Ledger())


def test_the_judge_sees_a_record_that_is_there_twice():
    moves = Moves(Scope("any", "anything"))
    office = moves.machines.offices[moves.first().office]
    with pytest.raises(Broken, match="twice"):
        judge([Replica(1, 0, (A, A)), Replica(2, 0), Replica(3, 0)], office, Ledger())
