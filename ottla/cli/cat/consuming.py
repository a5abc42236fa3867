"""-C and -G: the records of a topic on stdout, by the loop of `ottla consume`, said and written as kcat does.

-C reads the partitions that are there when it begins. -G joins the group and commits; -o then goes before what the
group has committed.
"""

import re
import time
from collections.abc import Callable, Collection

import click

from ottla.cli.cat.command import say
from ottla.cli.cat.printing import Over, encoder, until
from ottla.cli.cat.wanted import GROUP, Wanted
from ottla.cli.cat.words import BEGINNING, END, STORED
from ottla.cli.reading.choice import grouped, started
from ottla.cli.reading.encoders import for_terminal
from ottla.cli.reading.output import Output
from ottla.cli.reading.reading import Interrupts, Reading, Wish
from ottla.cli.reading.remarks import remarks
from ottla.cli.reading.stretches import Stretches
from ottla.cli.remote import Admin, failed, with_admin
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.cli.targets import END as AT_END
from ottla.cli.targets import START as AT_START
from ottla.cli.targets import Partitions, Span, Target, places_of
from ottla.client import Consumer, RebalanceListener
from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.ids import TopicPartition

_MS = 1000
_CLOSE_SECONDS_MAX = 5.0
_PATIENCE_MIN = 1.0
_LOOK_SECONDS = 0.1


def consume(wanted: Wanted) -> int:
    """Read until it is over. Raises `Failed`, click.UsageError, BrokenPipeError and KeyboardInterrupt."""
    output = Output()
    encode = encoder(wanted, output.write)
    if output.is_terminal:
        encode = for_terminal(encode)
    timeout = session().timeout or DEFAULT_TIMEOUT
    try:
        places = _places(wanted)
        if (end_ms := _later(wanted)) is not None:
            encode = until(encode, end_ms, places, output.write)
        with remarks("cat", is_quiet=not wanted.verbosity) as said:
            consumer = _consumer(wanted)
            try:
                stretches = Stretches(
                    consumer, _span(wanted), ends=wanted.ends_at_end, has_group=_goes_on(wanted)
                )
                reading = Reading(
                    consumer,
                    stretches,
                    Wish(encode, wanted.count),
                    output,
                    has_group=wanted.mode == GROUP,
                    patience=max(_PATIENCE_MIN, timeout),
                )
                with Interrupts(consumer.wakeup).noted():
                    _begin(wanted, consumer, reading, places)
                    reading.run(Ends(consumer, stretches, is_quiet=not wanted.verbosity), said)
            finally:
                consumer.close(min(timeout, _CLOSE_SECONDS_MAX) * _MS)
    except Over:
        return 0
    except (KafkaError, ProtocolError) as error:
        raise failed(error) from error
    return 0


# --- what is read -----------------------------------------------------------------------------------------------------


def _places(wanted: Wanted) -> list[TopicPartition]:
    """The partitions that are meant. Of a group, that the topics exist is all that is wanted to be known."""
    names = (
        [each for each in wanted.topics if not _is_pattern(each)] if wanted.mode == GROUP else [wanted.topic]
    )
    numbers = None if wanted.partition is None else (wanted.partition,)

    async def ask(admin: Admin) -> list[TopicPartition]:
        return await places_of(admin, [Partitions(each, numbers) for each in names])

    return with_admin(ask)


def _is_pattern(topic: str) -> bool:
    return topic.startswith("^")


def _begin(wanted: Wanted, consumer: Consumer, reading: Reading, places: list[TopicPartition]) -> None:
    if wanted.mode != GROUP:
        reading.assign(places)
        return
    if wanted.verbosity:
        say("Waiting for group rebalance")
    listener = Rebalances(consumer, reading, wanted)
    if not any(map(_is_pattern, wanted.topics)):
        consumer.subscribe(wanted.topics, None, listener)
        return
    parts = [each if _is_pattern(each) else f"^{re.escape(each)}$" for each in wanted.topics]
    try:
        consumer.subscribe((), re.compile("|".join(map(grouped, parts))), listener)
    except re.error as error:
        raise click.UsageError(f"{' '.join(wanted.topics)}: no regular expression: {error}") from None


