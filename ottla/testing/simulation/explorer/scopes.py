"""How far the explorer looks, and what may happen there. A scope is small, or there is no end to it."""

from dataclasses import dataclass, replace
from typing import Any


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
    hand_overs: tuple[int, ...] = ()
    """Whom the controller lets lead, one after the other, for no reason, if they are in sync. Brokers are all alike, so
    that the first leader's successor may as well be broker 2."""
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
    """Are proposals answered at once?"""
    fetches_at_once: bool = False
    """Does a follower have the answer as soon as it asks?"""
    min_insync_replicas: int = 2
    states_max: int = 1_000_000
    depth_max: int = 200

    def wider(self, **other: Any) -> "Scope":
        return replace(self, **other)


SCOPES = {
    scope.name: scope
    for scope in (
        Scope("return", "the leader hands over and returns", hand_overs=(2, 1), alterations=0),
        Scope("succession", "all three lead, one after the other", hand_overs=(2, 3), alterations=0),
        Scope(
            "four epochs",
            "leaders change three times",
            records=2,
            leader_epochs=3,
            hand_overs=(2, 1, 3),
            alterations=0,
            fetches_at_once=True,
        ),
        Scope(
            "fence",
            "the leader returns while others still follow the one between, and the ISR shrinks",
            records=1,
            hand_overs=(2, 1),
            is_prompt=True,
            fetches_at_once=True,
        ),
        Scope(
            "isr",
            "the ISR shrinks while the leader changes",
            records=2,
            leader_epochs=1,
            hand_overs=(2,),
            fetches_at_once=True,
        ),
        Scope(
            "isr and back",
            "the ISR shrinks and grows while the leader changes",
            records=1,
            leader_epochs=1,
            alterations=2,
            hand_overs=(2,),
            fetches_at_once=True,
        ),
        Scope("kills", "kill -9 of anybody, twice", records=1, kills=2, is_prompt=True, fetches_at_once=True),
        Scope("power", "a power loss", records=1, power_losses=1, fetches_at_once=True),
        Scope(
            "stragglers",
            "one message is late, and arrives again and again",
            records=2,
            leader_epochs=1,
            hand_overs=(2,),
            is_prompt=True,
            fetches_at_once=True,
            stragglers=1,
        ),
        Scope(
            "sessions",
            "a broker loses its session and lives on, another one is killed",
            records=1,
            expiries=1,
            kills=1,
            is_prompt=True,
            fetches_at_once=True,
        ),
        Scope(
            "repeated-orders",
            "orders come again, also old ones",
            records=1,
            hand_overs=(2, 1),
            alterations=0,
            old_orders=True,
        ),
        Scope(
            "retries",
            "the client repeats what it has written",
            leader_epochs=1,
            hand_overs=(2,),
            alterations=0,
            retries=True,
        ),
    )
}
