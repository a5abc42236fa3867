"""Looks at groups: what `ottla group` shows of how far they are behind, and what it says if some cannot be shown."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ottla.cli.group_lag import GroupLag, LagMeter
from ottla.cli.group_members import listed
from ottla.cli.outcomes import counted
from ottla.cli.remote import NOT_FOUND, PARTLY, Cluster, Failed
from ottla.cli.tables import (
    document,
    fitting,
    is_for_people,
    lines,
    printable,
    say,
    say_left_out,
    table,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

Found = dict[str, GroupLag | Failed]
GROUP = ["group", "type", "state"]
LAG = [
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
_FIRST = ["topic", "partition", "committed_offset", "log_end_offset", "lag", "lag_seconds"]
FOR_PEOPLE = [*_FIRST, *(name for name in LAG if name not in _FIRST)]
"""On a narrow terminal the last columns are left out."""


class Look:
    """What is looked at, and how it is shown."""

    def __init__(self, groups: Sequence[str], is_all: bool, as_json: bool) -> None:
        self.groups, self.is_all, self.as_json = groups, is_all, as_json
        self.meter: LagMeter | None = None
        self._live: Live | None = None

    async def take(self, asked: Cluster) -> Found:
        meter = self.meter or LagMeter(asked)
        if not self.is_all:
            return await named(asked, await meter.measure(self.groups, now_ms()))
        rows, failures = await listed(asked)
        found = await meter.measure([row.group for row in rows if row.is_of_consumers], now_ms())
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
        stamp = {"time_ms": now_ms()} if is_watched else {}
        if self.as_json:
            document({**stamp, "groups": [_for_programs(each) for each in good]})
        elif self._live is not None:
            self._live.update(_for_people(good, _fitting(good)), refresh=True)
        elif is_for_people():
            from rich.console import Console

            names = _fitting(good)
            Console(file=sys.stdout, highlight=False, width=10_000).print(_for_people(good, names))
            if len(names) < len(FOR_PEOPLE):
                say_left_out(FOR_PEOPLE[len(names) :])
        else:
            rows = [
                {**stamp, **each.described._asdict(), **row.row()} for each in good for row in each.partitions
            ]
            lines(rows, [*stamp, *GROUP, *LAG], header=is_first)
        if is_watched:
            complain([each for each in found.values() if isinstance(each, Failed)], False)


def _for_programs(each: GroupLag) -> dict[str, Any]:
    told = each.described
    return {
        "group": told.group,
        "type": told.type,
        "state": told.state,
        "partitions": [row.row() for row in each.partitions],
        "total": each.total(),
    }


def _fitting(groups: Sequence[GroupLag]) -> Sequence[str]:
    return fitting([row.row() for each in groups for row in each.partitions], FOR_PEOPLE)


def _for_people(groups: Sequence[GroupLag], names: Sequence[str]) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in groups:
        told = each.described
        members = counted(len(told.members), "member")
        parts += [
            Text(printable(f"{told.group}  ({told.type}, {told.state}, {members})"), style="bold"),
            table([row.row() for row in each.partitions], names),
            Text(f"{_sentence(each)}\n"),
        ]
    return Group(*parts) if parts else Text("no groups")


def _sentence(group: GroupLag) -> str:
    total = group.total()
    if total["lag"] is None:
        is_committed = any(each.committed is not None for each in group.partitions)
        return "nobody knows how far it is behind" if is_committed else "nothing is committed"
    seconds = "" if total["lag_seconds"] is None else f", {total['lag_seconds']:.1f} s"
    return f"behind by {total['lag']} (read committed: {total['lag_read_committed']}){seconds}"


# --- what they share ------------------------------------------------------------------------------------------------


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def named(asked: Cluster, found: Found) -> Found:
    """What was found. Of groups that do not exist, the sentence names some that do, and sound alike."""
    from ottla.cli.outcomes import unknown

    absent = [name for name, each in found.items() if _is_gone(each)]
    known = [row.group for row in (await listed(asked))[0]] if absent else []
    return {**found, **{name: unknown("group", name, known) for name in absent}}


def once(groups: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(groups))


def _is_gone(each: GroupLag | Failed) -> bool:
    return isinstance(each, Failed) and each.exit_code == NOT_FOUND


def check_some(found: Found) -> list[Failed]:
    """Those that failed, if not all did; else the first of them is raised."""
    failures = [each for each in found.values() if isinstance(each, Failed)]
    if failures and len(failures) == len(found):
        for each in failures[1:]:
            say(each.message)
        raise failures[0]
    return failures


def outcome(found: Found, show_found: Callable[[Found], None]) -> int:
    """Nothing could be said: the reason of the first. Something could not: a sentence for each, and code 3."""
    failures = check_some(found)
    show_found(found)
    faults = [
        Failed(f"group {each.described.group!r}, {row.place}: {row.error}")
        for each in found.values()
        if isinstance(each, GroupLag)
        for row in each.partitions
        if row.error is not None
    ]
    return complain([*failures, *faults], bool(failures or faults))


def complain(failures: Iterable[Failed], is_partly: bool) -> int:
    for each in failures:
        say(each.message)
    return PARTLY if is_partly else 0