def _goes_on(wanted: Wanted) -> bool:
    """Whether what was committed says where to begin."""
    start = wanted.start
    if wanted.mode == GROUP:
        return start.name in (None, STORED) and start.offset is None
    return start.name == STORED


def _later(wanted: Wanted) -> int | None:
    """The time to end, if it is still to come and waited for: no offset can be told for it yet."""
    end_ms = wanted.start.end_ms
    return end_ms if end_ms is not None and end_ms > time.time() * _MS and not wanted.ends_at_end else None


def _span(wanted: Wanted) -> Span:
    name, offset, time_ms, end_ms = wanted.start
    stop = None if end_ms is None or _later(wanted) else Target(time_ms=end_ms)
    if time_ms is not None:
        return Span(Target(time_ms=time_ms), stop)
    if offset is not None:
        return Span(Target(offset=offset) if offset >= 0 else Target(before_end=-offset), stop)
    if name == BEGINNING and wanted.mode == GROUP:
        return Span(Target(offset=0), stop)  # wherever the group has been
    if name == END or (name != BEGINNING and _goes_on(wanted) and _reset() != "earliest"):
        return Span(Target(end=AT_END), stop)
    return Span(Target(end=AT_START), stop)


def _reset() -> str:
    found = session().found().get("auto.offset.reset")
    return "latest" if found is None else found.value


def _consumer(wanted: Wanted) -> Consumer:
    group = wanted.group
    if wanted.mode != GROUP and wanted.start.name == STORED:
        named = session().found().get("group.id")
        if named is None:
            raise click.UsageError("-o stored is where a group has committed: name it with -X group.id=GROUP")
        group = named.value
    said = {} if wanted.mode == GROUP else {"enable.auto.commit": False}
    return started(group, _reset() if wanted.mode == GROUP else "earliest", {}, said)


# --- what is said -----------------------------------------------------------------------------------------------------


class Rebalances(RebalanceListener):
    """Says what the group does, and lets the reading know."""

    def __init__(self, consumer: Consumer, reading: Reading, wanted: Wanted) -> None:
        self._consumer, self._reading = consumer, reading
        self._group, self._is_quiet = wanted.group, not wanted.verbosity

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._say("assigned", assigned)
        self._reading.on_partitions_assigned(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._say("revoked", revoked)
        self._reading.on_partitions_revoked(revoked)

    def _say(self, what: str, places: Collection[TopicPartition]) -> None:
        if self._is_quiet:
            return
        member = self._consumer.group_metadata().member_id
        named = ", ".join(f"{each.topic} [{each.partition}]" for each in sorted(places))
        say(f"Group {self._group} rebalanced (memberid {member}): {what}: {named}")


class Ends:
    """Says it when a partition was read to its end, once for each end. Stands where others have a progress bar."""

    def __init__(
        self,
        consumer: Consumer,
        stretches: Stretches,
        *,
        is_quiet: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer, self._stretches, self._is_quiet, self._now = consumer, stretches, is_quiet, now
        self._due = now()
        self._said: dict[TopicPartition, int] = {}

    def show(self, count: int, size: int, left: int | None) -> None:
        if self._is_quiet or (self._now() < self._due and left != 0):
            return
        self._due = self._now() + _LOOK_SECONDS
        reached = []
        for place, position in self._consumer.positions().items():
            stop = self._stretches.stops.get(place)
            if stop is None and self._consumer.lag(place) == 0:  # also before a transaction that is open
                stop = position
            if stop is not None and position >= stop and self._said.get(place) != stop:
                self._said[place] = stop
                is_early = self._stretches.has_stop and stop < (self._consumer.highwater(place) or 0)
                what = "stop timestamp for" if is_early else "end of"
                reached.append(f"Reached {what} topic {place.topic} [{place.partition}] at offset {stop}")
        for index, sentence in enumerate(reached, 1):
            say(f"{sentence}: exiting" if left == 0 and index == len(reached) else sentence)
