"""Replication quotas: moving replicas must not take the whole network (KIP-73). Pure: time comes in as `now_ms`.

A rate is measured over windows of a second, eleven of them by default, and the oldest ones go. Over the rate, nothing
is held back in the middle of an answer: throttled partitions are left out of fetches until it is below again.

Leaders count what leaves for throttled replicas, and leave such replicas out unless they are in sync: quotas slow down
catching up, never what is committed. Followers count what comes, and do not ask for throttled partitions in which they
have not caught up.
"""

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

ALL = "*"
NO_LIMIT = 2**63 - 1
_MS = 1000


class ThrottledReplicas:
    """What a topic's `leader.replication.throttled.replicas` names, or its twin of followers."""

    def __init__(self, words: Iterable[str]) -> None:
        words = list(words)
        self._is_all = ALL in words
        self._pairs: dict[int, set[int]] = {}
        for word in words:
            if word != ALL:
                partition, _, broker = word.partition(":")
                self._pairs.setdefault(int(partition), set()).add(int(broker))

    def __contains__(self, replica: tuple[int, int]) -> bool:
        """Is this one, of a partition on a broker, throttled?"""
        partition, broker = replica
        return self._is_all or broker in self._pairs.get(partition, ())

    def __bool__(self) -> bool:
        return self._is_all or bool(self._pairs)


@lru_cache(maxsize=1024)
def throttled_replicas(words: tuple[str, ...]) -> ThrottledReplicas:
    """Read once: it is asked for with every fetch."""
    return ThrottledReplicas(words)


class RateLimit:
    """Bytes per second, measured over windows. `bytes_per_s` may change at any time."""

    def __init__(self, bytes_per_s: int = NO_LIMIT, windows: int = 11, window_s: int = 1) -> None:
        self.bytes_per_s = bytes_per_s
        self._window_ms = window_s * _MS
        self._count = windows
        self._windows: deque[list[int]] = deque()
        """When each began, and what was counted in it. The oldest first."""

    def record(self, size: int, now_ms: int) -> None:
        """So many bytes have passed."""
        self._drop_old(now_ms)
        if not self._windows or now_ms - self._windows[-1][0] >= self._window_ms:
            self._windows.append([now_ms, 0])
        self._windows[-1][1] += size

    def rate(self, now_ms: int) -> float:
        """Bytes per second since the oldest window began, which is at least one window ago: as Kafka's SimpleRate."""
        self._drop_old(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0][0], self._window_ms)
        return sum(size for _, size in self._windows) * _MS / elapsed_ms

    def is_exceeded(self, now_ms: int) -> bool:
        return self.bytes_per_s < NO_LIMIT and self.rate(now_ms) > self.bytes_per_s

    def _drop_old(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._count * self._window_ms:
            self._windows.popleft()


def may_serve(
    limit: RateLimit, replica: tuple[int, int], throttled: ThrottledReplicas, isr: Iterable[int], now_ms: int
) -> bool:
    """May a leader send records to this replica, of a partition on a broker? One that is in sync always."""
    if not throttled or replica not in throttled or replica[1] in isr:
        return True
    return not limit.is_exceeded(now_ms)


def may_ask(
    limit: RateLimit,
    replica: tuple[int, int],
    throttled: ThrottledReplicas,
    now_ms: int,
    *,
    is_caught_up: bool = False,
) -> bool:
    """May a follower ask for records of this replica of its own? Of one that has caught up always."""
    return is_caught_up or not throttled or replica not in throttled or not limit.is_exceeded(now_ms)
