"""Is a cluster healthy? A judgement over what its brokers have said, and how it reads. Pure: nobody is asked here.

It is healthy if it has a controller, all brokers that are expected are there and answer, and every partition has a
leader, all its replicas in sync, and as many of them as producers with acks=all need. A partition that is led by
another than its preferred replica is well; so is one that is being moved, if those that it had are in sync.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.cli.cluster_state import NO_LEADER, Eligible, Move, Partition, Snapshot, numbered
from ottla.core.ids import TopicPartition

OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED = "offline", "under_min_isr", "under_replicated"
SEVERITY = (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED)
"""What can be wrong with a partition, the worst first."""
WORST_MAX = 8
_NOTHING = Eligible((), ())
_WORDS = {
    OFFLINE: ("has no leader", "have no leader"),
    UNDER_MIN_ISR: (
        "has fewer replicas in sync than acks=all needs",
        "have fewer replicas in sync than acks=all needs",
    ),
    UNDER_REPLICATED: ("is under-replicated", "are under-replicated"),
}
"""What is said of one partition, and of several."""


class Seen(NamedTuple):
    """What was heard. Of topics that are not in `min_insync` nobody knows."""

    snapshot: Snapshot
    silent: Mapping[int, str]
    """Brokers that are registered and do not answer, and what happened instead."""
    moves: Mapping[TopicPartition, Move]
    min_insync: Mapping[str, int]
    eligible: Mapping[TopicPartition, Eligible]
    brokers_expected: int | None = None


class Report(NamedTuple):
    """The judgement. Partitions with faults stand in the order of their severity."""

    seen: Seen
    faults: dict[TopicPartition, tuple[str, ...]]
    problems: tuple[str, ...]
    """Sentences: why it is not healthy."""

    @property
    def is_healthy(self) -> bool:
        return not self.problems

    def how_many(self, fault: str) -> int:
        return sum(fault in faults for faults in self.faults.values())

    @property
    def not_preferred(self) -> int:
        """Partitions that are led, but not by the first of their replicas."""
        partitions = self.seen.snapshot.partitions.values()
        return sum(each.leader != NO_LEADER and not each.is_led_as_preferred for each in partitions)

    # --- as it is shown -----------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        snapshot = self.seen.snapshot
        return {
            "is_healthy": self.is_healthy,
            "problems": list(self.problems),
            "cluster_id": snapshot.cluster_id,
            "controller": snapshot.controller,
            "brokers": sorted(snapshot.nodes),
            "brokers_expected": self.seen.brokers_expected,
            "brokers_missing": missing(self.seen),
            "brokers_silent": sorted(self.seen.silent),
            **self.counts(),
            "worst": self.worst(),
        }

    def counts(self) -> dict[str, int]:
        return {
            "partitions": len(self.seen.snapshot.partitions),
            **{fault: self.how_many(fault) for fault in SEVERITY},
            "not_preferred": self.not_preferred,
            "reassigning": len(self.seen.moves),
        }

    def summary(self) -> list[dict[str, Any]]:
        """A line for each thing that counts."""
        snapshot, expected = self.seen.snapshot, self.seen.brokers_expected
        brokers = f"{len(snapshot.nodes)}{'' if expected is None else f' of {expected}'}"
        told = {
            "state": "healthy" if self.is_healthy else "unhealthy",
            "brokers": brokers,
            "controller": snapshot.controller,
            **self.counts(),
        }
        return [
            {"what": name, "value": None if value is None else str(value)} for name, value in told.items()
        ]

    def worst(self) -> list[dict[str, Any]]:
        """The partitions that need help most."""
        return [self._row(place, faults) for place, faults in list(self.faults.items())[:WORST_MAX]]

    def _row(self, place: TopicPartition, faults: tuple[str, ...]) -> dict[str, Any]:
        partition = self.seen.snapshot.partitions[place]
        may_lead = self.seen.eligible.get(place, _NOTHING)
        return {
            "topic": place.topic,
            "partition": place.partition,
            "leader": None if partition.leader == NO_LEADER else partition.leader,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "min_isr": self.seen.min_insync.get(place.topic),
            "elr": list(may_lead.elr),
            "last_known_elr": list(may_lead.last_known_elr),
            "fault": faults[0],
            "faults": list(faults),
        }


def judge(seen: Seen) -> Report:
    found = {
        place: faults
        for place, each in seen.snapshot.partitions.items()
        if (faults := faults_of(each, seen.min_insync.get(each.topic), seen.moves.get(place)))
    }
    in_sync = {place: len(seen.snapshot.partitions[place].isr) for place in found}
    order = sorted(found, key=lambda place: (SEVERITY.index(found[place][0]), in_sync[place], place))
    report = Report(seen, {place: found[place] for place in order}, ())
    return report._replace(problems=tuple(_problems(report)))


def faults_of(partition: Partition, min_insync: int | None, move: Move | None = None) -> tuple[str, ...]:
    """What is wrong with it. New replicas of a move have not come yet: they are not missed."""
    factor = len(partition.replicas) - (len(move.adding) if move is not None else 0)
    needed = 0 if min_insync is None else min(min_insync, len(partition.replicas))
    is_so = {
        OFFLINE: partition.leader == NO_LEADER,
        UNDER_MIN_ISR: len(partition.isr) < needed,
        UNDER_REPLICATED: len(partition.isr) < factor,
    }
    return tuple(fault for fault in SEVERITY if is_so[fault])


def missing(seen: Seen) -> list[int]:
    """Brokers that have replicas, and are not there."""
    hosts = {id for each in seen.snapshot.partitions.values() for id in each.replicas}
    return sorted(hosts - seen.snapshot.nodes.keys())


def _problems(report: Report) -> list[str]:
    seen = report.seen
    there, expected = len(seen.snapshot.nodes), seen.brokers_expected
    found = []
    if expected is not None and there < expected:
        found.append(f"{there} of {expected} brokers are there")
    if gone := missing(seen):
        words = "has replicas, but is not alive" if len(gone) == 1 else "have replicas, but are not alive"
        found.append(f"{numbered('broker', gone)} {words}")
    found += [f"broker {id} does not answer: {why}" for id, why in sorted(seen.silent.items())]
    if seen.snapshot.controller is None:
        found.append("there is no controller")
    for fault, (of_one, of_many) in _WORDS.items():
        if count := report.how_many(fault):
            found.append(f"1 partition {of_one}" if count == 1 else f"{count} partitions {of_many}")
    return found
