"""What is said in the log about peers: the same thing about the same one once a minute, and little in all.

Somebody who connects a thousand times a second with nonsense must not fill the disk with our surprise about it. What
goes unsaid is counted, and the number comes with the next line.
"""

from typing import NamedTuple

QUIET_MS = 60_000
REASONS_MAX = 10
"""Different things said about one host in a minute: reasons hold numbers, and the peer chooses those."""
HOSTS_MAX = 1000


class _Record(NamedTuple):
    since_ms: int
    said: set[str]
    unsaid: list[int]
    """One number: how often we kept quiet."""


class Complaints:
    """Ask before you log. Keeps at most HOSTS_MAX hosts, the longest known go first."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Record] = {}

    def about(self, host: str, reason: str, now_ms: int) -> str | None:
        """What to log; None if it has been said, or enough has."""
        record = self._hosts.get(host)
        more = ""
        if record is None or now_ms - record.since_ms >= QUIET_MS:
            more = _more(host, record)
            record = self._start(host, now_ms)
        if reason in record.said or len(record.said) >= REASONS_MAX:
            record.unsaid[0] += 1
            return None
        record.said.add(reason)
        return reason + more

    def _start(self, host: str, now_ms: int) -> _Record:
        self._hosts.pop(host, None)
        if len(self._hosts) >= HOSTS_MAX:
            del self._hosts[next(iter(self._hosts))]
        record = self._hosts[host] = _Record(now_ms, set(), [0])
        return record


def _more(host: str, record: _Record | None) -> str:
    return f" ({record.unsaid[0]} more of {host} went unsaid)" if record and record.unsaid[0] else ""
