"""What must have happened somewhere in many runs. If it never does, the runs do not go where they are meant to go."""

from collections.abc import Iterable, Mapping

from ottla.testing.simulation.cluster.profiles import PROFILES

SOMETIMES = {
    "a follower truncates its log": "logs had parted, and met again by their epochs",
    "a late answer to a follower is dropped": "an answer that does not fit its question any more changes nothing",
    "an answer comes too late": "whoever asked has given up",
    "a duplicate is suppressed": "a producer repeated what had been written",
    "an ISR shrinks": "somebody was late, or gone",
    "an ISR grows": "somebody has caught up",
    "an in-sync replica is elected": "the usual failover",
    "an eligible replica is elected": "nobody in sync was left, but one of those that have everything (KIP-966)",
    "the last known leader is elected": "everybody was killed, and the one came back who had led last",
    "nobody can lead": "everybody who has everything is away",
    "another controller is elected": "the office is taken by somebody else",
    "an order is refused (11)": "of a controller that was replaced, and does not know yet",
    "an order is refused (77)": "the controller has not seen yet that a broker was restarted",
    "a follower is refused (74)": "it follows in an epoch that is over",
    "a follower is refused (75)": "it has heard of an epoch before its leader has",
    "an ISR is refused (74)": "a deposed leader asks for an ISR",
    "an ISR is refused (95)": "a leader asks in a state that has changed since",
    "an ISR is refused (77)": "a leader of a former life asks",
    "an ISR is refused (107)": "a member is asked for that the controller does not take for alive",
    "an ISR is asked for, and no answer comes": "nobody knows, so the union is kept",
    "a write to the store of unknown outcome was done": "it was read again, and found there",
    "a write to the store of unknown outcome was not done": "it was read again, and not found",
    "a session is lost": "a broker was unheard of for too long, and hears of it",
    "a session expired while its node lived": "somebody else may lead while it does not know",
    "a broker registers again in the same life": "after its session was lost",
    "a fast bounce": "restarted before its session expired",
    "a clean shutdown": "with a marker that names the life that ended",
    "a power loss takes records along": "they were not flushed",
    "a broker that is cut off takes no records with acks=1": "somebody else may lead by now",
    "a producer is refused (19)": "too few in sync, and nothing is written",
    "a produce fails while it waits (20)": "written, but too few are in sync by now",
    "a produce fails while it waits (6)": "the leader was deposed while somebody waited",
    "a produce waits for too long (7)": "nobody knows what will become of it",
    "a producer is refused (45)": "one of three records overtook another",
    "a reader is refused (78)": "a follower has not heard yet that it is committed",
    "a transaction is committed": "",
    "a transaction is aborted": "its records are not shown",
    "a replica was moved": "a reassignment went to its end",
    "a move was cancelled": "a reassignment was taken back half-way",
    "a topic is deleted": "and nothing is left of it",
    "a topic is deleted with a broker down": "which has its files yet",
    "an unclean election": "allowed by the topic; what was committed may be gone",
    "only a broker that is away for ever could lead": "then nobody may",
}


def never(counts: Mapping[str, int]) -> list[str]:
    """Which of them did not happen."""
    return missing(SOMETIMES, counts)


def is_enough(profiles: Mapping[str, int]) -> bool:
    """Were there so many runs of every profile that each of them should have happened?"""
    return has_every_profile(profiles, RUNS_MIN)


def missing(wanted: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    return [name for name in wanted if not counts.get(name)]


def has_every_profile(profiles: Mapping[str, int], runs_min: int) -> bool:
    return all(profiles.get(name, 0) >= runs_min for name in PROFILES)


RUNS_MIN = 100
