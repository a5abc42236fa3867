"""`ottla group describe`: all that is known about groups.

Exit codes: 0 done, 1 failed, 2 usage, 3 some of what was asked for could not be said, 4 no such group, 5 not allowed,
6 no broker answers, 130 interrupted.
"""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli import completing
from ottla.cli.session import connection_options, json_option

if TYPE_CHECKING:
    from ottla.cli.group_lag import GroupLag
    from ottla.cli.group_look import Found

_MEMBER = ["member_id", "instance_id", "client_id", "host", "partitions"]


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=completing.groups)
@json_option
@connection_options
def describe(groups: tuple[str, ...], as_json: bool, bootstrap_server: str, timeout: float) -> int:
    """Show groups: state, coordinator and assignor, members with their partitions, offsets with their lag.

    --json: {"groups": [{"group", "type", "state", "coordinator", "protocol", "members": [{"member_id", "instance_id",
    "client_id", "host", "partitions": ["TOPIC:N"]}], "partitions": [ROW], "total": TOTAL}]}; rows and total are those
    of `ottla group lag`.
    """
    from ottla.cli.group_lag import GroupLag, LagMeter
    from ottla.cli.group_look import named, now_ms, once, outcome
    from ottla.cli.remote import Cluster, asking
    from ottla.cli.tables import document

    def show_all(found: "Found") -> None:
        good = [each for each in found.values() if isinstance(each, GroupLag)]
        if as_json:
            document({"groups": [_described(each) for each in good]})
        else:
            for each in good:
                _show_described(each)

    async def work(asked: Cluster) -> int:
        return outcome(await named(asked, await LagMeter(asked).measure(once(groups), now_ms())), show_all)

    return asking(bootstrap_server, timeout, work)


def _described(each: "GroupLag") -> dict[str, Any]:
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


def _show_described(each: "GroupLag") -> None:
    from ottla.cli.group_look import FOR_PEOPLE, GROUP
    from ottla.cli.tables import show

    told = _described(each)
    names = [*GROUP, "coordinator", "protocol"]
    show([{**told, "protocol": told["protocol"] or None}], names)
    show(told["members"], _MEMBER)
    show(told["partitions"], FOR_PEOPLE)
