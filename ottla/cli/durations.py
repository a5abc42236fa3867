"""How long: seconds, or a number with a unit, as people write it: 250ms, 10s, 5m, 2h, 7d."""

import re
from collections.abc import Callable

import click

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)")


def seconds_of(text: str) -> float:
    """Raises ValueError with a sentence."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or (match[2] or "s") not in UNITS:
        raise ValueError(f"{text!r} is no duration: write 10, 250ms, 5m, 2h or 7d")
    return float(match[1]) * UNITS[match[2] or "s"]


def seconds(at_least: float, at_most: float) -> Callable[[str], float]:
    """The type of an option: a duration between two bounds, in seconds."""

    def duration(text: str) -> float:
        try:
            found = seconds_of(str(text))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        if not at_least <= found <= at_most:
            raise click.BadParameter(f"{text} is not between {at_least:g} and {at_most:g} seconds")
        return found

    return duration
