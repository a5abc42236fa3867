"""`ottla topic`: what is done to topics as a whole.

Exit codes: 0 done, or shown what would be; 1 failed or refused, 2 usage, 3 done for some of them, 4 no such topic or
partition, 5 not allowed, 6 no broker answers, 130 interrupted.
"""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "ls": Lazy("ottla.cli.topic_ls:ls", "List the topics of the cluster."),
    "describe": Lazy("ottla.cli.topic_describe:describe", "Show partitions, offsets and settings of topics."),
    "create": Lazy("ottla.cli.topic_create:create", "Create topics."),
    "alter": Lazy("ottla.cli.topic_alter:alter", "Change the settings of a topic."),
    "delete": Lazy("ottla.cli.topic_delete:delete", "Delete topics; say first what would go."),
    "add-partitions": Lazy("ottla.cli.topic_add_partitions:add_partitions", "Give a topic more partitions."),
    "delete-records": Lazy(
        "ottla.cli.topic_delete_records:delete_records", "Delete the oldest records of a topic."
    ),
    "compact": Lazy(
        "ottla.cli.topic_compact:compact", "Compact topics now, without waiting for the cleaner."
    ),
    "clone": Lazy(
        "ottla.cli.topic_clone:clone", "Make a topic like another one, with its records or without."
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS, aliases={"list": "ls"})
def topic() -> None:
    """Topics: list, describe, create, alter, delete, grow, compact and clone them."""
