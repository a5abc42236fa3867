"""`ottla txn`: which transactions there are, what partitions show of them, and how to end one that hangs.

Exit codes: 0 done, 1 failed or refused, 2 usage, 3 some of what was asked for could not be said, 4 no such id, topic or
transaction, 5 not allowed, 6 no broker answers, 130 interrupted.
"""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "ls": Lazy("ottla.cli.txn_look:ls", "List the transactions of the cluster."),
    "describe": Lazy("ottla.cli.txn_look:describe", "Show what the coordinator knows of a transactional id."),
    "producers": Lazy("ottla.cli.txn_look:show_producers", "Show the producers that partitions remember."),
    "find-hanging": Lazy("ottla.cli.txn_look:find_hanging", "Find open transactions that nobody will end."),
    "abort": Lazy("ottla.cli.txn_abort:abort", "End a transaction by force."),
}


@click.group(cls=LazyGroup, table=COMMANDS, aliases={"list": "ls", "hanging": "find-hanging"})
def txn() -> None:
    """Transactions: which there are, what partitions show of them, and how to end one that hangs."""
