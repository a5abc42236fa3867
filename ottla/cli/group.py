"""`ottla group`: which consumer groups there are, who is in them, and how far they are behind.

Exit codes: 0 done, 1 failed, 2 usage, 3 some of what was asked for could not be said, 4 no such group, 5 not allowed,
6 no broker answers, 130 interrupted.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import completing
from ottla.cli.group_lag import GroupLag, LagMeter
from ottla.cli.group_members import listed
from ottla.cli.lazy import Lazy, LazyGroup
from ottla.cli.remote import (
    NOT_FOUND,
    PARTLY,
    Cluster,
    Failed,
    cluster,
    connection_options,
    failed,
    run,
    servers,
)
from ottla.cli.session import json_option
from ottla.cli.tables import document, is_for_people, lines, say, show, table
from ottla.core.errors import KafkaError, ProtocolError
from ottla.network.peer import PeerClosed, RequestTimedOut

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

Found = dict[str, GroupLag | Failed]
_MS = 1000
WATCH_SECONDS = 2.0
_GROUP = ["group", "type", "state"]
_LAG = [
    "topic",
    "partition",
    "committed_offset",
    "log_end_offset",
    "last_stable_offset",
    "lag",
    "lag_read_committed",
    "lag_seconds",
    "lag_seconds_read_committed",
    "member_id",
    "client_id",
    "host",
]
_LISTED = [*_GROUP, "protocol_type", "coordinator"]
_MEMBER = ["member_id", "instance_id", "client_id", "host", "partitions"]
COMMANDS = {
    "ls": Lazy("ottla.cli.group:ls", "List the groups of the cluster."),
    "describe": Lazy("ottla.cli.group:describe", "Show the members and offsets of groups."),
    "lag": Lazy("ottla.cli.group:lag", "Show how far groups are behind."),
}


@click.group(cls=LazyGroup, table=COMMANDS, aliases={"list": "ls"})
def group() -> None:
    """Consumer groups: which there are, who is in them, and how far they are behind."""


# --- ls -------------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in it; repeatable.")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only groups of it, such as consumer; repeatable."
)
@json_option
@connection_options
def ls(
    states: tuple[str, ...], types: tuple[str, ...], as_json: bool, bootstrap_server: str, timeout: float
) -> int:
    """List the groups of the cluster, with type, state and coordinator."""

    async def work() -> int:
        async with cluster(servers(bootstrap_server), int(timeout * _MS)) as asked:
            found, failures = await listed(asked, states, types)
        rows = [each._asdict() for each in found]
        if as_json:
            document({"groups": rows, "failures": {str(node): why.message for node, why in failures.items()}})
        else:
            show(rows, _LISTED)
        return _complain(failures.values(), bool(failures))

    return run(work())


# --- describe -------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=completing.groups)
@json_option
@connection_options
def describe(groups: tuple[str, ...], as_json: bool, bootstrap_server: str, timeout: float) -> int:
    """Show groups: state, coordinator and assignor, members with their partitions, offsets with their lag."""

    def show_all(found: Found) -> None:
        good = [each for each in found.values() if isinstance(each, GroupLag)]
        if as_json:
            document({"groups": [_described(each) for each in good]})
        else:
            for each in good:
                _show_described(each)

    async def work() -> int:
        async with cluster(servers(bootstrap_server), int(timeout * _MS)) as asked:
            found = await LagMeter(asked).measure(_once(groups), _now_ms())
        return _outcome(found, show_all)

    return run(work())


def _described(each: GroupLag) -> dict[str, Any]:
    told = each.described
    return {
        "group": told.group,
        "type": told.type,
        "state": told.state,
        "coordinator": told.coordinator,
        "protocol": told.protocol,
        "members": [
            {**member._asdict(), "partitions": [f"{topic}:{index}" for topic, index in member.partitions]}
            for member in told.members
        ],
        "partitions": [row.row() for row in each.partitions],
        "total": each.total(),
    }


def _show_described(each: GroupLag) -> None:
    told = _described(each)
    names = [*_GROUP, "coordinator", "protocol"]
    show([{**told, "protocol": told["protocol"] or None}], names)
    show(told["members"], _MEMBER)
    show(told["partitions"], _LAG)


# --- lag ------------------------------------------------------------------------------------------------------------


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

    On a terminal the output is a table for each group; elsewhere, or with NO_COLOR set, it is tab-separated. With
    --watch and --json every look is one line.
    """
    if is_all == bool(groups):
        raise click.UsageError("name groups, or say --all" if not groups else "name groups or say --all", ctx)
    look = Look(_once(groups), is_all, as_json)
    addresses, timeout_ms = servers(bootstrap_server), int(timeout * _MS)

    async def once() -> int:
        async with cluster(addresses, timeout_ms) as asked:
            found = await look.take(asked)
        return _outcome(found, look.show)

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
                                _check_some(found)
                            look.show(found, is_first=not shown, is_watched=True)
                            shown = True
                            await asyncio.sleep(seconds)
                except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError, Failed) as error:
                    if not shown:
                        raise
                    say(failed(error).message)  # a broker that restarts is worth waiting for
                await asyncio.sleep(seconds)

    return run(once() if watch is None else forever(watch))


