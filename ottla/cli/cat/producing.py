"""-P: what stdin has, or files, as records; sent by the engine of `ottla produce`.

A topic that is missing comes into being if the brokers create topics for those who write to them, as for any producer.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import click

from ottla.cli.cat.command import say
from ottla.cli.cat.parting import Pieces, chooser
from ottla.cli.cat.wanted import Wanted
from ottla.cli.remote import NOT_FOUND, PARTLY, Admin, Failed, failed, with_admin
from ottla.cli.sending.inputs import STDIN, Block, Input, blocks
from ottla.cli.sending.progress import SendingProgress
from ottla.cli.sending.pump import Target
from ottla.cli.sending.running import Plan, carry_out
from ottla.cli.sending.settings import producer_settings
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.client.producer.config import producer_config
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

_CREATION_SECONDS_MAX = 5.0  # a topic that nobody has created by then will not come into being
_PAUSE_SECONDS = 0.05
_NOT_YET = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}

Source = Callable[[], AsyncIterator[Block]]


def produce(wanted: Wanted) -> int:
    """Returns the exit code. Raises `Failed` and click.UsageError."""
    session().is_quiet = wanted.verbosity < 2  # kcat says nothing of what went well
    try:
        settings = producer_settings(creates_topics=True, compression=wanted.input.codec)
        choose = chooser(settings.pop("partitioner", None)) if wanted.partition is None else None
        settings["partitioner"] = "default"
        sources, unread = _sources(wanted, settings)
        count = _partition_count(
            wanted.topic, creates=str(settings["allow.auto.create.topics"]).lower() == "true"
        )
        parser = Pieces(wanted.input, count, choose, has_nulls=wanted.has_nulls, is_whole=_is_whole(wanted))
        target = Target(wanted.topic, wanted.partition, None, wanted.input.headers)
        bar = SendingProgress(None, is_typed=True)
        is_told = bool(settings.get("transactional.id")) and wanted.verbosity > 0
        if is_told:
            say("Using transactional producer")
        code = carry_out(Plan(sources, parser, target, settings, False, False, bar))
        if is_told and not code:
            say("Transaction successfully committed")
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return PARTLY if unread and not code else code


# --- what is sent -----------------------------------------------------------------------------------------------------


def _is_whole(wanted: Wanted) -> bool:
    """Whether each file is one record."""
    return bool(wanted.input.files) and not wanted.input.is_by_line


def _sources(wanted: Wanted, settings: dict[str, Any]) -> tuple[list[Source], list[str]]:
    """What to read, and the files that cannot be. Raises `Failed` if that is none of them."""
    if not _is_whole(wanted):
        size_max = producer_config(settings | {"partitioner": "default"}).buffer_memory
        source = Input(next(iter(wanted.input.files), STDIN))
        pieces = functools.partial(blocks, source, wanted.input.delimiter, size_max)
        return [pieces if wanted.count is None else functools.partial(_first, pieces, wanted.count)], []
    good, unread = [], []
    for path in wanted.input.files:
        try:
            with open(path, "rb"):
                good.append(functools.partial(_whole, path))
        except OSError as error:
            unread.append(path)
            say(f"Failed to open {path}: {error.strerror}")
    if not good:
        raise Failed("none of the files can be read")
    if unread:
        say(f"Failed to produce from {len(unread)}/{len(wanted.input.files)} files")
    return list(good), unread


async def _whole(path: str) -> AsyncIterator[Block]:
    with open(path, "rb") as file:
        data = file.read()
    yield Block(path, 1, [data], len(data))


async def _first(source: Source, count: int) -> AsyncIterator[Block]:
    """So many records of it: empty pieces are none."""
    async for block in source():
        taken = []
        for piece in block.pieces:
            if count == 0:
                break
            taken.append(piece)
            count -= bool(piece)
        yield block._replace(pieces=taken)
        if count == 0:
            return


# --- where to ---------------------------------------------------------------------------------------------------------


def _partition_count(topic: str, *, creates: bool) -> int:
    """Of the topic, which may come into being by this. Raises `Failed`."""

    async def work(admin: Admin) -> int:
        loop = asyncio.get_running_loop()
        limit = session().timeout or DEFAULT_TIMEOUT
        deadline = loop.time() + (min(limit, _CREATION_SECONDS_MAX) if creates else 0)
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=creates
        )
        while True:
            peer = await admin._routes.cluster.any_peer()
            answer: MetadataResponse = await peer.send(request)
            (row,) = answer.topics
            if not row.error_code and row.partitions:
                return len(row.partitions)
            if row.error_code not in _NOT_YET or loop.time() >= deadline:
                raise _refusal(topic, row.error_code)
            await asyncio.sleep(_PAUSE_SECONDS)

    return with_admin(work)


def _refusal(topic: str, code: int) -> Failed:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Failed(
            f"there is no topic {topic!r}, and the brokers create none: ottla topic create makes it",
            NOT_FOUND,
        )
    return failed(KafkaError.of(code, f"topic {topic}"))
