"""`ottla group lag`: how far groups are behind, once or again and again.

Exit codes: 0 done, 1 failed, 2 usage, 3 some of what was asked for could not be said, 4 no such group, 5 not allowed,
6 no broker answers, 130 interrupted.
"""

import click

from ottla.cli import completing
from ottla.cli.session import connection_options, json_option

WATCH_SECONDS = 2.0


def _seconds(ctx: click.Context, _: click.Parameter, value: str | None) -> float | None:
    """How long a watch waits between two looks."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        raise click.UsageError(
            f"--watch takes seconds, not {value!r}: write --watch behind the groups, or --watch=2", ctx
        ) from None
    if not 0.1 <= seconds <= 86_400:
        raise click.UsageError("--watch takes 0.1 to 86400 seconds", ctx)
    return seconds


@click.command()
@click.argument("groups", nargs=-1, metavar="[GROUP...]", shell_complete=completing.groups)
@click.option("--all", "is_all", is_flag=True, help="All groups of consumers that there are.")
@click.option(
    "--watch",
    metavar="[SECONDS]",
    is_flag=False,
    flag_value=str(WATCH_SECONDS),
    callback=_seconds,
    help="Look again every so many seconds, 2 if none are named, until interrupted.",
)
@json_option
@connection_options
@click.pass_context
def lag(
    ctx: click.Context,
    groups: tuple[str, ...],
    is_all: bool,
    watch: float | None,
    as_json: bool,
    bootstrap_server: str,
    timeout: float,
) -> int:
    """Show how far groups are behind, in each partition.

    In offsets: to the high watermark for those who read everything, to the last stable offset for those who read
    committed records only. In seconds: the age of the next record that the group will read. The seconds of a group
    are those of its oldest partition.

    On a terminal the output is a table for each group; elsewhere, or with NO_COLOR set, it is tab-separated.

    --json: {"groups": [{"group", "type", "state", "partitions": [{"topic", "partition", "committed_offset",
    "log_end_offset", "last_stable_offset", "lag", "lag_read_committed", "lag_seconds", "lag_seconds_read_committed",
    "member_id", "client_id", "host", "error"}], "total": {"partitions", "partitions_unknown", "lag",
    "lag_read_committed", "lag_seconds", "lag_seconds_read_committed"}}]}, where null is what nobody knows. With
    --watch it is such a document in a line for every look, with "time_ms" in front.
    """
    import asyncio

    from ottla.cli.group_lag import LagMeter
    from ottla.cli.group_look import Look, check_some, once, outcome
    from ottla.cli.remote import Failed, cluster, failed, run, servers
    from ottla.cli.tables import say
    from ottla.core.errors import KafkaError, ProtocolError
    from ottla.network.peer import PeerClosed, RequestTimedOut

    if is_all == bool(groups):
        raise click.UsageError("name groups, or say --all" if not groups else "name groups or say --all", ctx)
    look = Look(once(groups), is_all, as_json)
    addresses, timeout_ms = servers(bootstrap_server), int(timeout * 1000)

    async def look_once() -> int:
        async with cluster(addresses, timeout_ms) as asked:
            found = await look.take(asked)
        return outcome(found, look.show)

    async def forever(seconds: float) -> int:
        shown = False
        with look.screen():
            while True:
                try:
                    async with cluster(addresses, timeout_ms) as asked:
                        look.meter = LagMeter(asked)
                        while True:
                            found = await look.take(asked)
                            if not shown:
                                check_some(found)
                            look.show(found, is_first=not shown, is_watched=True)
                            shown = True
                            await asyncio.sleep(seconds)
                except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError, Failed) as error:
                    if not shown:
                        raise
                    say(failed(error).message)  # a broker that restarts is worth waiting for
                await asyncio.sleep(seconds)

    return run(look_once() if watch is None else forever(watch))
