"""May this topic be? The rules for new topics and new partitions, with Kafka's codes and close to its words."""

from collections.abc import Collection, Mapping, Sequence

from ottla.controller.commands import Growth, NewTopic
from ottla.controller.context import Context
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import topic_name_fault

PARTITIONS_PER_REQUEST_MAX = 10_000
"""As in Kafka. A client can ask for two thousand million partitions in twenty bytes."""


def check_name(context: Context, name: str) -> None:
    fault = topic_name_fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: '{name}' {fault}.")
    similar = context.similar_topic(name)
    if similar == name:
        doomed = " It is being deleted." if name in context.doomed else ""
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.{doomed}")
    if similar is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {similar}"
        )


def check_no_nulls(topic: NewTopic) -> dict[str, str]:
    """The settings of a new topic."""
    nulls = [key for key, value in topic.configs.items() if value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {', '.join(nulls)}"
        )
    return {key: value for key, value in topic.configs.items() if value is not None}


def check_assigned_only(topic: NewTopic) -> None:
    """Who assigns replicas leaves the numbers to us."""
    if topic.partitions != -1 or topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but the number of partitions "
            "or the replication factor was not set to -1.",
        )


def check_counts(context: Context, partition_count: int, replication_factor: int) -> None:
    """For a topic whose replicas we place."""
    if partition_count < 1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must be larger than 0, or -1 to use the default value; it was {partition_count}.",
        )
    check_size(partition_count)
    if replication_factor < 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor must be larger than 0, or -1 to use the default value; it was {replication_factor}.",
        )
    if replication_factor > len(context.brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(context.brokers)} broker(s) are registered.",
        )


def check_size(partition_count: int) -> None:
    if partition_count > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {partition_count}; "
            f"at most {PARTITIONS_PER_REQUEST_MAX} can be created at once.",
        )


def check_assignments(context: Context, assignments: Mapping[int, Sequence[int]]) -> list[tuple[int, ...]]:
    """For a topic whose creator places the replicas. Returns them by partition."""
    if sorted(assignments) != list(range(len(assignments))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    check_size(len(assignments))
    replicas = [tuple(assignments[index]) for index in range(len(assignments))]
    for ids in replicas:
        check_replicas(ids, len(replicas[0]), context.brokers.keys())
    return replicas


def check_replicas(replicas: Sequence[int], expected_count: int, live: Collection[int]) -> None:
    """One partition's replicas: some, different, alive, and as many as the other partitions have."""
    fault = None
    unknown = next((id for id in replicas if id not in live), None)
    if not replicas:
        fault = "includes an empty replica list."
    elif len(set(replicas)) != len(replicas):
        fault = f"includes a broker more than once: {list(replicas)}."
    elif unknown is not None:
        fault = f"includes broker {unknown}, but no such broker is registered."
    elif len(replicas) != expected_count:
        fault = (
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {expected_count} replica(s)."
        )
    if fault:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {fault}")


def check_any_stays(context: Context, replicas: Sequence[int], *, placed: bool = False) -> None:
    """A new partition needs somebody to lead it, and not only for the moment."""
    if any(id not in context.shutting_down for id in replicas):
        return
    if placed:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently in controlled shutdown."
        )
    raise KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"All brokers specified in the manual partition assignment {list(replicas)} are in controlled shutdown.",
    )


def check_growth(context: Context, growth: Growth) -> int:
    """How many partitions are to be added."""
    topic = context.topics.get(growth.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{growth.name}' does not exist.")
    count = len(topic.image.partitions)
    if growth.count == count:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if growth.count < count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {growth.name} currently has {count} partition(s); {growth.count} would not be an increase.",
        )
    more = growth.count - count
    check_size(more)
    if growth.assignments is not None and len(growth.assignments) != more:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but {len(growth.assignments)} assignment(s) were "
            "specified.",
        )
    return more
