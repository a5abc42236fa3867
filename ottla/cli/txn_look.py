"""What `ottla txn` shows: transactions as coordinators know them, and as partitions show them."""

import time
from collections.abc import Iterable
from typing import Any

import click

from ottla.cli import completing
from ottla.cli.remote import PARTLY, Cluster, Failed, asking, connection_options
from ottla.cli.session import json_option
from ottla.cli.tables import document, say, show
from ottla.cli.txn_state import (
    Hanging,
    Producer,
    Transaction,
    Wanted,
    described,
    hanging,
    listed,
    partitions_of,
    producers,
)
from ottla.core.ids import topic_name_fault

_MS = 1000
AGE_MS = 15 * 60 * _MS
"""transaction.max.timeout.ms: no coordinator lets a transaction stay open for longer."""
_LISTED = ["transactional_id", "producer_id", "state", "coordinator"]
_DESCRIBED = [
    "transactional_id",
    "coordinator",
    "producer_id",
    "producer_epoch",
    "state",
    "timeout_ms",
    "start_time_ms",
    "duration_ms",
    "partitions",
]
_PRODUCER = [
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_timestamp",
    "coordinator_epoch",
    "start_offset",
]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def place_of(text: str) -> tuple[str, int | None]:
    """`topic` or `topic:3`."""
    topic, colon, number = text.partition(":")
    if fault := topic_name_fault(topic):
        raise click.UsageError(f"{text!r} names no topic: the name {fault}")
    if not colon:
        return topic, None
    if not (number.isascii() and number.isdecimal() and int(number) < 2**31):
        raise click.UsageError(f"{text!r} names no partition; write it as {topic}:0")
    return topic, int(number)


# --- ls, describe -----------------------------------------------------------------------------------------------------


@click.command()
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only those in it, such as Ongoing; repeatable."
)
@click.option("--duration-ms", type=click.IntRange(0), help="Only those that run for longer than this.")
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=click.IntRange(0), help="Only its; repeatable."
)
@click.option("--pattern", metavar="RE", help="Only those whose transactional id matches as a whole.")
@json_option
@connection_options
def ls(
    states: tuple[str, ...],
    duration_ms: int | None,
    producer_ids: tuple[int, ...],
    pattern: str | None,
    as_json: bool,
    bootstrap_server: str,
    timeout: float,
) -> int:
    """List the transactions of the cluster: transactional id, producer, state and coordinator.

    --json: {"transactions": [{"transactional_id", "producer_id", "state", "coordinator"}]}.
    """
    wanted = Wanted(states, producer_ids, -1 if duration_ms is None else duration_ms, pattern)

    async def work(asked: Cluster) -> int:
        found, failures, unknown = await listed(asked, wanted)
        if unknown:
            raise click.UsageError(f"no state is called {', '.join(sorted(unknown))}")
        rows = [each._asdict() for each in found]
        if as_json:
            document({"transactions": rows})
        else:
            show(rows, _LISTED)
        return complain((f"broker {node_id}", why) for node_id, why in failures.items())

    return asking(bootstrap_server, timeout, work)


@click.command()
@click.argument("transactional_id", metavar="ID")
@json_option
@connection_options
def describe(transactional_id: str, as_json: bool, bootstrap_server: str, timeout: float) -> int:
    """Show what the coordinator knows of a transactional id: producer, state, age and partitions.

    --json: {"transactional_id", "coordinator", "producer_id", "producer_epoch", "state", "timeout_ms", "start_time_ms",
    "duration_ms", "partitions": ["TOPIC:N"]}.
    """

    async def work(asked: Cluster) -> int:
        row = _row(await described(asked, transactional_id))
        if as_json:
            document(row)
        else:
            show([row], _DESCRIBED)
        return 0

    return asking(bootstrap_server, timeout, work)


def _row(found: Transaction) -> dict[str, Any]:
    start = found.start_time_ms
    return {
        **found._asdict(),
        "duration_ms": None if start is None else max(0, now_ms() - start),
        "partitions": [f"{place.topic}:{place.partition}" for place in sorted(found.partitions)],
    }


# --- producers, find-hanging ------------------------------------------------------------------------------------------


@click.command(name="producers")
@click.argument("place", metavar="TOPIC[:PARTITION]", shell_complete=completing.topics)
@json_option
@connection_options
def show_producers(place: str, as_json: bool, bootstrap_server: str, timeout: float) -> int:
    """Show the producers that the partitions of a topic remember, and where their open transactions start.

    --json: {"producers": [{"topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp",
    "coordinator_epoch", "start_offset"}]}; without an open transaction, start_offset is null.
    """
    topic, partition = place_of(place)

    async def work(asked: Cluster) -> int:
        found, failures = await producers(asked, await partitions_of(asked, topic, partition))
        rows = [producer_row(each) for each in found]
        if as_json:
            document({"producers": rows})
        else:
            show(rows, _PRODUCER)
        return complain((str(where), why) for where, why in failures.items())

    return asking(bootstrap_server, timeout, work)


def producer_row(found: Producer) -> dict[str, Any]:
    row = found._asdict()
    place = row.pop("place")
    return {"topic": place.topic, "partition": place.partition, **row}


@click.command(name="find-hanging")
@click.option(
    "--topic",
    metavar="TOPIC[:PARTITION]",
    shell_complete=completing.topics,
    help="Look here only, instead of at all partitions.",
)
@click.option(
    "--max-age",
    metavar="MS",
    type=click.IntRange(0),
    default=AGE_MS,
    show_default=True,
    help="Leave alone what was written to within this time; transaction.max.timeout.ms is a good choice.",
)
@json_option
@connection_options
def find_hanging(
    topic: str | None, max_age: int, as_json: bool, bootstrap_server: str, timeout: float
) -> int:
    """Find open transactions that nobody will end.

    Those are transactions that are open in a partition, while no coordinator knows them to be under way there.
    Readers of committed records wait behind them for ever. `ottla txn abort` ends them.

    --json: {"hanging": [{"topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp",
    "coordinator_epoch", "start_offset", "transactional_id", "age_ms"}]}.
    """
    name, partition = (None, None) if topic is None else place_of(topic)

    async def work(asked: Cluster) -> int:
        places = await partitions_of(asked, name, partition)
        found, failures = await hanging(asked, places, max_age, now_ms())
        rows = [_hanging_row(each) for each in found]
        if as_json:
            document({"hanging": rows})
        else:
            show(rows, [*_PRODUCER, "transactional_id", "age_ms"])
        return complain((str(where), why) for where, why in failures.items())

    return asking(bootstrap_server, timeout, work)


def _hanging_row(found: Hanging) -> dict[str, Any]:
    return {
        **producer_row(found.producer),
        "transactional_id": found.transactional_id,
        "age_ms": found.age_ms,
    }


def complain(failures: Iterable[tuple[str, Failed]]) -> int:
    """A sentence for each; the exit code."""
    code = 0
    for where, why in failures:
        say(f"{where}: {why.message}")
        code = PARTLY
    return code
