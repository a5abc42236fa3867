"""How -C and -G write records: kcat's formats, JSON envelopes and deserializers, a poll's worth at a time."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.cat.command import say
from ottla.cli.cat.envelope import envelope
from ottla.cli.cat.packing import AVRO, Serdes, Unreadable, unpacking
from ottla.cli.cat.wanted import Output as Layout
from ottla.cli.cat.wanted import Wanted
from ottla.cli.formats import NO_VALUE, NOTHING, Formatted, Nulls, Shown, compile_format, literal
from ottla.cli.reading.encoders import Encode, formatted, value_lines
from ottla.cli.remote import Admin, Failed, with_admin
from ottla.core.errors import OttlaError
from ottla.core.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.cat.avro import AvroText
    from ottla.client.records import ConsumerRecord

_LEADERS_SECONDS = 60.0
_NOBODY = -1


def encoder(wanted: Wanted, write: Callable[[bytes], None]) -> Encode:
    """Records as bytes. Where one cannot be read, those before it are given to `write`, and `Failed` is raised; with
    -E that is said, and it is left out."""
    layout = wanted.output
    key, value = (_serde(layout, is_key) for is_key in (True, False))
    if wanted.is_json:
        avros = [each if not callable(each) else None for each in (key, value)]
        return formatted(envelope(layout.delimiter, Leaders().of, avros[0], avros[1], _complaint(wanted)))
    plain = Layout(None, b"\n", None, False, Serdes(), layout.registry, layout.is_unbuffered)
    if layout == plain and not wanted.has_nulls:
        return value_lines
    nulls = Nulls(NO_VALUE, are_empty=True) if wanted.has_nulls else NOTHING
    one = compile_format(_format(wanted), nulls=nulls, show_key=_shown(key), show_value=_shown(value))
    return formatted(one) if key is None and value is None else _carefully(one, write, _complaint(wanted))


def _format(wanted: Wanted) -> str:
    """-f, or what -D, -K and -O say."""
    layout = wanted.output
    if layout.format is not None:
        return layout.format
    between = layout.key_delimiter
    if between is None and layout.serdes.key == AVRO:
        between = b""  # who says what keys are wants to see them
    key = "" if between is None else f"%k{literal(between)}"
    offset = f"%o{literal(between or b' ')}" if layout.has_offsets else ""
    return f"{offset}{key}%s{literal(layout.delimiter)}"


# --- deserializers ----------------------------------------------------------------------------------------------------


def _serde(layout: Layout, is_key: bool) -> "AvroText | Shown | None":
    pack, what = (layout.serdes.key, "key") if is_key else (layout.serdes.value, "value")
    if pack is None:
        return None
    if pack != AVRO:
        return unpacking(pack, what)
    if not layout.registry:
        raise click.UsageError("-s avro needs the address of the schema registry: -r URL")
    from ottla.cli.cat.avro import AvroText

    try:
        return AvroText(layout.registry, is_key=is_key)
    except (ImportError, OttlaError) as error:
        raise Failed(str(error)) from None


def _shown(serde: "AvroText | Shown | None") -> Shown | None:
    return serde if serde is None or callable(serde) else serde.show


def _complaint(wanted: Wanted) -> Callable[[str], None]:
    def complain(sentence: str) -> None:
        if not wanted.is_patient:
            raise Failed(f"{sentence}; -E leaves such records out")
        say(f"ERROR: {sentence}")

    return complain


def _carefully(one: Formatted, write: Callable[[bytes], None], complain: Callable[[str], None]) -> Encode:
    """Record by record, so that one that cannot be read spoils no other."""

    def encode(records: Sequence["ConsumerRecord"]) -> bytes:
        done: list[bytes] = []
        for record in records:
            try:
                done.append(one(record))
            except Unreadable as error:
                write(b"".join(done))
                done.clear()
                complain(
                    f"Failed to format message in {record.topic} [{record.partition}] "
                    f"at offset {record.offset}: {error}"
                )
        return b"".join(done)

    return encode


# --- a time to end that is still to come ------------------------------------------------------------------------------


class Over(Exception):
    """Every partition has reached the time to end. What was before it is written."""


def until(
    encode: Encode, end_ms: int, places: Collection[TopicPartition], write: Callable[[bytes], None]
) -> Encode:
    """The same up to the first record of each partition that is not older. Raises `Over` when all have one."""
    left = set(places)

    def is_before(record: "ConsumerRecord") -> bool:
        if record.timestamp >= end_ms:
            left.discard(record.topic_partition)
        return record.topic_partition in left

    def cut(records: Sequence["ConsumerRecord"]) -> bytes:
        kept = [each for each in records if is_before(each)]
        data = encode(kept) if kept else b""
        if not left:
            write(data)
            raise Over
        return data

    return cut


# --- leaders ----------------------------------------------------------------------------------------------------------


class Leaders:
    """Which broker leads a partition, for -J: looked up by topic, and again after a while."""

    def __init__(self) -> None:
        self._found: dict[str, dict[int, int]] = {}
        self._asked = time.monotonic()

    def of(self, topic: str, partition: int) -> int:
        """-1 if nobody knows."""
        if time.monotonic() - self._asked > _LEADERS_SECONDS:
            self._found.clear()
            self._asked = time.monotonic()
        found = self._found.get(topic)
        if found is None or partition not in found:
            found = self._found[topic] = {**dict.fromkeys([partition], _NOBODY), **self._look_up(topic)}
        return found[partition]

    def _look_up(self, topic: str) -> dict[int, int]:
        from ottla.cli.cat.metadata import ask

        async def work(admin: Admin) -> dict[int, int]:
            answer, _ = await ask(admin, topic)
            return {each.partition_index: each.leader_id for row in answer.topics for each in row.partitions}

        try:
            return with_admin(work)
        except Failed:
            return {}
