"""`ottla cluster brokers`: who is in the cluster, and what each leads and hosts.

A broker that is not there, but has replicas, is listed too: it is missed. Exit codes: 0 done, 5 not allowed, 6 nobody
answers.
"""

from collections import Counter
from typing import Any

import click

from ottla.cli.cluster_state import Node, Snapshot, snapshot
from ottla.cli.remote import Cluster, asking, connection_options
from ottla.cli.session import json_option
from ottla.cli.tables import document, show
from ottla.core.hosts import Address

_BROKER = ["broker", "address", "rack", "controller", "leads", "replicas", "in_sync", "preferred"]


@click.command()
@json_option
@connection_options
def brokers(as_json: bool, bootstrap_server: str, timeout: float) -> int:
    """List the brokers: address, rack, which is the controller, and how many partitions each leads and hosts.

    The last two columns say in how many of its partitions it is in sync, and how many it would lead if all were led by
    their preferred replica. A broker without an address has replicas, but is not alive.

    --json: {"cluster_id", "controller", "brokers": [{"broker", "address", "rack", "controller", "leads", "replicas",
    "in_sync", "preferred"}]}.
    """

    async def work(asked: Cluster) -> int:
        seen = await snapshot(asked)
        rows = rows_of(seen)
        if as_json:
            document({"cluster_id": seen.cluster_id, "controller": seen.controller, "brokers": rows})
        else:
            show([{**row, "controller": "yes" if row["controller"] else None} for row in rows], _BROKER)
        return 0

    return asking(bootstrap_server, timeout, work)


def rows_of(seen: Snapshot) -> list[dict[str, Any]]:
    """One for each broker that lives or is missed, by id."""
    partitions = seen.partitions.values()
    leads = Counter(each.leader for each in partitions)
    preferred = Counter(each.replicas[0] for each in partitions if each.replicas)
    hosts = Counter(id for each in partitions for id in each.replicas)
    in_sync = Counter(id for each in partitions for id in each.isr)
    return [
        {
            "broker": id,
            "address": _address(seen.nodes.get(id)),
            "rack": seen.nodes[id].rack if id in seen.nodes else None,
            "controller": id == seen.controller,
            "leads": leads[id],
            "replicas": hosts[id],
            "in_sync": in_sync[id],
            "preferred": preferred[id],
        }
        for id in sorted(seen.nodes.keys() | hosts.keys())
    ]


def _address(node: Node | None) -> str | None:
    return None if node is None else str(Address(node.host, node.port))
