"""The timers of a KIP-848 group's members: one of each kind for each member, gone with the member."""

from enum import Enum

from ottla.core.timers import Timer, Timers
from ottla.replication.machine import Alarm


class Clock(Enum):
    """What a member has limited time for."""

    SESSION = "session"
    """To give a sign of life."""
    REVOCATION = "revocation"
    """To give back what it was told to."""
    JOIN = "join"
    """To join again, having been told of a rebalance (classic protocol)."""
    SYNC = "sync"
    """To fetch its assignment, having joined (classic protocol)."""


class Clocks:
    """Timers by kind and member id."""

    def __init__(self, timers: Timers[Alarm]) -> None:
        self._timers = timers
        self._running: dict[str, dict[Clock, Timer[Alarm]]] = {}

    def start(self, kind: Clock, member_id: str, deadline_ms: int, alarm: Alarm) -> None:
        """Set it, or set it anew."""
        timers = self._running.setdefault(member_id, {})
        timer = timers.get(kind)
        if timer is None:
            timers[kind] = self._timers.add(deadline_ms, alarm)
        else:
            timer.value = alarm
            self._timers.reschedule(timer, deadline_ms)

    def start_if_stopped(self, kind: Clock, member_id: str, deadline_ms: int, alarm: Alarm) -> None:
        """Who is told twice does not get more time."""
        timer = self._running.get(member_id, {}).get(kind)
        if timer is None or not timer.is_pending:
            self.start(kind, member_id, deadline_ms, alarm)

    def stop(self, kind: Clock, member_id: str) -> None:
        timer = self._running.get(member_id, {}).pop(kind, None)
        if timer is not None:
            self._timers.cancel(timer)

    def stop_all(self, member_id: str) -> None:
        """The member is gone."""
        for timer in self._running.pop(member_id, {}).values():
            self._timers.cancel(timer)

    def stop_everything(self) -> None:
        """The group is gone."""
        for member_id in list(self._running):
            self.stop_all(member_id)

    def __len__(self) -> int:
        return sum(map(len, self._running.values()))
