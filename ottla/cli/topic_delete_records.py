"""`ottla topic delete-records`: the oldest records go, up to a place. A dry run unless --apply says otherwise.

Exit codes: 0 done or shown, 1 refused, 2 usage, 3 failed in some partitions, 4 no such topic or partition, 5 not
allowed, 6 no broker answers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ottla.cli import completing
from ottla.cli.outcomes import Settled, counted, finish, settled
from ottla.cli.remote import Admin, Failed, with_admin
from ottla.cli.session import json_option, reach_options, session
from ottla.cli.tables import document, say, show
from ottla.cli.targets import Bounds, bounds, partitions_of, places_of, resolved, target_of
from ottla.client.admin.partitions import delete_records as delete_up_to
from ottla.core.ids import TopicPartition

_PLANNED = ["topic", "partition", "start_offset", "end_offset", "before", "records"]


@click.command(name="delete-records")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:N,N]...", shell_complete=completing.topics)
@click.option(
    "--before",
    required=True,
    metavar="PLACE",
    help="In each partition: an offset, -10 for all but the last ten, @2026-11-15T07:00, @-7d, or end for all.",
)
@click.option("--apply", "--yes", "applies", is_flag=True, help="Do it; else it is only shown.")
@json_option
@reach_options
def delete_records(topics: tuple[str, ...], before: str, applies: bool, as_json: bool) -> int:
    """Delete all records before a place. This cannot be undone.

    Without --apply it is a dry run: what would go is shown, partition by partition. A time means the first record
    that is not older, so that what is older goes.

    --json: {"dry_run", "partitions": [{"topic", "partition", "start_offset", "end_offset", "before", "records"}],
    "failures": [SENTENCE]}; with --apply, start_offset is where the log starts now.
    """
    wanted, target = [partitions_of(each) for each in topics], target_of(before)

    async def work(admin: Admin) -> int:
        places = await places_of(admin, wanted)
        logs = await bounds(admin, places)
        cuts = await resolved(admin, target, logs.done)
        plan, beyond = _plan(logs.done, cuts)
        done = Settled({}, {})
        if applies:
            cutting = {place: cut for place, cut in plan.items() if cut > logs.done[place].start}
            done = await settled(delete_up_to(admin, cutting))
        failures = [*logs.failures.values(), *beyond, *done.failures.values()]
        rows = list(_rows(logs.done, plan, done))

        def show_all() -> None:
            if as_json:
                told = [why.message for why in failures]
                document({"dry_run": not applies, "partitions": rows, "failures": told})
            else:
                show(rows, _PLANNED)
                _remark(sum(row["records"] for row in rows), applies)

        return finish(failures, is_some_done=bool(rows), show=show_all)

    return with_admin(work)


def _plan(
    logs: Mapping[TopicPartition, Bounds], cuts: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], list[Failed]]:
    """Where each log is cut. An offset that is not written yet is no place to cut it."""
    beyond = [
        Failed(f"{place.topic}:{place.partition} ends at {logs[place].end}: there is no offset {cut} yet")
        for place, cut in sorted(cuts.items())
        if cut > logs[place].end
    ]
    return {place: cut for place, cut in sorted(cuts.items()) if cut <= logs[place].end}, beyond


def _rows(
    logs: Mapping[TopicPartition, Bounds], plan: Mapping[TopicPartition, int], done: Settled
) -> Iterable[dict[str, Any]]:
    for place, cut in plan.items():
        if place not in done.failures:
            log = logs[place]
            yield {
                "topic": place.topic,
                "partition": place.partition,
                "start_offset": done.done.get(place, log.start),
                "end_offset": log.end,
                "before": cut,
                "records": max(0, cut - log.start),
            }


def _remark(records: int, applied: bool) -> None:
    if not session().is_quiet and not applied:
        say(f"nothing was deleted: --apply deletes {counted(records, 'record')}")
