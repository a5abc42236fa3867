"""`ottla topic alter`: other settings for a topic. `ottla config set topic` does the same for all that has settings.

Exit codes: 0 done, 1 refused, 2 usage, 4 no such topic, 5 not allowed, 6 no broker answers.
"""

import click

from ottla.cli import completing
from ottla.cli.config_change import change, changes
from ottla.cli.config_units import assignment
from ottla.cli.remote import Admin, with_admin
from ottla.cli.session import json_option, reach_options
from ottla.cli.targets import the_topic
from ottla.client.admin.config_values import ConfigResource


@click.command()
@click.argument("topic", metavar="NAME", shell_complete=completing.topics)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set it, as in retention.ms=1d or segment.bytes=64MiB; repeatable.",
)
@click.option(
    "--unset", "unsets", multiple=True, metavar="KEY", help="Back to the broker's default; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Only let the broker say whether it could be done.")
@json_option
@reach_options
def alter(topic: str, sets: tuple[str, ...], unsets: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Change the settings of a topic, and show each before and after.

    The number of partitions is changed by `ottla topic add-partitions`, where they lie by `ottla cluster reassign`.

    --json: {"entity", "name", "dry_run", "changes": [{"key", "operation", "before", "sent", "after"}]}.
    """
    wanted = changes(dict(map(assignment, sets)), unsets, {}, {})

    async def work(admin: Admin) -> int:
        await the_topic(admin, topic)
        return await change(admin, ConfigResource.topic(topic), wanted, dry_run=dry_run, as_json=as_json)

    return with_admin(work)
