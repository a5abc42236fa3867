"""What `kafka-consumer-groups --reset-offsets` reads: topics with partitions, times, durations, files of offsets."""

import argparse
import csv
import io
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from ottla.cli.classic.java import Illegal, integer
from ottla.cli.classic.parser import Refused
from ottla.core.ids import TopicPartition

SCENARIOS = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "shift-by",
    "to-current",
    "from-file",
)
"""As Apache's tool looks at them: which of two that exclude each other is named first."""
_DATE = re.compile(
    r"(\d{1,9})-(\d{1,2})-(\d{1,2})T(\d{1,2}):(\d{1,2}):(\d{1,2})\.(\d{1,3})\s*(?:Z|([+-])(\d{2}):?(\d{2})?)",
    re.ASCII,
)
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = 64  # bits
_LONG_MAX = 2**63 - 1
_DIGITS_MAX = 19  # of such a number


def one(options: argparse.Namespace, name: str) -> str | None:
    """The value of an option that has one. Raises Illegal if it has more."""
    values = [value for value in getattr(options, name.replace("-", "_")) if value is not None]
    if len(values) > 1:
        raise Illegal(f"Found multiple arguments for option {name}, but you asked for only one")
    return values[0] if values else None


def number_of(options: argparse.Namespace, name: str) -> int | None:
    """The same, as one of Java's long numbers."""
    text = one(options, name)
    try:
        return None if text is None else integer(text, _LONG)
    except Illegal:
        raise Illegal(f"Cannot parse argument '{text}' of option {name}") from None


class Wanted(NamedTuple):
    """The topics of which all partitions are meant, and the partitions that are meant one by one."""

    topics: list[str]
    partitions: list[TopicPartition]


def topics_of(words: Sequence[str]) -> Wanted:
    """`orders` or `orders:0,1`. Raises Refused."""
    wanted = Wanted([], [])
    for word in words:
        name, colon, numbers = word.partition(":")
        if not colon:
            wanted.topics.append(word)
            continue
        if not numbers or ":" in numbers:
            raise Refused(f"Invalid topic arg '{word}', expected topic name and partitions")
        for number in numbers.split(","):
            try:
                wanted.partitions.append(TopicPartition(name, integer(number)))
            except Illegal:
                sentence = f"Invalid partition '{number}' specified in topic arg '{word}''"
                raise Refused(sentence) from None
    return wanted


# --- times ------------------------------------------------------------------------------------------------------------


def time_ms(text: str) -> int:
    """Of `2026-11-15T07:00:00.000`, in UTC unless it ends with Z, +01, +0100 or +01:00. Raises Illegal.

    What was before 1970 is 1970: no record is older.
    """
    if "T" not in text:
        raise Illegal(
            "java.text.ParseException: Error parsing timestamp."
            " It does not contain a 'T' according to ISO8601 format"
        )
    if not any(sign in text.partition("T")[2] for sign in "+-Z"):
        text += "Z"
    match = _DATE.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second, milliseconds = map(int, match.groups()[:7])
        moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(*match.groups()[7:]))
    except (ValueError, OverflowError):
        raise Illegal(f'java.text.ParseException: Unparseable date: "{text}"') from None
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1) + milliseconds)


def _zone(sign: str | None, hours: str | None, minutes: str | None) -> timezone:
    if sign is None:
        return UTC
    away = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    return timezone(away if sign == "+" else -away)


def duration_ms(text: str) -> int:
    """Of `P1DT2H30M1.5S`. Raises Illegal."""
    match = _DURATION.fullmatch(text)
    parts = match.groups() if match else ()
    if match is None or all(parts[place] is None for place in (1, 3, 4, 5)):
        raise Illegal("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = parts
    named = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    if any(len(value.lstrip("+-0")) > _DIGITS_MAX for value in named.values() if value):
        raise Illegal("Text cannot be parsed to a Duration")
    total = sum(int(value or 0) * _MS[name] for name, value in named.items())
    part = int((fraction or "").ljust(9, "0")[:3])
    total += -part if (seconds or "").startswith("-") else part
    if abs(total) > _LONG_MAX:
        raise Illegal("Text cannot be parsed to a Duration")
    return -total if sign == "-" else total


# --- files ------------------------------------------------------------------------------------------------------------

Plan = dict[str, dict[TopicPartition, int]]
_WITH_GROUP, _WITHOUT = 4, 3
_QUOTED_FROM = 24  # longer words are put into quotes without a look at them
_SAFE_FROM = "-"  # characters before it are reasons for quotes


def read_plan(path: str, groups: Sequence[str]) -> Plan:
    """`topic,partition,offset` for the one group, or `group,topic,partition,offset`. Raises Illegal and Refused."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        raise Illegal(f"java.io.IOException: Unable to read file {path}") from None
    if not text.strip():
        raise Illegal(f"{path} has no line such as topic,partition,offset")
    plan: Plan = {}
    for number, words in enumerate(_lines(text, path), 1):
        if len(words) not in (_WITHOUT, _WITH_GROUP):
            raise Illegal(
                f"line {number} of {path} is neither topic,partition,offset nor group,topic,partition,offset"
            )
        *group, topic, partition, offset = (word.strip() for word in words)
        owner = group[0] if group else groups[0] if len(groups) == 1 else None
        try:
            place, wanted = TopicPartition(topic, integer(partition)), integer(offset, _LONG)
        except Illegal:
            sentence = f"line {number} of {path}: {partition!r} and {offset!r} must be numbers"
            raise Illegal(sentence) from None
        if wanted < 0:
            raise Refused("Invalid negative offset")
        if owner is not None:
            plan.setdefault(owner, {})[place] = wanted
    return plan


def _lines(text: str, path: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise Illegal(f"{path} is no such file of lines with commas: {error}") from None


def written_plan(plan: Mapping[str, Mapping[TopicPartition, int]], is_for_one: bool) -> str:
    """What `read_plan` reads."""
    rows = []
    for group, offsets in plan.items():
        for place, offset in offsets.items():
            words = [] if is_for_one else [_quoted(group)]
            rows.append(",".join([*words, _quoted(place.topic), str(place.partition), str(offset)]))
    return "".join(f"{row}\n" for row in rows)


def _quoted(word: str) -> str:
    if word and len(word) <= _QUOTED_FROM and min(word) >= _SAFE_FROM:
        return word
    return '"' + word.replace('"', '""') + '"'
