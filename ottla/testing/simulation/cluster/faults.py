"""What can go wrong, as plain values: a schedule holds them, JSON keeps them, and a shrinker takes them away.

Who is hit is a name, or a role (`controller`, `leader`) that is looked up at the moment it happens. A fault that finds
its victim down already, or that the profile does not allow now, does nothing; so any subset of a schedule is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

KINDS = {
    "crash": "kill -9: memory is gone, what was written is not",
    "bounce": "kill -9, and a restart before anybody has missed it",
    "power": "the lights go out: what was not flushed may be gone",
    "blackout": "the lights go out for all brokers at once",
    "shutdown": "a clean stop: leaders move first, everything is flushed, a marker is left",
    "pause": "a stopped process or a long garbage collection: it wakes and believes what it believed",
    "slow": "every message to and from it takes longer",
    "cut": "links are cut, in one direction or both",
    "store-cut": "a broker does not reach the metadata store any more, or does not hear from it",
    "unseat": "an operator removes the controller's node from the store, as one does to have another one elected",
    "unknown": "answers of the store get lost: nobody knows whether a write was done",
}
ROLES = ("controller", "leader")
UNCLEAN = frozenset({"crash", "bounce", "power", "blackout"})
"""After these a broker comes back without having shut down cleanly."""
FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: from `at_ms` on, for `lasts_ms`."""

    kind: str
    at_ms: int
    lasts_ms: int
    who: str = ""
    whom: tuple[str, ...] = ()
    """The other ends of links."""
    both_ways: bool = True
    outwards: bool = True
    """If only one direction is cut: from `who` to the others?"""
    by_ms: int = 0
    chance: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """What is not as it is by default."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _DEFAULTS}
        shown |= {
            name: getattr(self, name) for name, usual in _DEFAULTS.items() if getattr(self, name) != usual
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Fault":
        return cls(**{**value, "whom": tuple(value.get("whom", ()))})

    def __str__(self) -> str:
        until = "for ever" if self.lasts_ms == FOR_EVER else f"for {self.lasts_ms} ms"
        text = f"{self.at_ms:>6} ms  {self.kind} {self.who}"
        if self.whom:
            arrow = "<->" if self.both_ways else "->" if self.outwards else "<-"
            text += f" {arrow} {', '.join(self.whom)}"
        text += f" by {self.by_ms} ms" if self.by_ms else ""
        text += f" with probability {self.chance:.2f}" if self.chance else ""
        return f"{text} {until}"


_DEFAULTS: dict[str, Any] = {
    each.name: each.default for each in fields(Fault) if each.name not in ("kind", "at_ms", "lasts_ms")
}
