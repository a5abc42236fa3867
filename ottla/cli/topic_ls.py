"""`ottla topic ls`: the topics of the cluster, one line each.

People type this more often than anything else, so it takes the shortest way: one Metadata request, and nothing is
imported that this does not need.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import click

from ottla.cli import completing
from ottla.cli.remote import Cluster, Failed, asking, check, connection_options
from ottla.cli.session import json_option, session
from ottla.cli.tables import document, say, show
from ottla.core.ids import NULL_ID, format_id
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

_SHORT = ["topic", "partitions", "replicas"]
_WIDE = [*_SHORT, "under_replicated", "offline", "internal", "topic_id"]
_PARTLY = 3


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PATTERN...]", shell_complete=completing.topics)
@click.option("--internal", is_flag=True, help="The cluster's own topics, too, such as __consumer_offsets.")
@click.option(
    "--sizes", is_flag=True, help="How many bytes all replicas take on the disks; asks every broker."
)
@json_option
@connection_options
def ls(
    patterns: tuple[str, ...],
    internal: bool,
    sizes: bool,
    as_json: bool,
    bootstrap_server: str,
    timeout: float,
) -> int:
    """List the topics of the cluster, with the number of their partitions and replicas.

    A PATTERN such as 'orders-*' chooses among them; a name that fits none is no failure. --wide shows more columns.

    --json: {"topics": [{"topic", "topic_id", "internal", "partitions", "replicas", "under_replicated", "offline",
    "bytes"}]}; without --sizes, bytes is null.
    """

    async def work(asked: Cluster) -> int:
        rows = [
            row
            for row in await listed(asked)
            if (internal or not row["internal"] or row["topic"] in patterns) and _fits(row["topic"], patterns)
        ]
        failures = await _add_sizes(asked, rows) if sizes else []
        if as_json:
            document({"topics": rows})
        else:
            names = _WIDE if session().is_wide else [*_SHORT, *(["internal"] if internal else [])]
            show(rows, [*names[:3], *(["bytes"] if sizes else []), *names[3:]])
        for why in failures:
            say(why.message)
        return _PARTLY if failures else 0

    return asking(bootstrap_server, timeout, work)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


async def listed(asked: Cluster) -> list[dict[str, Any]]:
    """All topics that the one who asks may see, by name. One without partitions is being deleted."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer: MetadataResponse = await asked.first.send(request)
    check(answer.error_code, "the metadata")
    living = {row.node_id for row in answer.brokers}
    return [
        _row(row, living)
        for row in sorted(answer.topics, key=lambda row: row.name or "")
        if row.name is not None and row.partitions
    ]


def _row(row: MetadataResponse.Topic, living: set[int]) -> dict[str, Any]:
    return {
        "topic": row.name,
        "topic_id": None if row.topic_id in (None, NULL_ID) else format_id(row.topic_id),
        "internal": row.is_internal,
        "partitions": len(row.partitions),
        "replicas": max((len(each.replica_nodes) for each in row.partitions), default=0),
        "under_replicated": sum(len(each.isr_nodes) < len(each.replica_nodes) for each in row.partitions),
        "offline": sum(each.leader_id not in living for each in row.partitions),
        "bytes": None,
    }


async def _add_sizes(asked: Cluster, rows: Iterable[dict[str, Any]]) -> list[Failed]:
    """Puts the bytes into the rows; returns why some brokers did not tell."""
    from ottla.protocol.messages.cluster import DescribeLogDirsRequest

    answers = await asked.everywhere(DescribeLogDirsRequest(topics=None))
    taken: dict[str, int] = {}
    for answer in answers.by_broker.values():
        for directory in answer.results:
            for topic in directory.topics:
                size = sum(each.partition_size for each in topic.partitions)
                taken[topic.name] = taken.get(topic.name, 0) + size
    for row in rows:
        row["bytes"] = taken.get(row["topic"], 0)
    return [Failed(f"broker {node_id}: {why.message}") for node_id, why in answers.failures.items()]
