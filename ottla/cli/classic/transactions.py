"""`kafka-transactions`: list and describe transactions, find those that hang, and end them."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from ottla.cli.classic.java import Illegal, message_of
from ottla.cli.classic.running import Tool, with_admin
from ottla.cli.classic.transactions_parser import parser
from ottla.cli.dump.output import printable
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

_LISTED = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBED = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
_MINUTE_MS = 60_000
_NONE = "None"


class Failing(Illegal):
    """A call that failed: what it was for, and why."""

    def __init__(self, what: str, error: KafkaError, about: str = "") -> None:
        super().__init__(f"{what}: {message_of(error, about)}. Enable debug logging for additional detail.")


def run(options: argparse.Namespace) -> None:
    commands = {
        "list": _list,
        "describe": _describe,
        "describe-producers": _describe_producers,
        "abort": _abort,
        "find-hanging": _find_hanging,
        "forceTerminateTransaction": _force,
    }
    _check(options)
    from ottla.cli.classic.admin_parser import servers_in

    work = commands[options.command]
    with_admin(servers_in(options), options.command_config, lambda admin: work(admin, options))


def _check(options: argparse.Namespace) -> None:
    """What the parser cannot know. Raises Illegal."""
    if options.command == "abort" and options.start_offset is None:
        if options.producer_id is None:
            raise Illegal(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) "
                "or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
            )
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, name) is None:
                raise Illegal(f"Missing required argument --{name.replace('_', '-')}")
    if options.command == "find-hanging":
        if options.topic is None and options.broker_id is None:
            raise Illegal(
                "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
            )
        if options.partition is not None and options.topic is None:
            raise Illegal("The --partition argument requires --topic to be provided")


def show(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table: cells as wide as the widest of their column, and a tab behind each."""
    cells = [names, *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    for row in cells:
        print("".join(f"{cell:{width}}\t" for cell, width in zip(row, widths, strict=True)))


# --- looking ----------------------------------------------------------------------------------------------------------


async def _list(admin: Any, options: argparse.Namespace) -> None:
    from ottla.cli.classic.transactions_state import listed

    duration_ms = -1 if options.duration_filter is None else options.duration_filter
    rows = await listed(admin, duration_ms, options.transactional_id_pattern)
    show(
        _LISTED,
        [(row.transactional_id, broker, row.producer_id, row.transaction_state) for broker, row in rows],
    )


async def _describe(admin: Any, options: argparse.Namespace) -> None:
    import time

    from ottla.client.admin.transactions import describe_transactions

    name = options.transactional_id
    try:
        found = (await describe_transactions(admin, [name]))[name]
    except KafkaError as error:
        what = f"Failed to describe transaction state of transactional-id `{name}`"
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            told = f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found"
            raise Illegal(f"{what}: {told}. Enable debug logging for additional detail.") from None
        raise Failing(what, error, f"transactional id {name}") from None
    start = found.transaction_start_time_ms
    show(
        _DESCRIBED,
        [
            (
                found.coordinator,
                found.transactional_id,
                found.producer_id,
                found.producer_epoch,
                found.state,
                found.transaction_timeout_ms,
                _NONE if start is None else start,
                _NONE if start is None else time.time_ns() // 1_000_000 - start,
                ",".join(map(str, sorted(found.partitions))),
            )
        ],
    )


async def _describe_producers(admin: Any, options: argparse.Namespace) -> None:
    from ottla.cli.classic.transactions_state import producers_of

    place = TopicPartition(options.topic, options.partition)
    where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    found = await producers_of(
        admin, [place], options.broker_id, f"Failed to describe producers for partition {place} on {where}"
    )
    show(
        _PRODUCERS,
        [
            (
                each.producer_id,
                each.producer_epoch,
                -1 if each.coordinator_epoch is None else each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp,
                _NONE if each.current_txn_start_offset is None else each.current_txn_start_offset,
            )
            for each in found[place]
        ],
    )


async def _find_hanging(admin: Any, options: argparse.Namespace) -> None:
    import time

    from ottla.cli.classic.transactions_state import hanging, places_of

    now_ms = time.time_ns() // 1_000_000
    places = await places_of(admin, options.topic, options.partition, options.broker_id)
    found = await hanging(
        admin, places, options.broker_id, now_ms - options.max_transaction_timeout * _MINUTE_MS
    )
    show(
        _HANGING,
        [
            (
                place.topic,
                place.partition,
                each.producer_id,
                each.producer_epoch,
                -1 if each.coordinator_epoch is None else each.coordinator_epoch,
                each.current_txn_start_offset,
                each.last_timestamp,
                (now_ms - each.last_timestamp) // _MINUTE_MS,
            )
            for place, each in found
        ],
    )


# --- ending -----------------------------------------------------------------------------------------------------------


async def _abort(admin: Any, options: argparse.Namespace) -> None:
    from ottla.cli.classic.transactions_state import producers_of
    from ottla.client.admin.transactions import abort_transaction

    place = TopicPartition(options.topic, options.partition)
    if options.start_offset is None:
        id, epoch, coordinator_epoch = (
            options.producer_id,
            options.producer_epoch,
            max(0, options.coordinator_epoch),
        )
    else:
        what = f"Failed to validate producer state for partition {place}"
        found = (await producers_of(admin, [place], None, what))[place]
        owner = next((each for each in found if each.current_txn_start_offset == options.start_offset), None)
        if owner is None:
            raise Illegal(
                f"Could not find any open transactions starting at offset {options.start_offset} on partition {place}"
            )
        id, epoch, coordinator_epoch = owner.producer_id, owner.producer_epoch, owner.coordinator_epoch or 0
    try:
        await abort_transaction(
            admin, place, producer_id=id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch
        )
    except KafkaError as error:
        raise Failing(f"Failed to abort transaction of producer {id} in partition {place}", error) from None


async def _force(admin: Any, options: argparse.Namespace) -> None:
    from ottla.client.admin.transactions import fence_producers

    name = options.transactionalId
    try:
        await fence_producers(admin, [name])
    except KafkaError as error:
        raise Failing(f"Failed to force terminate transactionalId `{name}`", error) from None


def _report(error: Exception) -> None:
    if isinstance(error, ConfigError):
        print("org.apache.kafka.common.KafkaException: ", end="", file=sys.stderr)
    elif isinstance(error, FileNotFoundError):
        error = Illegal(
            f"Failed to load admin client properties: {error.filename}. Enable debug logging for additional detail."
        )
    print(message_of(error), file=sys.stderr)


TOOL = Tool(parser, run, _report, needs_words=False)
