"""What a topic may not be: code and message of every refusal."""

import pytest

from ottla.controller import validation
from ottla.controller.commands import Growth, NewTopic
from ottla.core.errors import ErrorCode, KafkaError
from tests.unit.controller.helpers import cluster, with_topic


@pytest.fixture
def context():
    context = cluster(0, 1)
    with_topic(context, NewTopic("there.is", assignments={0: [0, 1], 1: [1, 0]}))
    return context


def refused(code: ErrorCode, message: str):
    return pytest.raises(KafkaError, match=f"^{code.name}: .*{message}")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü", "x" * 250, "a b"])
def test_a_name_that_could_not_be_a_directory(context, name):
    with refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"):
        validation.check_name(context, name)


def test_a_name_that_is_taken_or_looks_like_one(context):
    with refused(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there.is' already exists."):
        validation.check_name(context, "there.is")
    with refused(
        ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'there_is' collides with existing topic: there.is"
    ):
        validation.check_name(context, "there_is")
    validation.check_name(context, "there-is")


@pytest.mark.parametrize(("partitions", "factor"), [(1, -1), (-1, 1), (3, 2), (0, -1)])
def test_numbers_and_assignments_exclude_each_other(partitions, factor):
    with refused(ErrorCode.INVALID_REQUEST, "manual partition assignment"):
        validation.check_assigned_only(NewTopic("t", partitions, factor, {0: [0]}))


def test_a_setting_without_a_value():
    with refused(ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: a, b"):
        validation.check_no_nulls(NewTopic("t", configs={"a": None, "b": None, "c": "1"}))


@pytest.mark.parametrize("count", [0, -2, -2147483648])
def test_too_few_partitions_or_replicas(context, count):
    with refused(ErrorCode.INVALID_PARTITIONS, "must be larger than 0"):
        validation.check_counts(context, count, 1)
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"):
        validation.check_counts(context, 1, count)


def test_more_replicas_than_brokers(context):
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR, "only 2 broker"):
        validation.check_counts(context, 1, 3)
    validation.check_counts(context, 1, 2)


def test_more_partitions_than_a_request_may_bring(context):
    with refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request"):
        validation.check_counts(context, 10_001, 1)
    validation.check_counts(context, 10_000, 1)


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ({1: [0]}, "consecutive 0-based"),
        ({0: [0], 2: [0]}, "consecutive 0-based"),
        ({0: [], 1: []}, "empty replica list"),
        ({0: [0, 0]}, "more than once"),
        ({0: [0], 1: [7]}, "includes broker 7, but no such broker is registered"),
        ({0: [0], 1: [0, 1]}, "which have 1 replica"),
        ({-1: [0], 0: [0]}, "consecutive 0-based"),
    ],
)
def test_assignments_that_contradict_themselves_or_the_cluster(context, assignments, message):
    with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message):
        validation.check_assignments(context, assignments)


def test_assignments_in_any_order(context):
    assert validation.check_assignments(context, {1: [1], 0: [0]}) == [(0,), (1,)]


@pytest.mark.parametrize(
    ("growth", "code", "message"),
    [
        (Growth("nope", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'nope' does not exist"),
        (Growth("there.is", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition"),
        (Growth("there.is", 1), ErrorCode.INVALID_PARTITIONS, "1 would not be an increase"),
        (Growth("there.is", -1), ErrorCode.INVALID_PARTITIONS, "-1 would not be an increase"),
        (Growth("there.is", 2_000_000_000), ErrorCode.POLICY_VIOLATION, "Excessively large"),
        (
            Growth("there.is", 4, [[0, 1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "add 2 additional .* 1 assignment",
        ),
    ],
)
def test_growth_that_is_none(context, growth, code, message):
    with refused(code, message):
        validation.check_growth(context, growth)


def test_growth(context):
    assert validation.check_growth(context, Growth("there.is", 5)) == 3
