"""`ottla group ls`: the groups of all brokers.

Exit codes: 0 done, 1 failed, 2 usage, 3 some brokers did not answer, 5 not allowed, 6 no broker answers.
"""

import click

from ottla.cli.session import connection_options, json_option

STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
TYPES = ("classic", "consumer", "share", "streams")
_LISTED = ["group", "type", "state", "protocol_type", "coordinator"]


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in it, such as Empty; repeatable.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only groups of it, such as consumer; repeatable.",
)
@json_option
@connection_options
def ls(
    states: tuple[str, ...], types: tuple[str, ...], as_json: bool, bootstrap_server: str, timeout: float
) -> int:
    """List the groups of the cluster, with type, state and coordinator.

    --json: {"groups": [{"group", "type", "state", "protocol_type", "coordinator"}], "failures": {BROKER: SENTENCE}};
    brokers before Kafka 2.6 do not say the state, before 3.8 not the type: then it is null.
    """
    from ottla.cli.group_look import complain
    from ottla.cli.group_members import listed
    from ottla.cli.remote import Cluster, asking
    from ottla.cli.tables import document, show

    async def work(asked: Cluster) -> int:
        found, failures = await listed(asked, states, types)
        rows = [each._asdict() for each in found]
        if as_json:
            document({"groups": rows, "failures": {str(node): why.message for node, why in failures.items()}})
        else:
            show(rows, _LISTED)
        return complain(failures.values(), bool(failures))

    return asking(bootstrap_server, timeout, work)
