"""`ottla group delete`: say what would go, ask, and delete groups, or what they have committed for some topics.

Exit codes: 0 done, 1 refused or failed, as when a group has members, 2 usage, or nobody is there to ask; 3 some were
not deleted, 4 no such group, 5 not allowed, 6 no broker answers.
"""

import click

from ottla.cli import completing
from ottla.cli.session import json_option, reach_options


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=completing.groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    shell_complete=completing.topics,
    help="Only what is committed for this topic, or some of its partitions; the group stays. Repeatable.",
)
@click.option("--if-exists", is_flag=True, help="A group that is not there is no failure.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@reach_options
def delete(
    groups: tuple[str, ...], topics: tuple[str, ...], if_exists: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Delete groups with the offsets that they have committed. This cannot be undone.

    First it is shown what would go. Then somebody has to say yes, here or with --yes. A group with members is not
    deleted: stop them first. Who comes back later starts where its auto.offset.reset says.

    With --topic, only the offsets of these topics go, and only where no member subscribes to them.

    --json: {"dry_run", "groups": [{"group", "state", "members", "offsets", "deleted"}], "failures": [SENTENCE]}, where
    offsets are how many; with --topic: {"dry_run", "offsets": [{"group", "topic", "partition", "offset", "deleted"}],
    "failures": [SENTENCE]}.
    """
    from ottla.cli.group_deleting import delete_them
    from ottla.cli.remote import with_admin
    from ottla.cli.targets import partitions_of

    names, scope = list(dict.fromkeys(groups)), [partitions_of(each) for each in topics]
    return with_admin(lambda admin: delete_them(admin, names, scope, if_exists, dry_run, yes, as_json))
