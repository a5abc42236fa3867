"""`ottla topic`: what is done to topics as a whole."""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "compact": Lazy(
        "ottla.cli.topic_compact:compact", "Compact topics now, without waiting for the cleaner."
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def topic() -> None:
    """Topics: compact them now."""