class Look:
    """What is looked at, and how it is shown."""

    def __init__(self, groups: Sequence[str], is_all: bool, as_json: bool) -> None:
        self.groups, self.is_all, self.as_json = groups, is_all, as_json
        self.meter: LagMeter | None = None
        self._live: Live | None = None

    async def take(self, asked: Cluster) -> Found:
        meter = self.meter or LagMeter(asked)
        if not self.is_all:
            return await meter.measure(self.groups, _now_ms())
        rows, failures = await listed(asked)
        found = await meter.measure([row.group for row in rows if row.is_of_consumers], _now_ms())
        # A group may go between the list and the look. A broker that is silent may have more of them.
        found = {name: each for name, each in found.items() if not _is_gone(each)}
        silent = {f"broker {node}": Failed(f"broker {node}: {why.message}") for node, why in failures.items()}
        return {**found, **silent}

    def screen(self) -> Any:
        """Where a watch draws: on a terminal always in the same place."""
        if self.as_json or not is_for_people():
            return nullcontext()
        from rich.live import Live

        self._live = Live(auto_refresh=False, vertical_overflow="visible")
        return self._live

    def show(self, found: Found, *, is_first: bool = True, is_watched: bool = False) -> None:
        good = [each for _, each in sorted(found.items()) if isinstance(each, GroupLag)]
        stamp = {"time_ms": _now_ms()} if is_watched else {}
        if self.as_json:
            document({**stamp, "groups": [_for_programs(each) for each in good]})
        elif self._live is not None:
            self._live.update(_for_people(good), refresh=True)
        elif is_for_people():
            from rich.console import Console

            Console(file=sys.stdout, highlight=False, width=10_000).print(_for_people(good))
        else:
            rows = [
                {**stamp, **each.described._asdict(), **row.row()} for each in good for row in each.partitions
            ]
            lines(rows, [*stamp, *_GROUP, *_LAG], header=is_first)
        if is_watched:
            _complain([each for each in found.values() if isinstance(each, Failed)], False)


def _for_programs(each: GroupLag) -> dict[str, Any]:
    told = each.described
    return {
        "group": told.group,
        "type": told.type,
        "state": told.state,
        "partitions": [row.row() for row in each.partitions],
        "total": each.total(),
    }


def _for_people(groups: Sequence[GroupLag]) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in groups:
        told = each.described
        parts += [
            Text(f"{told.group}  ({told.type}, {told.state}, {len(told.members)} members)", style="bold"),
            table([row.row() for row in each.partitions], _LAG),
            Text(f"{_sentence(each.total())}\n"),
        ]
    return Group(*parts) if parts else Text("no groups")


def _sentence(total: dict[str, Any]) -> str:
    if total["lag"] is None:
        return "nothing is committed"
    seconds = "" if total["lag_seconds"] is None else f", {total['lag_seconds']:.1f} s"
    return f"behind by {total['lag']} (read committed: {total['lag_read_committed']}){seconds}"


# --- what they share ------------------------------------------------------------------------------------------------


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _once(groups: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(groups))


def _is_gone(each: GroupLag | Failed) -> bool:
    return isinstance(each, Failed) and each.exit_code == NOT_FOUND


def _check_some(found: Found) -> list[Failed]:
    """Those that failed, if not all did; else the first of them is raised."""
    failures = [each for each in found.values() if isinstance(each, Failed)]
    if failures and len(failures) == len(found):
        for each in failures[1:]:
            say(each.message)
        raise failures[0]
    return failures


def _outcome(found: Found, show_found: Callable[[Found], None]) -> int:
    """Nothing could be said: the reason of the first. Something could not: a sentence for each, and code 3."""
    failures = _check_some(found)
    show_found(found)
    faults = [
        Failed(f"group {each.described.group!r}, {row.place}: {row.error}")
        for each in found.values()
        if isinstance(each, GroupLag)
        for row in each.partitions
        if row.error is not None
    ]
    return _complain([*failures, *faults], bool(failures or faults))


def _complain(failures: Iterable[Failed], is_partly: bool) -> int:
    for each in failures:
        say(each.message)
    return PARTLY if is_partly else 0
