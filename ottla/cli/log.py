"""`ottla log`: look into the files of a log, offline. The broker may be running: nothing is ever written."""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "dump": Lazy("ottla.cli.dump.command:dump", "Print segments, indexes and snapshots in readable form.")
}


@click.group(cls=LazyGroup, table=COMMANDS)
def log() -> None:
    """Look into the files of a log, offline."""
