"""The log directories of brokers: what lies in them, and moves from one to another."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.routes import Answers, Client, all_of, by_topic, check, failure, outcome
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.cluster import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class ReplicaInfo(NamedTuple):
    """A replica in a directory. A future one is still catching up there, and takes the other's place when it has."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One directory. `error` says why it is out of use; sizes are None where the broker does not tell them."""

    path: str
    replicas: Mapping[TopicPartition, ReplicaInfo]
    error: KafkaError | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition that a broker has."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


async def describe_log_dirs(
    admin: Client,
    brokers: Iterable[int] | None = None,
    *,
    partitions: Iterable[TopicPartition] | None = None,
    timeout_ms: float | None = None,
) -> dict[int, dict[str, LogDirDescription]]:
    """For these brokers, or all, their directories by path, with all replicas or those of some partitions."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    wanted = None if brokers is None else list(brokers)
    kind = DescribeLogDirsRequest.Topic
    topics = (
        None
        if partitions is None
        else [kind(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    )

    async def ask_one(node_id: int, _: list[int]) -> Answers[int, dict[str, LogDirDescription]]:
        answer: DescribeLogDirsResponse = await routes.cluster.ask(
            node_id, DescribeLogDirsRequest(topics=topics)
        )
        check(answer.error_code, f"the log directories of broker {node_id}")
        return {node_id: {row.log_dir: _directory(node_id, row) for row in answer.results}}

    async def ask(some: list[int]) -> Answers[int, dict[str, LogDirDescription]]:
        await routes.cluster.refresh([])
        return await routes.from_brokers({each: [each] for each in some}, ask_one)

    failed = "the log directories were not described"
    if wanted is None:
        wanted = await routes.patient(routes.brokers, deadline, failed)
    answers = await routes.settle(wanted, ask, deadline, failed)
    return all_of(answers, "the description of log directories")


def _directory(node_id: int, row: DescribeLogDirsResponse.Dir) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in row.topics
        for each in topic.partitions
    }
    error = failure(row.error_code, f"{row.log_dir} of broker {node_id}") if row.error_code else None
    return LogDirDescription(
        row.log_dir,
        replicas,
        error,
        None if row.total_bytes < 0 else row.total_bytes,
        None if row.usable_bytes < 0 else row.usable_bytes,
        row.is_cordoned,
    )


async def alter_replica_log_dirs(
    admin: Client,
    replica_assignments: Mapping[TopicPartitionReplica, str],
    *,
    timeout_ms: float | None = None,
) -> None:
    """Have replicas moved to these directories of their brokers. Returns when the moves have begun."""
    routes = admin._routes

    async def ask_one(
        node_id: int, some: list[TopicPartitionReplica]
    ) -> Answers[TopicPartitionReplica, None]:
        paths: dict[str, list[TopicPartition]] = defaultdict(list)
        for each in some:
            paths[replica_assignments[each]].append(TopicPartition(each.topic, each.partition))
        kind = AlterReplicaLogDirsRequest.Dir
        request = AlterReplicaLogDirsRequest(
            dirs=[
                kind(
                    path=path,
                    topics=[
                        kind.Topic(name=t, partitions=numbers) for t, numbers in by_topic(places).items()
                    ],
                )
                for path, places in paths.items()
            ]
        )
        answer: AlterReplicaLogDirsResponse = await routes.cluster.ask(node_id, request)
        return {
            (key := TopicPartitionReplica(topic.topic_name, row.partition_index, node_id)): outcome(
                row.error_code, str(key), None, None
            )
            for topic in answer.results
            for row in topic.partitions
        }

    async def ask(some: list[TopicPartitionReplica]) -> Answers[TopicPartitionReplica, None]:
        await routes.cluster.refresh([])
        shares: dict[int, list[TopicPartitionReplica]] = defaultdict(list)
        for each in some:
            shares[each.broker_id].append(each)
        return await routes.from_brokers(shares, ask_one)

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(replica_assignments, ask, deadline, "the replicas were not moved")
    all_of(answers, "the move of replicas")
