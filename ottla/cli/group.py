"""`ottla group`: which consumer groups there are, who is in them, how far they are behind, and where they go on from.

Exit codes: 0 done, 1 failed, 2 usage, 3 some of what was asked for could not be said, 4 no such group, 5 not allowed,
6 no broker answers, 130 interrupted.
"""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "ls": Lazy("ottla.cli.group_ls:ls", "List the groups of the cluster."),
    "describe": Lazy("ottla.cli.group_describe:describe", "Show the members and offsets of groups."),
    "lag": Lazy("ottla.cli.group_watch:lag", "Show how far groups are behind."),
    "reset": Lazy("ottla.cli.group_reset:reset", "Let a group go on from other offsets."),
    "delete": Lazy("ottla.cli.group_delete:delete", "Delete groups, or offsets of theirs."),
}


@click.group(cls=LazyGroup, table=COMMANDS, aliases={"list": "ls"})
def group() -> None:
    """Consumer groups: which there are, who is in them, how far they are behind, and where they go on from."""
