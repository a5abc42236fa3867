"""How far one follower has come, as far as its fetches tell the leader.

A follower is caught up at the moment at which it has everything that the leader has. It may never look so to a leader
that is written to all the time: then it was caught up when it asked last, if by now it has what the leader had then.
"""

from ottla.replication.exchange import UNKNOWN
from ottla.replication.state import NO_EPOCH

NEVER = -(1 << 62)


class Progress:
    """One follower. `broker_epoch` is the life in which it fetched last."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end_then",
        "log_start_offset",
        "refused_until_ms",
    )

    def __init__(self, caught_up_ms: int = NEVER) -> None:
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = NO_EPOCH
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = NEVER
        self.leader_end_then = UNKNOWN
        """Where the leader's log ended when this follower fetched last."""
        self.refused_until_ms = NEVER
        """The controller does not want it in the ISR: it is not proposed again before."""

    def fetched(self, end_offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> None:
        if end_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.leader_end_then != UNKNOWN and end_offset >= self.leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset, self.log_start_offset = end_offset, log_start_offset
        self.leader_end_then, self.fetched_ms = leader_end, now_ms

    def fetched_all(self, end_offset: int, log_start_offset: int, now_ms: int) -> None:
        """It has everything: `fetched`, for what is said of hundreds of partitions at a time."""
        if now_ms > self.caught_up_ms:
            self.caught_up_ms = now_ms
        self.end_offset = self.leader_end_then = end_offset
        self.log_start_offset = log_start_offset
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end: int, lag_ms: int, now_ms: int) -> bool:
        """Has it everything, or had it everything not too long ago?"""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_ms
