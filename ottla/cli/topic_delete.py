"""`ottla topic delete`: say what would go, ask, and delete.

Exit codes: 0 done, 1 refused or failed, 2 usage, or nobody is there to ask; 3 some were not deleted, 4 no such topic,
5 not allowed, 6 no broker answers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from ottla.cli import completing
from ottla.cli.outcomes import ask_first, counted, finish, settled
from ottla.cli.remote import NOT_FOUND, Admin, Failed, with_admin
from ottla.cli.session import json_option, reach_options, session
from ottla.cli.tables import document, say, show
from ottla.cli.targets import bounds, described
from ottla.cli.topic_progress import size
from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.admin.topic_values import TopicDescription
from ottla.client.admin.topics import delete_topics, list_topics
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition

_GOING = ["topic", "partitions", "records", "bytes"]
_GONE = [*_GOING, "outcome"]


class Going(NamedTuple):
    """A topic that is to go. Records are offsets between start and end; what nobody tells is None."""

    topic: str
    partitions: int
    records: int | None
    bytes: int | None


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="NAME...", shell_complete=completing.topics)
@click.option(
    "--regex", is_flag=True, help="The names are patterns; a topic that matches one as a whole is meant."
)
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no failure.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@reach_options
def delete(
    topics: tuple[str, ...], regex: bool, if_exists: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Delete topics with all that is in them. This cannot be undone.

    First it is shown what would go: partitions, records, and bytes on all disks. Then somebody has to say yes, here or
    with --yes. Patterns never mean the cluster's own topics.

    --json: {"dry_run", "topics": [{"topic", "partitions", "records", "bytes", "deleted"}], "failures": [SENTENCE]}.
    """
    patterns = [_pattern(each) for each in topics] if regex else []

    async def work(admin: Admin) -> int:
        names = await _matching(admin, patterns) if regex else list(dict.fromkeys(topics))
        found = await described(admin, names)
        missing = [why for why in found.failures.values() if not (if_exists and why.exit_code == NOT_FOUND)]
        going = await look(admin, found.done)
        if not going and missing:
            return finish(missing, is_some_done=False, show=lambda: None)
        if dry_run or not going:
            return _outcome(
                going, {} if not dry_run else dict.fromkeys(found.done), missing, dry_run, as_json
            )
        if not yes:
            _announce(going)
        ask_first(f"Delete {counted(len(going), 'topic')}?", yes)
        gone = await settled(
            delete_topics(admin, [each.topic for each in going]), [each.topic for each in going]
        )
        return _outcome(going, gone.done, [*missing, *gone.failures.values()], dry_run, as_json)

    return with_admin(work)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"{text!r} is no pattern: {error}") from None


async def _matching(admin: Admin, patterns: Sequence[re.Pattern[str]]) -> list[str]:
    names = [name for name in await list_topics(admin) if any(each.fullmatch(name) for each in patterns)]
    if not names:
        raise Failed("no topic matches", NOT_FOUND)
    return names


async def look(admin: Admin, topics: Mapping[str, TopicDescription]) -> list[Going]:
    """What is in the topics. Numbers that cannot be had do not stop anybody."""
    places = [
        TopicPartition(name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if each.leader >= 0
    ]
    try:
        logs = (await bounds(admin, places)).done
    except KafkaError:
        logs = {}
    taken = await _bytes(admin, places)
    return [
        Going(
            name,
            len(topic.partitions),
            None
            if not any(place.topic == name for place in logs)
            else sum(log.end - log.start for place, log in logs.items() if place.topic == name),
            None if taken is None else taken.get(name, 0),
        )
        for name, topic in topics.items()
    ]


async def _bytes(admin: Admin, places: Sequence[TopicPartition]) -> dict[str, int] | None:
    """On all brokers together."""
    try:
        found = await describe_log_dirs(admin, partitions=places)
    except KafkaError:
        return None
    taken: dict[str, int] = {}
    for directories in found.values():
        for directory in directories.values():
            for place, replica in directory.replicas.items():
                taken[place.topic] = taken.get(place.topic, 0) + replica.size
    return taken


def _announce(going: Sequence[Going]) -> None:
    for each in going:
        records = "an unknown number of records" if each.records is None else counted(each.records, "record")
        room = "" if each.bytes is None else f", {size(each.bytes)}"
        say(f"{each.topic} would go: {counted(each.partitions, 'partition')}, {records}{room}")


def _outcome(
    going: Sequence[Going], gone: Mapping[str, Any], failures: Sequence[Failed], dry_run: bool, as_json: bool
) -> int:
    rows = [{**each._asdict(), "deleted": not dry_run and each.topic in gone} for each in going]

    def show_all() -> None:
        if as_json:
            document({"dry_run": dry_run, "topics": rows, "failures": [why.message for why in failures]})
        elif dry_run:
            show(rows, _GOING)
            if not session().is_quiet:
                say("nothing was deleted; without --dry-run these topics would be")
        else:
            show([{**row, "outcome": "deleted" if row["deleted"] else "failed"} for row in rows], _GONE)

    is_some_done = dry_run or bool(gone) or not going
    return finish(failures, is_some_done=is_some_done, show=show_all)
