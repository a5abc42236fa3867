"""`ottla cluster`: brokers and partitions as a whole.

Exit codes: 0 done or healthy, 1 failed, 2 usage, 3 a part of it failed, 4 no such broker, topic or partition, 5 not
allowed, 6 no broker answers, 8 not healthy, 130 interrupted.
"""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "up": Lazy("ottla.cli.cluster_up:up", "Run a whole cluster on this machine."),
    "health": Lazy(
        "ottla.cli.cluster_health:health", "Say whether the cluster is healthy, or wait until it is."
    ),
    "brokers": Lazy("ottla.cli.cluster_brokers:brokers", "List the brokers, and what each leads and hosts."),
    "reassign": Lazy("ottla.cli.cluster_reassign:reassign", "Move partitions to other brokers."),
    "elect": Lazy("ottla.cli.cluster_elect:elect", "Elect leaders now."),
    "log-dirs": Lazy(
        "ottla.cli.cluster_log_dirs:log_dirs", "Show the log directories, and how full they are."
    ),
    "versions": Lazy(
        "ottla.cli.cluster_versions:versions", "Say which requests brokers answer, in which versions."
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def cluster() -> None:
    """The cluster: run one, see whether it is healthy, move partitions, elect leaders."""
