"""`ottla log`: look into the files of a log, offline. The broker may be running: only `repair --apply` ever writes."""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "dump": Lazy("ottla.cli.dump.command:dump", "Print segments, indexes and snapshots in readable form."),
    "verify": Lazy("ottla.cli.inspection.verify:verify", "Check all files of a log; change nothing."),
    "repair": Lazy(
        "ottla.cli.inspection.repair:repair", "Put a damaged log right; say first what would be done."
    ),
    "segments": Lazy("ottla.cli.inspection.segments:segments", "Show the segments of a partition."),
    "find": Lazy("ottla.cli.inspection.find:find", "Show how an offset or a time is found."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def log() -> None:
    """Look into the files of a log, offline."""
