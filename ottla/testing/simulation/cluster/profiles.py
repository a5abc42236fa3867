"""What a kind of run may do: which faults, in which weather, and what it may lose.

The promise holds with at most one unclean shutdown at a time, or with flush before acknowledgement. The profiles keep
to one of these, but for `unlimited`, which is there to show that nothing else is lost than what the promise excludes.
"""

from dataclasses import dataclass

from ottla.testing.simulation.network import Weather

LIGHT = Weather(drop=0.005, duplicate=0.01, delay_ms_max=5, straggler=0.02, straggler_ms_max=600)
LATE = Weather(drop=0.01, duplicate=0.03, delay_ms_max=8, straggler=0.12, straggler_ms_max=2_000)
_USUAL = {
    "crash": 3,
    "bounce": 2,
    "shutdown": 1,
    "pause": 3,
    "slow": 1,
    "cut": 3,
    "store-cut": 2,
    "unknown": 2,
}


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of run."""

    name: str
    sentence: str
    kinds: tuple[tuple[str, int], ...]
    """Which faults, and how often each."""
    weather: Weather = LIGHT
    brokers: int = 3
    one_unclean_at_a_time: bool = False
    flushes_before_ack: bool = False
    allows_losses: bool = False
    moves: bool = False
    leaves_one: bool = False
    """One fault stays for ever."""
    gap_ms: int = 340


def _kinds(**other: int) -> tuple[tuple[str, int], ...]:
    return tuple({**_USUAL, **other}.items())


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("default", "kills, pauses, cuts; nobody loses what was written", _kinds()),
        Profile(
            "power",
            "power losses, the next only when all replicas are in sync again",
            _kinds(power=6),
            one_unclean_at_a_time=True,
        ),
        Profile(
            "flush",
            "power losses of anybody and of all, with flush before acknowledgement",
            _kinds(power=4, blackout=2),
            flushes_before_ack=True,
        ),
        Profile("stragglers", "one message in eight is late by up to two seconds", _kinds(), LATE),
        Profile(
            "moves",
            "replicas are moved, topics deleted, leaders elected",
            _kinds(),
            brokers=4,
            moves=True,
            gap_ms=400,
        ),
        Profile(
            "unlimited",
            "power losses as they come: some records may be lost",
            _kinds(power=4, blackout=1),
            allows_losses=True,
        ),
        Profile("forever", "one fault is never healed", _kinds(), leaves_one=True),
    )
}
ALL = "all"


def profile_of(seed: int, wanted: str = ALL) -> Profile:
    """The profile of a seed: one after the other, unless one is asked for."""
    return PROFILES[wanted] if wanted != ALL else list(PROFILES.values())[seed % len(PROFILES)]
