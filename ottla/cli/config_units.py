"""Values of settings as people write them: retention.ms=1d, segment.bytes=64MiB. Brokers want plain numbers.

Which settings are times and which are sizes, Kafka says in their names. Everything else goes as it is written.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

import click

_AMOUNT = re.compile(r"([0-9]{1,100}(?:\.[0-9]{1,100})?)\s*([A-Za-z]+)")
_TIMES_MS = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZES = {
    "b": 1,
    **{f"{letter}{ending}": 1024**power for power, letter in enumerate("kmgt", 1) for ending in ("", "ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
_TIME_NAMES = {".ms": 1, ".seconds": 1000, ".minutes": 60_000, ".hours": 3_600_000}
_SIZE_NAMES = (".bytes", ".bytes.per.second", "throttled.rate", ".buffer.size")


def assignment(text: str) -> tuple[str, str]:
    """`key=value`. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"{text!r} sets nothing: write key=value")
    return key.strip(), value


def plain(key: str, value: str) -> str:
    """The value without units, where its key is a time or a size. Raises UsageError for what is neither."""
    match = _AMOUNT.fullmatch(value.strip())
    if match is None:
        return value
    unit = match[2].lower()
    for ending, factor in _TIME_NAMES.items():
        if key.endswith(ending):
            return _in_units(key, value, match[1], _TIMES_MS.get(unit), factor, "ms, s, m, h, d or w")
    if key.endswith(_SIZE_NAMES):
        return _in_units(key, value, match[1], _SIZES.get(unit), 1, "B, KiB, MiB, GiB, TiB (or kB, MB)")
    return value


def _in_units(key: str, value: str, amount: str, unit: int | None, of_key: int, known: str) -> str:
    if unit is None:
        raise click.UsageError(f"{key}={value}: the unit must be one of {known}")
    count = Fraction(amount) * unit / of_key  # 0.07h is 252000 ms, and in floats a little more
    if count.denominator != 1:
        raise click.UsageError(f"{key}={value} is no whole number in the unit of the setting")
    return str(count.numerator)


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Each key once. Raises UsageError."""
    found: dict[str, str] = {}
    for key, value in map(assignment, texts):
        if key in found:
            raise click.UsageError(f"{key} is changed twice; values of a list have commas between them")
        found[key] = value
    return found


def settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Assignments with units, as brokers read them; the last one of a key counts."""
    return {key: plain(key, value) for key, value in map(assignment, texts)}
