"""`ottla topic clone`: a new topic with the partitions and settings of another one, and with its records if wanted.

Exit codes: 0 done, 1 refused or failed, 2 usage, 4 no such topic, 5 not allowed, 6 no broker answers, 130 interrupted.
A copy that fails half way leaves the new topic as it is.
"""

from typing import Any

import click

from ottla.cli import completing
from ottla.cli.config_change import entries_of
from ottla.cli.config_units import settings
from ottla.cli.outcomes import counted
from ottla.cli.remote import Admin, with_admin
from ottla.cli.session import json_option, reach_options
from ottla.cli.tables import document, say, show
from ottla.cli.targets import the_topic
from ottla.client.admin.config_values import ConfigResource, ConfigSource
from ottla.client.admin.configs import incremental_alter_configs
from ottla.client.admin.partitions import OffsetSpec, list_offsets
from ottla.client.admin.topic_values import NewTopic, TopicDescription
from ottla.client.admin.topics import create_topics
from ottla.client.errors import PartialFailure
from ottla.core.ids import TopicPartition, topic_name_fault

_CLONED = ["source", "target", "partitions", "replicas", "records", "outcome"]
_AFTER_THE_RECORDS = (
    "message.timestamp.type",
    "message.timestamp.difference.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
)
"""Settings under which a broker would change the old timestamps, or refuse them."""


@click.command()
@click.argument("source", metavar="SOURCE", shell_complete=completing.topics)
@click.argument("target", metavar="TARGET")
@click.option("--records", "with_records", is_flag=True, help="Copy the records, too.")
@click.option(
    "-r",
    "--replicas",
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1),
    help="[default: as the source has]",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that is to be another one than that of the source; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only let the broker say whether it could be done.")
@json_option
@reach_options
def clone(
    source: str,
    target: str,
    with_records: bool,
    replicas: int | None,
    configs: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Make a topic TARGET with as many partitions as SOURCE has, and with the settings that were set there.

    With --records, what is committed when it begins is copied, each record into the partition of the same number with
    its key, headers and timestamp. Offsets are counted anew. Groups do not move: `ottla group reset` sets offsets.

    --json: {"source", "target", "dry_run", "partitions", "replicas", "configs": {KEY: VALUE}, "records"}; without
    --records, records is null.
    """
    if fault := topic_name_fault(target):
        raise click.UsageError(f"{target!r} cannot be the name of a topic: it {fault}")
    if source == target:
        raise click.UsageError("a topic cannot be its own clone")
    other = settings(configs)

    async def work(admin: Admin) -> int:
        model = await the_topic(admin, source)
        wanted = await _wanted(admin, model, target, replicas, other)
        later = {
            key: value
            for key, value in (wanted.topic_configs or {}).items()
            if with_records and key in _AFTER_THE_RECORDS
        }
        await _create(admin, wanted, set(later), validate_only=dry_run)
        count = None
        if with_records and not dry_run:
            count = await _copy(admin, model, target)
            if later:
                await incremental_alter_configs(admin, {ConfigResource.topic(target): later})
        _show(source, wanted, count, dry_run, as_json)
        return 0

    return with_admin(work)


async def _wanted(
    admin: Admin, model: TopicDescription, target: str, replicas: int | None, other: dict[str, str]
) -> NewTopic:
    entries = await entries_of(admin, ConfigResource.topic(model.name))
    own = {
        name: entry.value
        for name, entry in entries.items()
        if entry.source is ConfigSource.TOPIC_CONFIG and entry.value is not None
    }
    count = replicas or max([1, *(len(each.replicas) for each in model.partitions)])
    return NewTopic(target, len(model.partitions), count, None, dict(sorted({**own, **other}.items())))


async def _create(admin: Admin, wanted: NewTopic, without: set[str], *, validate_only: bool) -> None:
    configs = {key: value for key, value in (wanted.topic_configs or {}).items() if key not in without}
    try:
        await create_topics(admin, [wanted._replace(topic_configs=configs)], validate_only=validate_only)
    except PartialFailure as error:
        raise next(iter(error.errors.values())) from None


async def _copy(admin: Admin, model: TopicDescription, target: str) -> int:
    from ottla.cli.topic_copy import copied

    places = [TopicPartition(model.name, each.partition) for each in model.partitions]
    starts = await list_offsets(admin, dict.fromkeys(places, OffsetSpec.EARLIEST))
    committed = await list_offsets(
        admin, dict.fromkeys(places, OffsetSpec.LATEST), isolation_level="read_committed"
    )
    ends = await list_offsets(admin, dict.fromkeys(places, OffsetSpec.LATEST))
    if held := sum(ends[place].offset - each.offset for place, each in committed.items()):
        say(f"{counted(held, 'offset')} behind open transactions will not be copied")
    return await copied(
        target,
        {place: each.offset for place, each in starts.items()},
        {place: each.offset for place, each in committed.items()},
    )


def _show(source: str, made: NewTopic, count: int | None, dry_run: bool, as_json: bool) -> None:
    row: dict[str, Any] = {
        "source": source,
        "target": made.name,
        "dry_run": dry_run,
        "partitions": made.num_partitions,
        "replicas": made.replication_factor,
        "configs": dict(made.topic_configs or {}),
        "records": count,
    }
    if as_json:
        document(row)
    else:
        show([{**row, "outcome": "possible" if dry_run else "created"}], _CLONED)
