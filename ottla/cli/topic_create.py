"""`ottla topic create`: new topics, or with --dry-run whether they could be made.

Exit codes: 0 done, 1 refused, 2 usage, 3 some were not made, 5 not allowed, 6 no broker answers.
"""

from typing import Any

import click

from ottla.cli.config_units import settings
from ottla.cli.outcomes import finish, settled
from ottla.cli.remote import Admin, with_admin
from ottla.cli.session import json_option, reach_options
from ottla.cli.tables import document, show
from ottla.client.admin.topic_values import CreatedTopic, NewTopic
from ottla.client.admin.topics import create_topics
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode
from ottla.core.ids import NULL_ID, format_id, topic_name_fault

_CREATED = ["topic", "outcome", "partitions", "replicas", "topic_id"]
CREATED, EXISTS, POSSIBLE = "created", "exists", "possible"


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="NAME...")
@click.option("-p", "--partitions", metavar="N", type=click.IntRange(1), help="[default: the broker's]")
@click.option(
    "-r",
    "--replicas",
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1),
    help="[default: the broker's]",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic, as in retention.ms=1d; repeatable.",
)
@click.option(
    "--assignment",
    metavar="IDS",
    help="Which brokers have which partition, instead of the two numbers: 1:2,2:3 is two partitions of two replicas.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is left alone, and well.")
@click.option("--dry-run", is_flag=True, help="Only let the broker say whether it could be done.")
@json_option
@reach_options
def create(
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    assignment: str | None,
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create topics, and return when their partitions have leaders.

    --json: {"dry_run", "topics": [{"topic", "topic_id", "outcome", "partitions", "replicas", "configs": {KEY:
    VALUE}}], "failures": [SENTENCE]}; an outcome is created, exists, or possible.
    """
    for name in topics:
        if fault := topic_name_fault(name):
            raise click.UsageError(f"{name!r} cannot be the name of a topic: it {fault}")
    places = None if assignment is None else assigned(assignment)
    if places is not None and (partitions is not None or replicas is not None):
        raise click.UsageError("--assignment says how many partitions and replicas there are: leave them out")
    sent = settings(configs)
    wanted = [
        NewTopic(name, partitions or -1, replicas or -1, places, sent) for name in dict.fromkeys(topics)
    ]

    async def work(admin: Admin) -> int:
        found = await settled(_created(admin, wanted, dry_run, if_not_exists))
        failures = list(found.failures.values())
        rows = [_row(name, each, sent, dry_run) for name, each in found.done.items()]

        def show_all() -> None:
            if as_json:
                document({"dry_run": dry_run, "topics": rows, "failures": [why.message for why in failures]})
            else:
                show(rows, _CREATED)

        return finish(failures, is_some_done=bool(rows), show=show_all)

    return with_admin(work)


async def _created(
    admin: Admin, wanted: list[NewTopic], dry_run: bool, if_not_exists: bool
) -> dict[str, CreatedTopic | None]:
    """None is a topic that was there already."""
    try:
        return dict(await create_topics(admin, wanted, validate_only=dry_run))
    except PartialFailure as error:
        exists = ErrorCode.TOPIC_ALREADY_EXISTS
        results = {
            name: None if if_not_exists and name in error.errors and each.code == exists else each
            for name, each in error.results.items()
        }
        if all(name not in error.errors or each is None for name, each in results.items()):
            return results
        raise PartialFailure(error.what, results) from None


def _row(name: str, made: CreatedTopic | None, sent: dict[str, str], dry_run: bool) -> dict[str, Any]:
    """Brokers before 2.4 do not tell how many partitions there are."""
    if made is None:
        return {
            "topic": name,
            "topic_id": None,
            "outcome": EXISTS,
            "partitions": None,
            "replicas": None,
            "configs": {},
        }
    return {
        "topic": name,
        "topic_id": None if dry_run or made.topic_id == NULL_ID else format_id(made.topic_id),
        "outcome": POSSIBLE if dry_run else CREATED,
        "partitions": made.num_partitions if made.num_partitions > 0 else None,
        "replicas": made.replication_factor if made.replication_factor > 0 else None,
        "configs": sent,
    }


def assigned(text: str) -> dict[int, list[int]]:
    """`1:2,2:3`: for each partition its brokers, as kafka-topics --replica-assignment has it."""
    found: dict[int, list[int]] = {}
    for number, part in enumerate(text.split(",")):
        words = part.split(":")
        if not all(each.isascii() and each.isdecimal() for each in words):
            raise click.UsageError(f"{text!r} assigns nothing: write the ids of brokers, as in 1:2,2:3")
        found[number] = [int(each) for each in words]
        if len(set(found[number])) < len(words):
            raise click.UsageError(f"partition {number} would have two replicas on one broker: {part}")
    if len({len(each) for each in found.values()}) > 1:
        raise click.UsageError(f"{text!r}: all partitions must have equally many replicas")
    return found
