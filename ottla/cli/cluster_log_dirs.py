"""`ottla cluster log-dirs`: the directories that brokers keep their logs in, and how full they are.

Exit codes: 0 done, 2 usage, 3 some brokers did not tell, 4 no such broker or topic, 5 not allowed, 6 nobody answers.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import completing
from ottla.cli.session import json_option, reach_options

if TYPE_CHECKING:
    from ottla.cli.remote import Admin
    from ottla.client.admin.log_dirs import LogDirDescription

_DIRECTORY = ["broker", "directory", "state", "replicas", "moving_in", "bytes", "usable_bytes", "total_bytes"]
_REPLICA = ["broker", "directory", "topic", "partition", "bytes", "offset_lag", "moving_in"]


@click.command("log-dirs")
@click.option(
    "--broker", "brokers", multiple=True, metavar="ID", type=click.IntRange(0), help="Only its; repeatable."
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.topics,
    help="Count only replicas of this topic; repeatable.",
)
@click.option("--replicas", is_flag=True, help="A line for each replica, instead of one for each directory.")
@json_option
@reach_options
def log_dirs(brokers: tuple[int, ...], topics: tuple[str, ...], replicas: bool, as_json: bool) -> int:
    """Show the log directories of the brokers: whether they are in use, how many replicas lie there, how many bytes
    these take, and how much room is left.

    A replica that is on its way from another directory of the same broker counts as moving in. Old brokers do not tell
    how large a disk is.

    --json: {"brokers": [{"broker", "directories": [{"directory", "state", "error", "bytes", "usable_bytes",
    "total_bytes", "replicas": [{"topic", "partition", "bytes", "offset_lag", "moving_in"}]}]}]}.
    """
    from ottla.cli.outcomes import finish, settled, unknown
    from ottla.cli.remote import with_admin
    from ottla.cli.targets import the_topic
    from ottla.client.admin.log_dirs import describe_log_dirs

    async def work(admin: "Admin") -> int:
        living = sorted(await admin._routes.brokers())
        for id in brokers:
            if id not in living:
                raise unknown("broker", str(id), map(str, living))
        for topic in dict.fromkeys(topics):
            await the_topic(admin, topic)
        found = await settled(describe_log_dirs(admin, sorted(set(brokers)) or living))
        rows = rows_of(found.done, topics)
        failures = list(found.failures.values())
        return finish(
            failures,
            is_some_done=bool(found.done),
            show=lambda: _show(rows, as_json=as_json, replicas=replicas),
        )

    return with_admin(work)


def rows_of(
    found: Mapping[int, Mapping[str, "LogDirDescription"]], topics: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """A row for each directory, with those of its replicas."""
    wanted = set(topics)
    rows = []
    for broker, directories in sorted(found.items()):
        for path, each in sorted(directories.items()):
            held: list[dict[str, Any]] = [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "bytes": info.size,
                    "offset_lag": info.offset_lag,
                    "moving_in": info.is_future,
                }
                for place, info in sorted(each.replicas.items())
                if not wanted or place.topic in wanted
            ]
            rows.append(
                {
                    "broker": broker,
                    "directory": path,
                    "state": _state(each),
                    "error": None if each.error is None else str(each.error),
                    "bytes": sum(row["bytes"] for row in held),
                    "usable_bytes": each.usable_bytes,
                    "total_bytes": each.total_bytes,
                    "replicas": held,
                }
            )
    return rows


def _state(directory: "LogDirDescription") -> str:
    if directory.error is not None:
        return "offline"
    return "cordoned" if directory.is_cordoned else "online"


def _show(rows: list[dict[str, Any]], *, as_json: bool, replicas: bool) -> None:
    from ottla.cli.tables import document, say, show

    if as_json:
        brokers = list(dict.fromkeys(row["broker"] for row in rows))
        document(
            {
                "brokers": [
                    {
                        "broker": id,
                        "directories": [
                            {key: value for key, value in row.items() if key != "broker"}
                            for row in rows
                            if row["broker"] == id
                        ],
                    }
                    for id in brokers
                ]
            }
        )
        return
    for row in rows:
        if row["error"]:
            say(f"{row['directory']} of broker {row['broker']} is out of use: {row['error']}")
    if replicas:
        show([_marked({**row, **each}) for row in rows for each in row["replicas"]], _REPLICA)
    else:
        show([_counted(row) for row in rows], _DIRECTORY)


def _marked(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "moving_in": "yes" if row["moving_in"] else None}


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    moving = sum(each["moving_in"] for each in row["replicas"])
    return {**row, "replicas": len(row["replicas"]) - moving, "moving_in": moving}
