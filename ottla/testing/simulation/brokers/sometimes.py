"""What must have happened somewhere in many runs of whole brokers. What is rarer is counted, but not asked for."""

from collections.abc import Mapping

from ottla.testing.simulation.cluster.sometimes import has_every_profile, missing

SOMETIMES = {
    "a follower truncates its log": "logs had parted, and met again by their epochs",
    "a duplicate is suppressed": "a producer repeated what had been written",
    "an ISR shrinks": "somebody was late, or gone",
    "an ISR grows": "somebody has caught up",
    "an in-sync replica is elected": "the usual failover",
    "an eligible replica is elected": "nobody in sync was left, but one of those that have everything (KIP-966)",
    "the last known leader is elected": "everybody was killed, and the one came back who had led last",
    "nobody can lead": "everybody who has everything is away",
    "another controller is elected": "the office is taken by somebody else",
    "an order is refused (77)": "the controller has not seen yet that a broker was restarted",
    "a follower is refused (6)": "it has heard of a leader before that leader has",
    "a follower is refused (74)": "it follows in an epoch that is over",
    "a follower is refused (100)": "its leader was not told of the topic yet",
    "an ISR is refused (74)": "a deposed leader asks for an ISR",
    "an ISR is refused (95)": "a leader asks in a state that has changed since",
    "an ISR is refused (107)": "a member is asked for that the controller does not take for alive",
    "a write to the store of unknown outcome was done": "it was read again, and found there",
    "a write to the store of unknown outcome was not done": "it was read again, and not found",
    "a session expired while its node lived": "somebody else may lead while it does not know",
    "a broker registers again in the same life": "after its session was lost",
    "a fast bounce": "restarted before its session expired",
    "a clean shutdown": "with a marker that names the life that ended",
    "a power loss takes records along": "they were not flushed",
    "a power loss tears a log": "its last batch is there in part, or as zeros",
    "a producer is refused (6)": "somebody else leads",
    "a producer is refused (19)": "too few in sync, and nothing is written",
    "a producer is refused (20)": "written, but too few are in sync by now",
    "a reader is refused (74)": "it has not heard of an election yet",
    "a reader is refused (75)": "it has heard of an election before the broker that it asks has",
    "a reader is refused (78)": "a follower has not heard yet that it is committed",
    "a transaction is committed": "EndTxn, answered when the outcome stands",
    "a transaction is aborted": "by EndTxn, by the next owner of its id, or because its time was up",
    "a transaction is left open": "its writer says nothing more: the coordinator ends it",
    "a transaction is told to come again (51)": "the one before is still being ended",
    "another broker vouches": "a batch is written when the coordinator, elsewhere, knows of it (KIP-890)",
    "another broker writes markers": "WriteTxnMarkers, from the coordinator to a leader",
    "a marker is tried again": "no answer, no leader, too few replicas: it goes to whoever leads by then",
    "a coordinator ends what another has decided": "Prepare was written, and its writer is gone",
    "a coordinator takes over an open transaction": "it gets what is left of its time",
    "a replica was moved": "a reassignment went to its end",
    "a move was cancelled": "a reassignment was taken back half-way",
    "a topic is deleted": "and nothing is left of it",
    "a topic is deleted with a broker down": "which has its files yet",
    "committed records are lost, which was allowed": "more brokers died than the promise covers",
    "create: done": "CreateTopics",
    "delete: done": "DeleteTopics",
    "grow: done": "CreatePartitions",
    "elect: done": "ElectLeaders",
    "min-insync: done": "IncrementalAlterConfigs",
    "reassign: done": "AlterPartitionReassignments",
}
RUNS_MIN = 15
"""Of every profile: after fewer, nothing can be said."""


def never(counts: Mapping[str, int]) -> list[str]:
    """Which of them did not happen."""
    return missing(SOMETIMES, counts)


def is_enough(profiles: Mapping[str, int]) -> bool:
    """Were there so many runs of every profile that each of them should have happened?"""
    return has_every_profile(profiles, RUNS_MIN)
