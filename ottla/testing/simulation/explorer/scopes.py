"""How far the explorer looks, and what may happen there. A scope is small, or there is no end to it."""

from dataclasses import dataclass, replace
from typing import Any

QUESTIONS, ANSWERS, PROPOSALS = "questions", "answers", "proposals"


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
    settings: tuple[int, ...] = ()
    """What min.insync.replicas is set to, one after the other."""
    kills: int = 0
    """kill -9: what was written is kept."""
    power_losses: int = 0
    """The log is cut anywhere. With these, unclean deaths come one at a time: the next when the last one is in sync."""
    mortal: tuple[int, ...] = (1, 2, 3)
    """Who may die uncleanly, where it does not matter who: the fewer, the smaller the world."""
    stops: int = 0
    """A clean end of a life: the next one names it."""
    expiries: int = 0
    """A broker that lives loses its session, and registers again."""
    stragglers: int = 0
    """How many messages are late: they stay under way, and arrive again and again."""
    late: tuple[str, ...] = (QUESTIONS, ANSWERS, PROPOSALS)
    """Of which kinds those are."""
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


_SCOPES = (
    Scope("return", "the leader hands over and returns", hand_overs=(2, 1), alterations=0),
    Scope("succession", "all three lead, one after the other", hand_overs=(2, 3), alterations=0),
    Scope(
        "four-epochs",
        "leaders change three times",
        leader_epochs=3,
        hand_overs=(2, 3, 2),
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
        "the ISR shrinks and grows while the leader changes",
        records=1,
        leader_epochs=1,
        alterations=2,
        hand_overs=(2,),
        fetches_at_once=True,
    ),
    Scope(
        "join",
        "the ISR shrinks and grows, and answers take their time",
        records=1,
        leader_epochs=1,
        alterations=2,
        hand_overs=(2,),
        is_prompt=True,
    ),
    Scope("kills", "kill -9 of anybody, twice", records=1, kills=2, alterations=0, fetches_at_once=True),
    Scope("kill", "kill -9 of anybody while the ISR changes", records=1, kills=1, is_prompt=True),
    Scope(
        "deaths",
        "the whole ISR is killed",
        records=1,
        leader_epochs=1,
        kills=2,
        is_prompt=True,
        fetches_at_once=True,
        states_max=40_000,
    ),
    Scope("power", "a power loss", records=1, leader_epochs=1, power_losses=1, is_prompt=True),
    Scope(
        "eligible",
        "a power loss when the ISR is small",
        records=1,
        power_losses=1,
        fetches_at_once=True,
    ),
    Scope(
        "outdated",
        "a follower is killed while the ISR is about to grow",
        records=1,
        leader_epochs=0,
        alterations=2,
        kills=1,
        mortal=(3,),
        fetches_at_once=True,
    ),
    Scope(
        "late-answers",
        "an answer of one leader arrives when another one leads",
        records=1,
        hand_overs=(2, 1),
        alterations=0,
        fetches_at_once=True,
        stragglers=1,
        late=(ANSWERS,),
    ),
    Scope(
        "doubled-answers",
        "an answer of a leader arrives again when the logs have met",
        leader_epochs=1,
        hand_overs=(2,),
        alterations=0,
        fetches_at_once=True,
        stragglers=1,
        late=(ANSWERS,),
    ),
    Scope(
        "late-proposals",
        "a proposal arrives when the ISR has changed more than once",
        records=1,
        leader_epochs=0,
        alterations=4,
        is_prompt=True,
        fetches_at_once=True,
        stragglers=1,
        late=(PROPOSALS,),
    ),
    Scope(
        "late-leaders",
        "a proposal arrives when another one leads",
        records=1,
        leader_epochs=1,
        hand_overs=(2,),
        is_prompt=True,
        fetches_at_once=True,
        stragglers=1,
        late=(PROPOSALS,),
    ),
    Scope(
        "late-fetches",
        "a fetch of a follower arrives in its next life, after a power loss",
        records=1,
        leader_epochs=0,
        power_losses=1,
        mortal=(2,),
        is_prompt=True,
        stragglers=1,
        late=(QUESTIONS,),
    ),
    Scope(
        "former-lives",
        "orders come again, also those for a former life, after a power loss",
        records=1,
        leader_epochs=1,
        power_losses=1,
        alterations=0,
        fetches_at_once=True,
        old_orders=True,
    ),
    Scope(
        "sessions",
        "a broker loses its session and lives on",
        records=1,
        expiries=1,
        is_prompt=True,
        fetches_at_once=True,
    ),
    Scope(
        "more-in-sync",
        "min.insync.replicas grows, and brokers hear of it late",
        records=1,
        leader_epochs=0,
        min_insync_replicas=1,
        settings=(2,),
        fetches_at_once=True,
    ),
    Scope(
        "fewer-in-sync",
        "min.insync.replicas falls, and brokers hear of it late",
        records=1,
        leader_epochs=0,
        settings=(1,),
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
SCOPES = {scope.name: scope for scope in _SCOPES}
"""Each is seen whole within seconds."""

_DEEP = (
    Scope("deep-isr", "two changes of the ISR, two of the leader", hand_overs=(2, 1), alterations=2),
    Scope("deep-kills", "kill -9 of anybody, while the ISR changes", leader_epochs=4, kills=3, alterations=2),
    Scope("deep-power", "power losses, one after the other", leader_epochs=4, power_losses=2, alterations=3),
    Scope(
        "deep-late",
        "late messages, kills, lost sessions",
        leader_epochs=3,
        kills=1,
        expiries=1,
        stops=1,
        stragglers=2,
        old_orders=True,
    ),
)
DEEP = {scope.name: scope for scope in _DEEP}
"""These have no end within a day; how far to look is up to who has the time."""
