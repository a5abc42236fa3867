"""What becomes of a message between two nodes: it arrives, twice perhaps, late perhaps, or never.

Every copy draws its own delay, so messages overtake each other. A link can be cut in one direction only; what is under
way when it is cut is lost, as is what is sent until it is healed.
"""

import random
from typing import NamedTuple

Link = tuple[str, str]
"""From, to."""


class Weather(NamedTuple):
    """How the network treats messages: probabilities, and delays in virtual milliseconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay_ms_min: int = 1
    delay_ms_max: int = 5
    straggler: float = 0.0
    """How likely a message is delayed by far more than the others."""
    straggler_ms_max: int = 0


RETRANSMISSION_MS = 200
"""What a stream waits before it sends again what was lost."""

CALM = Weather()
ROUGH = Weather(drop=0.01, duplicate=0.02, delay_ms_max=10, straggler=0.01, straggler_ms_max=800)


class Network:
    """The links between nodes. It decides; the world carries out."""

    def __init__(self, chance: random.Random, weather: Weather = CALM) -> None:
        self.weather = weather
        self.chance = chance
        self._cuts: set[Link] = set()
        self._slow: dict[Link, int] = {}

    def fate(self, sender: str, receiver: str) -> list[int]:
        """The delays of the copies that set out; none if the message is lost."""
        chance, weather = self.chance, self.weather
        if (sender, receiver) in self._cuts or chance.random() < weather.drop:
            return []
        copies = 2 if chance.random() < weather.duplicate else 1
        return [self._delay_ms((sender, receiver)) for _ in range(copies)]

    def _delay_ms(self, link: Link) -> int:
        chance, weather = self.chance, self.weather
        delay_ms = chance.randint(weather.delay_ms_min, weather.delay_ms_max) + self._slow.get(link, 0)
        if chance.random() < weather.straggler:
            delay_ms += chance.randint(0, weather.straggler_ms_max)
        return delay_ms

    def lag_ms(self, sender: str, receiver: str) -> int:
        """How long a stream takes to carry something: what is lost is sent again, nothing comes twice."""
        lag_ms = self._delay_ms((sender, receiver))
        while self.weather.drop and self.chance.random() < self.weather.drop:
            lag_ms += RETRANSMISSION_MS
        return lag_ms

    def is_cut(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._cuts

    def cut(self, sender: str, receiver: str, *, both_ways: bool = False) -> None:
        self._cuts.add((sender, receiver))
        if both_ways:
            self._cuts.add((receiver, sender))

    def heal(self, sender: str, receiver: str, *, both_ways: bool = False) -> None:
        self._cuts.discard((sender, receiver))
        if both_ways:
            self._cuts.discard((receiver, sender))

    def slow_down(self, sender: str, receiver: str, by_ms: int) -> None:
        """Every message on this link takes so much longer; 0 ends it."""
        if by_ms:
            self._slow[sender, receiver] = by_ms
        else:
            self._slow.pop((sender, receiver), None)

    def calm_down(self) -> None:
        """Heal all links, lose and double nothing from now on. What is under way stays late."""
        self._cuts.clear()
        self._slow.clear()
        self.weather = CALM
