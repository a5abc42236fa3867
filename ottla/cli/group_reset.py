"""`ottla group reset`: let a group go on from other offsets. A dry run unless --apply says otherwise.

Exit codes: 0 done or shown, 1 refused, as when the group has members, 2 usage, 3 failed in some partitions, 4 no such
group, topic or partition, 5 not allowed, 6 no broker answers.
"""

from collections.abc import Sequence

import click

from ottla.cli import completing
from ottla.cli.session import json_option, reach_options


@click.command()
@click.argument("group", metavar="GROUP", shell_complete=completing.groups)
@click.option(
    "--to",
    metavar="PLACE",
    help="start, end, an offset, -10 for ten before the end, @2026-11-15T07:00 or @-1h.",
)
@click.option("--shift", type=int, metavar="N", help="So many offsets on, or back: --shift -100.")
@click.option(
    "--to-current", is_flag=True, help="Where it is; good for --export, or for what a log has lost."
)
@click.option("--from-file", metavar="FILE", help="To what --export or --json has written; - is stdin.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    shell_complete=completing.topics,
    help="This topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that the group has committed offsets of.")
@click.option("--create", is_flag=True, help="The group need not exist yet: it comes into being.")
@click.option("--apply", "--yes", "applies", is_flag=True, help="Do it; else it is only shown.")
@click.option(
    "--export", "exports", is_flag=True, help="Print topic,partition,offset as CSV, for --from-file."
)
@json_option
@reach_options
def reset(
    group: str,
    to: str | None,
    shift: int | None,
    to_current: bool,
    from_file: str | None,
    topics: tuple[str, ...],
    all_topics: bool,
    create: bool,
    applies: bool,
    exports: bool,
    as_json: bool,
) -> int:
    """Let a group go on from other offsets.

    Without --apply it is a dry run: what would become of each partition is shown. The group must have no members, for
    its offsets are theirs to commit. A time means the first record that is not older. An offset that is not in the log
    becomes its start or its end, and a remark says so.

    --json: {"group", "dry_run", "partitions": [{"topic", "partition", "before", "after", "change", "remark"}],
    "failures": [SENTENCE]}; `before` is null where nothing was committed, `after` where nothing will be.
    """
    if [to is not None, shift is not None, to_current, from_file is not None].count(True) != 1:
        raise click.UsageError("say one of --to PLACE, --shift N, --to-current and --from-file FILE")
    if exports and as_json:
        raise click.UsageError(
            "--export prints CSV and --json prints JSON; --from-file reads either: say one"
        )
    _check_scope(topics, all_topics, from_file)
    from ottla.cli.group_offsets_file import read_offsets
    from ottla.cli.group_resetting import Reset, Wanted
    from ottla.cli.remote import with_admin
    from ottla.cli.targets import partitions_of, target_of

    offsets = None if from_file is None else read_offsets(from_file, group)
    wanted = Wanted(None if to is None else target_of(to), shift, to_current, offsets)
    work = Reset(group, wanted, [partitions_of(each) for each in topics], create, applies)
    return work.outcome(with_admin(work.run), exports, as_json)


def _check_scope(topics: Sequence[str], all_topics: bool, from_file: str | None) -> None:
    if topics and all_topics:
        raise click.UsageError("name topics or say --all-topics")
    if from_file is None and not topics and not all_topics:
        raise click.UsageError("which topics? say --topic TOPIC, --topic TOPIC:0,1 or --all-topics")
