"""`ottla topic add-partitions`: let a topic grow. It cannot shrink again, and keys will land elsewhere.

Exit codes: 0 done, 1 refused, 2 usage, or nobody is there to ask; 4 no such topic, 5 not allowed, 6 no broker answers.
"""

from typing import Any

import click

from ottla.cli import completing
from ottla.cli.outcomes import ask_first, counted
from ottla.cli.remote import Admin, Failed, with_admin
from ottla.cli.session import json_option, reach_options, session
from ottla.cli.tables import document, say, show
from ottla.cli.targets import the_topic
from ottla.cli.topic_create import assigned
from ottla.client.admin.topic_values import NewPartitions
from ottla.client.admin.topics import create_partitions
from ottla.client.errors import PartialFailure

_GROWN = ["topic", "partitions_before", "partitions", "outcome"]


@click.command(name="add-partitions")
@click.argument("topic", metavar="NAME", shell_complete=completing.topics)
@click.argument("total", metavar="TOTAL", type=click.IntRange(1, 2**31 - 1))
@click.option(
    "--assignment", metavar="IDS", help="Which brokers have the new partitions: 1:2,2:3 for two of them."
)
@click.option("--dry-run", is_flag=True, help="Only let the broker say whether it could be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@reach_options
def add_partitions(
    topic: str, total: int, assignment: str | None, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Give a topic more partitions: TOTAL is how many it has then.

    Records with a key go to the partition that the key and the number of partitions choose together. With another
    number, new records of a key land in another partition than the old ones, and nobody keeps their order any more. So
    somebody has to say yes, here or with --yes. A topic cannot get fewer partitions again.

    --json: {"topic", "partitions_before", "partitions", "dry_run"}.
    """
    places = None if assignment is None else list(assigned(assignment).values())

    async def work(admin: Admin) -> int:
        before = len((await the_topic(admin, topic)).partitions)
        if total <= before:
            raise Failed(f"{topic} has {counted(before, 'partition')}: it can only get more of them")
        if places is not None and len(places) != total - before:
            raise click.UsageError(
                f"--assignment must say where {counted(total - before, 'new partition')} lie, not {len(places)}"
            )
        wanted = NewPartitions(total, places)
        await _grow(admin, topic, wanted, validate_only=True)
        if not dry_run:
            if not (yes and session().is_quiet):
                say(
                    f"{topic} grows from {before} to {total} partitions: new records of a key may land in another "
                    "partition than the old ones"
                )
            ask_first(f"Give {topic} {counted(total - before, 'partition')} more?", yes)
            await _grow(admin, topic, wanted, validate_only=False)
        _show(topic, before, total, dry_run, as_json)
        return 0

    return with_admin(work)


async def _grow(admin: Admin, topic: str, wanted: NewPartitions, *, validate_only: bool) -> None:
    try:
        await create_partitions(admin, {topic: wanted}, validate_only=validate_only)
    except PartialFailure as error:
        raise next(iter(error.errors.values())) from None


def _show(topic: str, before: int, total: int, dry_run: bool, as_json: bool) -> None:
    row: dict[str, Any] = {"topic": topic, "partitions_before": before, "partitions": total}
    if as_json:
        document({**row, "dry_run": dry_run})
    else:
        show([{**row, "outcome": "possible" if dry_run else "done"}], _GROWN)
