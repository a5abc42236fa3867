"""Whom an admin client asks, what it waits for, and how it says what failed."""

import asyncio
import copy

import pytest

from ottla.client.admin.routes import all_of, by_topic, outcome, passes, the_one
from ottla.client.errors import KafkaTimeoutError, NetworkError, PartialFailure
from ottla.core.errors import ErrorCode, KafkaError, StaleMetadataError
from ottla.core.ids import TopicPartition
from tests.unit.client.admin.brokers import admin_of_a_broker


def error(code):
    return KafkaError.of(code, "a test wants it so")


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("CreateTopics", "NOT_CONTROLLER"),
        ("CreateTopics", "THROTTLING_QUOTA_EXCEEDED"),
        ("Metadata", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_what_passes_is_waited_out(api, code):
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            broker.fail_next(api, code, times=3)
            await admin.create_topic("orders")
            assert broker.faults.pending == {}
            assert "orders" in broker.topics()

    asyncio.run(run())


@pytest.mark.parametrize("code", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_coordinator_that_moves_is_looked_for_again(code):
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            await admin.create_topic("orders")
            place = TopicPartition("orders", 0)
            broker.fail_next("OffsetCommit", code, times=2)
            await admin.alter_group_offsets("billing", {place: 0})
            broker.fail_next("DeleteGroups", code, times=2)
            broker.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2)
            await admin.delete_groups(["billing"])
            assert broker.faults.pending == {}

    asyncio.run(run())


@pytest.mark.parametrize(
    "code", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_NOT_AVAILABLE"]
)
def test_a_leader_that_moves_or_does_not_know_yet_is_asked_again(code):
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            await admin.create_topic("orders")
            place = TopicPartition("orders", 0)
            broker.fail_next("ListOffsets", code, times=2)
            assert (await admin.list_offsets({place: -1}))[place].offset == 0
            assert broker.faults.pending == {}

    asyncio.run(run())


def test_what_does_not_pass_is_an_answer():
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            broker.fail_next("CreateTopics", "POLICY_VIOLATION")
            with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                await admin.create_topic("orders")
            broker.fail_next("DescribeLogDirs", "CLUSTER_AUTHORIZATION_FAILED")
            with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await admin.describe_log_dirs()

    asyncio.run(run())


def test_patience_ends_with_a_sentence_that_says_what_was_waited_for():
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            broker.fail_next("CreateTopics", "NOT_CONTROLLER", times=10_000)
            with pytest.raises(KafkaTimeoutError, match="not created within 100 ms: NOT_CONTROLLER"):
                await admin.create_topics(["orders"], timeout_ms=100)
            broker.pause()
            with pytest.raises(KafkaTimeoutError, match="not listed within 100 ms"):
                await admin.list_topics(timeout_ms=100)

    asyncio.run(run())


def test_a_broker_that_comes_back_is_worth_waiting_for():
    async def run():
        async with admin_of_a_broker() as (admin, broker):
            await admin.create_topic("orders")
            await broker.kill()
            asking = asyncio.ensure_future(admin.list_topics())
            await asyncio.sleep(0)
            await broker.start()
            assert "orders" in await asking

    asyncio.run(run())


def test_only_those_are_asked_again_that_were_not_answered():
    async def run():
        async with admin_of_a_broker() as (admin, _):
            routes, asked = admin._routes, []

            async def attempt(keys):
                asked.append(keys)
                busy = error(ErrorCode.NOT_CONTROLLER)
                return {"a": 1, "b": busy if len(asked) < 3 else 2, "c": error(ErrorCode.UNKNOWN_TOPIC_ID)}

            answers = await routes.settle("abcda", attempt, routes.deadline(None), "it did not work")
            assert asked == [["a", "b", "c", "d"], ["b"], ["b"]]
            assert (answers["a"], answers["b"]) == (1, 2)
            assert answers["c"].code is ErrorCode.UNKNOWN_TOPIC_ID
            assert "leaves out d" in str(answers["d"])
            assert await routes.settle([], attempt, routes.deadline(None), "") == {}

    asyncio.run(run())


def test_when_time_is_up_what_was_answered_is_kept():
    async def run():
        async with admin_of_a_broker() as (admin, _):
            routes = admin._routes

            async def attempt(keys):
                return {key: 1 if key == "a" else error(ErrorCode.LEADER_NOT_AVAILABLE) for key in keys}

            answers = await routes.settle("ab", attempt, routes.deadline(20), "it did not work")
            assert answers["a"] == 1 and isinstance(answers["b"], KafkaTimeoutError)
            with pytest.raises(KafkaTimeoutError, match="it did not work"):
                await routes.settle("b", attempt, routes.deadline(20), "it did not work")

    asyncio.run(run())


def test_what_is_retriable_for_others_may_be_final_here():
    assert passes(error(ErrorCode.NOT_CONTROLLER)) and passes(NetworkError("lost"))
    assert not passes(error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) and not passes(
        error(ErrorCode.INVALID_CONFIG)
    )
    assert not passes(StaleMetadataError(ErrorCode.ELECTION_NOT_NEEDED))


def test_a_failure_in_part_has_all_results_and_names_each_that_failed():
    answers = {"a": 1, "b": error(ErrorCode.NOT_CONTROLLER), "c": error(ErrorCode.INVALID_CONFIG)}
    with pytest.raises(PartialFailure) as failed:
        all_of(answers, "the test")
    found = failed.value
    assert str(found) == (
        "the test failed for 2 of 3: b: NOT_CONTROLLER: a test wants it so; c: INVALID_CONFIG: a test wants it so"
    )
    assert found.code is ErrorCode.NOT_CONTROLLER and not found.retriable and found.results == answers
    twin = copy.copy(found)
    assert str(twin) == str(found) and twin.results == answers
    assert all_of({"a": 1}, "the test") == {"a": 1}
    many = {number: error(ErrorCode.NOT_CONTROLLER) for number in range(60)}
    assert str(PartialFailure("it", many)).endswith("and 10 more") and PartialFailure("it", many).retriable


def test_one_answer_is_its_value_or_its_error():
    assert the_one({"a": outcome(0, "a", None, 5)}) == 5
    with pytest.raises(KafkaError) as found:
        the_one({"a": outcome(40, "topic a", "flush.ms is odd", 5)})
    assert str(found.value) == "INVALID_CONFIG: topic a: flush.ms is odd"


def test_partitions_are_named_by_topic():
    places = [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0)]
    assert by_topic(places) == {"a": [1, 0], "b": [0]}
