"""How far the explorer looks, and what may happen there. A scope is small, or there is no end to it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scope:
    """Bounds, and how often each thing may happen. There are three replicas; the first one leads, all are in sync."""

    name: str
    sentence: str
    records: int = 2
    """How many records clients write."""
    leader_epochs: int = 2
    """The last leader epoch; the first one is 0."""
    alterations: int = 1
    """How often the ISR is changed on a leader's proposal."""
    hand_overs: int = 0
    """How often the controller lets another member of the ISR lead, for no reason."""
    kills: int = 0
    """kill -9: what was written is kept."""
    power_losses: int = 0
    """The log is cut anywhere. With these, unclean deaths come one at a time: the next when the last one is in sync."""
    stops: int = 0
    """A clean end of a life: the next one names it."""
    expiries: int = 0
    """A broker that lives loses its session, and registers again."""
    stragglers: int = 0
    """How many messages are late: they stay under way, and arrive again and again."""
    retries: bool = False
    """Does the client repeat what it has written?"""
    old_orders: bool = False
    """Are orders repeated that the broker has heard, or that are older, or meant for its former life?"""
    is_prompt: bool = False
    """Does the controller answer proposals at once?"""
    min_insync_replicas: int = 2
    states_max: int = 1_000_000
    depth_max: int = 200

    def wider(self, **other: int) -> "Scope":
        return replace(self, **other)  # type: ignore[arg-type]


SCOPES = {
    scope.name: scope
    for scope in (
        Scope(
            "elections",
            "leaders change three times, and brokers hear of it late",
            records=2,
            leader_epochs=3,
            hand_overs=3,
            alterations=0,
        ),
        Scope(
            "isr",
            "the ISR shrinks and grows while leaders change",
            records=2,
            leader_epochs=2,
            hand_overs=2,
            alterations=1,
        ),
        Scope(
            "kills",
            "kill -9 of anybody",
            records=1,
            leader_epochs=3,
            kills=2,
            alterations=1,
        ),
        Scope(
            "power",
            "power losses, one at a time",
            records=1,
            leader_epochs=3,
            power_losses=2,
            alterations=1,
        ),
        Scope(
            "stragglers",
            "messages are late, and arrive again",
            records=2,
            leader_epochs=1,
            hand_overs=1,
            alterations=1,
            stragglers=1,
        ),
        Scope(
            "sessions",
            "brokers lose their sessions and live on",
            records=1,
            leader_epochs=3,
            expiries=2,
            alterations=1,
            old_orders=True,
        ),
    )
}
