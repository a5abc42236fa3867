"""What `ottla consume` reads, and a consumer that does: topics by name or pattern, some of their partitions or all.

Nothing is created by asking. What ends (-e, FROM:TO) reads the partitions that there are when it begins; what goes on
for ever also reads those that come to be.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from ottla.cli.remote import NOT_FOUND, Admin, Failed, with_admin
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.cli.targets import END, Partitions, Span, partitions_of, places_of
from ottla.client import Consumer
from ottla.client.admin import topics as topic_calls
from ottla.client.consumer.config import ConsumerConfig
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition

_MS = 1000
_COMMIT_MS = 1000
_FETCH_MS = 1000  # a fetch may lie with a broker for half of that
_FLAGS = re.compile(r"(?s)(?:\(\?([aiLmsux]+)\))?(.*)")
_METADATA_MS = 10_000  # how soon a partition is read that came to be


class Choice(NamedTuple):
    """What is to be read: with `by_hand` these partitions, else all of the topics, as far as the group has no say."""

    places: list[TopicPartition]
    topics: list[str]
    pattern: re.Pattern[str] | None
    by_hand: bool


def chosen(names: Sequence[str], partitions: Sequence[int], *, is_regex: bool, by_hand: bool) -> Choice:
    """What these words mean on the cluster that the session names. Raises `Failed` for what is not there.

    Without `by_hand`, only those partitions are chosen by hand that have a number.
    """
    if is_regex:
        pattern = _pattern(names)
        wanted = [Partitions(each, tuple(partitions) or None) for each in with_admin(_matching(pattern))]
        if not wanted:
            raise Failed(f"no topic matches {' or '.join(map(repr, names))}", NOT_FOUND)
    else:
        pattern = None
        wanted = [_with(partitions_of(each), partitions) for each in names]

    async def ask(admin: Admin) -> list[TopicPartition]:
        return await places_of(admin, wanted)

    places = with_admin(ask)
    by_hand = by_hand or any(each.numbers is not None for each in wanted)
    return Choice(places, sorted({each.topic for each in wanted}), pattern, by_hand)


def _with(said: Partitions, numbers: Sequence[int]) -> Partitions:
    both = {*(said.numbers or ()), *numbers}
    return Partitions(said.topic, tuple(sorted(both)) or None)


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    for each in names:
        try:
            re.compile(each)
        except re.error as error:
            raise click.UsageError(f"{each!r} is no regular expression: {error}") from None
    return re.compile(f"(?:{'|'.join(map(grouped, names))})\\Z")


def grouped(pattern: str) -> str:
    """A regular expression as a part of another: flags at its start, as in (?i)tea, hold for this part alone."""
    flags, rest = _FLAGS.fullmatch(pattern).groups()  # type: ignore[union-attr]  # it matches everything
    return f"(?{flags or ''}:{rest})"


def _matching(pattern: re.Pattern[str]) -> Any:
    async def ask(admin: Admin) -> list[str]:
        found = await topic_calls.list_topics(admin)
        return sorted(name for name in found if pattern.match(name))

    return ask


# --- a consumer -------------------------------------------------------------------------------------------------------


def consumer_of(group: str | None, span: Span, isolation: str | None) -> Consumer:
    """One that reads as the session says. Raises UsageError for settings that make no sense, and KafkaError."""
    # Without a group, what comes to be later is new from its start; and so is what is left when records expire.
    reset = "latest" if group is not None and span.start.end == END else "earliest"
    said = {} if isolation is None else {"isolation.level": isolation}
    return started(group, reset, {"metadata.max.age.ms": _METADATA_MS}, said)


def started(group: str | None, reset: str, defaults: Mapping[str, Any], said: Mapping[str, Any]) -> Consumer:
    """The same where `said` goes before the session's settings, and `defaults` behind them."""
    limit_ms = max(1, int((session().timeout or DEFAULT_TIMEOUT) * _MS))
    behind = {
        "isolation.level": "read_committed",
        "auto.commit.interval.ms": _COMMIT_MS,
        "max.poll.records": 1000,
        "request.timeout.ms": limit_ms + _FETCH_MS,
    }
    before = {
        "group.id": group,
        "allow.auto.create.topics": False,
        "default.api.timeout.ms": limit_ms,
        "socket.connection.setup.timeout.ms": limit_ms,
        "auto.offset.reset": reset,
        "key.deserializer": None,
        "value.deserializer": None,
    }
    try:
        return Consumer(**{**behind, **defaults, **session().settings(ConsumerConfig), **before, **said})
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
