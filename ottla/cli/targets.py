"""Places in logs as people write them: start, end, 4711, -10, @2026-11-15T07:00, @-1h; and partitions: orders:0,1.

-10 is ten offsets before the end. A time means the first record that is not older; where there is none, the end.
FROM:TO is what lies between two places: with the first, without the second.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from ottla.cli.durations import seconds_of
from ottla.cli.inspection.times import time_of
from ottla.cli.outcomes import Settled, settled, unknown
from ottla.cli.remote import NOT_FOUND, Failed
from ottla.client.admin import topics as topic_calls
from ottla.client.admin.partitions import OffsetSpec, list_offsets
from ottla.client.admin.routes import Client
from ottla.client.admin.topic_values import TopicDescription
from ottla.core.ids import TopicPartition, topic_name_fault

_MS = 1000
_OFFSET_MAX = 2**63 - 1
_DIGITS_MAX = 100  # Python reads no numbers of thousands of digits
START, END = "start", "end"
_NAMES = {
    "start": START,
    "beginning": START,
    "earliest": START,
    "end": END,
    "latest": END,
}


class Target(NamedTuple):
    """A place in every log that is meant: one of its ends, an offset, a time, or so many offsets before the end."""

    end: str | None = None
    offset: int | None = None
    time_ms: int | None = None
    before_end: int | None = None


def target_of(text: str) -> Target:
    """Raises UsageError for what names no place."""
    if text.lower() in _NAMES:
        return Target(end=_NAMES[text.lower()])
    if text.startswith("@"):
        return Target(time_ms=_moment(text[1:]))
    digits = text.removeprefix("-")
    if _is_number(digits) and int(digits) <= _OFFSET_MAX:
        return Target(offset=int(text)) if digits == text else Target(before_end=int(digits))
    raise click.UsageError(
        f"{text!r} is no place: write start, end, an offset, -10 for ten before the end, @2026-11-15T07:00 or @-1h"
    )


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS_MAX


class Span(NamedTuple):
    """What lies between two places. Without a `stop` it goes on for ever."""

    start: Target
    stop: Target | None


def span_of(text: str) -> Span:
    """`FROM`, `FROM:TO`, `:TO` or `FROM:`. Times have colons of their own: what reads as one place is one place."""
    try:
        return Span(target_of(text), None)
    except click.UsageError:
        at = text.rfind(":")
        while at >= 0:
            first, last = text[:at], text[at + 1 :]
            try:
                return Span(target_of(first or START), target_of(last) if last else None)
            except click.UsageError:
                at = text.rfind(":", 0, at)
        raise


def _moment(text: str) -> int:
    if not text.startswith("-"):
        return time_of(text)
    try:
        return max(0, int((time.time() - seconds_of(text[1:])) * _MS))
    except ValueError as error:
        raise click.UsageError(f"@{text}: {error}") from None


class Partitions(NamedTuple):
    """A topic, with some of its partitions or all."""

    topic: str
    numbers: tuple[int, ...] | None


def partitions_of(text: str) -> Partitions:
    """`orders` or `orders:0,1`."""
    topic, colon, numbers = text.partition(":")
    if fault := topic_name_fault(topic):
        raise click.UsageError(f"{text!r} names no topic: the name {fault}")
    if not colon:
        return Partitions(topic, None)
    words = numbers.split(",")
    if not all(_is_number(each) and int(each) < 2**31 for each in words):
        raise click.UsageError(f"{text!r} names no partitions; write them as {topic}:0,1")
    return Partitions(topic, tuple(sorted({int(each) for each in words})))


# --- what there is ----------------------------------------------------------------------------------------------------


async def described(admin: Client, names: Iterable[str]) -> Settled:
    """Topics by name. Of those that do not exist, the sentence names some that do, and sound alike."""
    names = list(dict.fromkeys(names))
    faults = {name: fault for name in names if (fault := topic_name_fault(name))}
    found = await settled(topic_calls.describe_topics(admin, [name for name in names if name not in faults]))
    for name, fault in faults.items():
        found.failures[name] = Failed(
            f"there is no topic {name!r}, and cannot be: the name {fault}", NOT_FOUND
        )
    if any(why.exit_code == NOT_FOUND for name, why in found.failures.items() if name not in faults):
        known = await topic_calls.list_topics(admin, include_internal=True)
        for name, why in found.failures.items():
            if why.exit_code == NOT_FOUND and name not in faults:
                found.failures[name] = unknown("topic", name, known)
    return found


async def the_topic(admin: Client, name: str) -> TopicDescription:
    """Raises `Failed` if there is none of that name."""
    found = await described(admin, [name])
    for why in found.failures.values():
        raise why
    one: TopicDescription = found.done[name]
    return one


async def places_of(admin: Client, wanted: Sequence[Partitions]) -> list[TopicPartition]:
    """Every partition that is meant, once. Raises `Failed` for the first that does not exist."""
    found = await described(admin, (each.topic for each in wanted))
    for why in found.failures.values():
        raise why
    places: set[TopicPartition] = set()
    for topic, numbers in wanted:
        there = {each.partition for each in found.done[topic].partitions}
        for missing in sorted(set(numbers or ()) - there):
            raise Failed(
                f"{topic} has no partition {missing}: they are numbered 0 to {max(there)}", NOT_FOUND
            )
        places |= {TopicPartition(topic, number) for number in (there if numbers is None else numbers)}
    return sorted(places)


class Bounds(NamedTuple):
    """Where a log starts and ends."""

    start: int
    end: int


async def bounds(admin: Client, places: Iterable[TopicPartition]) -> Settled:
    """The `Bounds` of each partition."""
    places = list(places)
    starts = await settled(list_offsets(admin, dict.fromkeys(places, OffsetSpec.EARLIEST)))
    ends = await settled(list_offsets(admin, dict.fromkeys(starts.done, OffsetSpec.LATEST)))
    good = {place: Bounds(starts.done[place].offset, each.offset) for place, each in ends.done.items()}
    return Settled(good, {**starts.failures, **ends.failures})


async def resolved(admin: Client, target: Target, logs: Mapping[TopicPartition, Bounds]) -> dict[Any, int]:
    """The offset that the target means in each log. An offset is taken as it is, in the log or not."""
    if target.offset is not None:
        return dict.fromkeys(logs, target.offset)
    if target.before_end is not None:
        return {place: max(log.start, log.end - target.before_end) for place, log in logs.items()}
    if target.time_ms is None:
        return {place: log.start if target.end == START else log.end for place, log in logs.items()}
    found = await list_offsets(admin, dict.fromkeys(logs, target.time_ms))
    return {place: logs[place].end if each.offset < 0 else each.offset for place, each in found.items()}
