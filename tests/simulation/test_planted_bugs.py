"""The simulation can fail: each of these bugs is found within a few seeds, and by the invariant that is about it."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ottla.groups import consumer_reconcile
from ottla.groups.classic import ClassicGroup
from ottla.groups.shard import GroupShard
from ottla.replication.machine import Decision
from ottla.testing.simulation.shard_host import SimShardHost
from ottla.transactions.shard import TransactionShard
from tests.simulation import cluster as clusters
from tests.simulation.cluster import Cluster
from tests.simulation.members import ClassicMember, ConsumerMember
from tests.simulation.seeds import first_violation
from tests.simulation.test_groups import run_group
from tests.simulation.test_transactions import run_copiers


class EagerHost(SimShardHost):
    """Replies, and carries out effects, before the high watermark has come by."""

    def _release(self, leadership, reply):
        reply()


class ForgetfulHost(SimShardHost):
    """Misses the last record when it loads."""

    def _load(self, leadership):
        if leadership is self._leadership and self.machine is None and leadership.records:
            *kept, last = leadership.records
            leadership.records = kept
            super()._load(leadership)
            leadership.records = [*kept, last]
        else:
            super()._load(leadership)


class DeafHost(SimShardHost):
    """Writes markers down, but does not tell its machine."""

    def _apply_end(self, machine, marker):
        pass


class NoBump(TransactionShard):
    """Ends transactions as before KIP-890: the next one has the same epoch."""

    def decide_end(self, request, asker, now):
        return super().decide_end(request, asker._replace(api_version=4), now)


class LooseMarkers(TransactionShard):
    """Marks its markers as those of old, whose epoch says nothing."""

    def _markers(self, transaction, partitions):
        return super()._markers(transaction, partitions)._replace(transaction_version=1)


class NoMarkersAfterLoading(TransactionShard):
    """Does not finish what its predecessor had decided."""

    def activate(self, now):
        pass


class ForgetsToWrite(GroupShard):
    """Commits offsets in memory only."""

    def decide_commit(self, request, asker, now):
        decision = super().decide_commit(request, asker, now)
        for entry in decision.entries:
            self.apply(entry, None)
        return Decision(decision.reply)


class Unfenced(GroupShard):
    """Lets everybody commit who names a generation that was."""

    def decide_txn_commit(self, request, asker, now):
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            request.generation_id, request.member_id = -1, ""
            group.check_commit = lambda *arguments, **named: None
        return super().decide_txn_commit(request, asker, now)


def with_(**parts) -> type[Cluster]:
    return type("BuggyCluster", (Cluster,), parts)


def classic(cluster_type) -> Callable[[int], object]:
    return lambda seed: run_group(ClassicMember, seed, cluster_type)


def consumer(cluster_type) -> Callable[[int], object]:
    return lambda seed: run_group(ConsumerMember, seed, cluster_type)


def copiers(cluster_type) -> Callable[[int], object]:
    return lambda seed: run_copiers(seed, cluster_type)


BUGS = {
    "a classic group's coordinator replies too early": (classic(with_(host_type=EagerHost)), "is committed"),
    "a consumer group's coordinator replies too early": (
        consumer(with_(host_type=EagerHost)),
        "is committed",
    ),
    "a coordinator loads too little": (classic(with_(host_type=ForgetfulHost)), ""),
    "a coordinator of consumers loads too little": (consumer(with_(host_type=ForgetfulHost)), ""),
    "offsets are not written": (classic(with_(group_shard=ForgetsToWrite)), "is committed"),
    "markers are written before the outcome stands": (copiers(with_(host_type=EagerHost)), ""),
    "markers do not reach the offsets": (copiers(with_(host_type=DeafHost)), ""),
    "epochs are not raised": (copiers(with_(transaction_shard=NoBump)), ""),
    "a late marker ends the next transaction": (copiers(with_(transaction_shard=LooseMarkers)), ""),
    "nobody writes the markers of a dead coordinator": (
        copiers(with_(transaction_shard=NoMarkersAfterLoading)),
        "in the end",
    ),
    "members of old generations commit": (copiers(with_(group_shard=Unfenced)), "earlier generation"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name):
    run, invariant = BUGS[name]
    violation = first_violation(run, 40)
    assert violation is not None, "not found"
    assert invariant in violation


def test_sessions_that_end_too_early_are_found(monkeypatch):
    short = SimpleNamespace(consumer_session_timeout_ms=300, consumer_heartbeat_interval_ms=150)
    monkeypatch.setattr(clusters, "CONSUMER_SETTINGS", short)
    violation = first_violation(consumer(Cluster), 40)
    assert violation is not None and "one owner at a time" in violation


def test_partitions_that_are_given_before_they_are_free_are_found(monkeypatch):
    step = consumer_reconcile._next
    monkeypatch.setattr(
        consumer_reconcile, "_next", lambda *known: step(*known[:-1], lambda *partition: True)
    )
    violation = first_violation(consumer(Cluster), 40)
    assert violation is not None and "one owner at a time" in violation


def test_revocations_that_are_not_awaited_are_found(monkeypatch):
    monkeypatch.setattr(consumer_reconcile, "_still_holds", lambda owned, partitions: False)
    violation = first_violation(consumer(Cluster), 40)
    assert violation is not None and "one owner at a time" in violation
