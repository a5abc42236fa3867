"""The cluster: its brokers, their directories, partitions page by page, who coordinates, who speaks what."""

from ottla.protocol.messages.cluster import DescribeLogDirsRequest
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.metadata import (
    ApiVersionsRequest,
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
)
from tests.interop.dialogues.talk import Talk


async def pages(talk: Talk) -> None:
    """DescribeTopicPartitions."""
    await talk.create("a-first", 3)
    await talk.create("b-second", 2)
    ask = DescribeTopicPartitionsRequest
    both = ["b-second", "a-first"]
    for label, names, limit, cursor in (
        ("all", both, 100, None),
        ("a page", both, 2, None),
        ("a page that ends with a topic", both, 3, None),
        ("a page that ends with all", both, 5, None),
        ("the next page", both, 2, ("a-first", 2)),
        ("from the second topic", both, 9, ("b-second", 0)),
        ("from the end of a topic", both, 9, ("a-first", 3)),
        ("behind its end", both, 9, ("a-first", 7)),
        ("from a topic in between", both, 9, ("b", 1)),
        ("behind all", both, 9, ("z", 0)),
        ("from an unknown topic", ["nobody", "b-second"], 9, ("nobody", 1)),
        ("negative start", both, 9, ("a-first", -1)),
        ("no limit", both, 0, None),
        ("limit -1", both, -1, None),
        ("unknown", ["nobody"], 9, None),
        ("bad name", ["a/b"], 9, None),
        ("empty name", [""], 9, None),
        ("twice", ["a-first", "a-first"], 9, None),
        ("unknown and known", ["nobody", "a-first"], 9, None),
    ):
        start = Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
        topics = [ask.Topic(name=name) for name in names]
        await talk.ask(label, ask(topics=topics, response_partition_limit=limit, cursor=start))


async def cluster(talk: Talk) -> None:
    for operations in (False, True):
        for kind in (1, 2, 9):
            for fenced in (False, True):
                request = DescribeClusterRequest(
                    include_cluster_authorized_operations=operations,
                    endpoint_type=kind,
                    include_fenced_brokers=fenced,
                )
                await talk.ask(f"{operations} {kind} {fenced}", request)


async def directories(talk: Talk) -> None:
    """DescribeLogDirs."""
    await talk.create("stored", 2)
    topic = DescribeLogDirsRequest.Topic
    for label, topics in {
        "of a topic": [topic(topic="stored", partitions=[0, 1])],
        "of a partition": [topic(topic="stored", partitions=[1])],
        "of no partition": [topic(topic="stored", partitions=[])],
        "of no such partition": [topic(topic="stored", partitions=[5])],
        "of nobody": [topic(topic="nobody", partitions=[0])],
        "of nothing": [],
        "twice": [topic(topic="stored", partitions=[0, 0])],
    }.items():
        await talk.ask(label, DescribeLogDirsRequest(topics=topics))


async def coordinators(talk: Talk) -> None:
    """FindCoordinator: of nothing, and of what has none. Those that there are come with groups and transactions."""
    for kind in (0, 1, 2, 3, -1):
        await talk.ask(f"{kind} none", FindCoordinatorRequest(key_type=kind, coordinator_keys=[]), since=4)
    for kind in (2, 3, -1):
        await talk.ask(f"{kind}", FindCoordinatorRequest(key="k", key_type=kind), until=3)
        await talk.ask(f"{kind}", FindCoordinatorRequest(key_type=kind, coordinator_keys=["k", ""]), since=4)


async def versions(talk: Talk) -> None:
    """ApiVersions."""
    for label, name, number in (
        ("usual", "x", "1"),
        ("no name", "", ""),
        ("bad name", "a b", "1.0"),
        ("bad version", "a", "-"),
        ("dashes", "a-b.c", "1-2.3"),
    ):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        await talk.ask(label, request)


ALL = (pages, cluster, directories, coordinators, versions)
