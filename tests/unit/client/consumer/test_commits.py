"""Commits in their order: when the next automatic one is due, and which come too late."""

import asyncio

import pytest

from ottla.client.cluster import Cluster
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.subscription import Position, Subscription
from ottla.client.deadline import Deadline
from ottla.client.errors import CommitFailedError
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

PARTITION = TopicPartition("t", 0)


class Coordinator:
    """Answers when it is allowed to: `errors` first."""

    group_id = "g"

    def __init__(self):
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.errors, self.asked = [], []

    async def commit(self, places):
        self.asked.append({key: place.offset for key, place in places.items()})
        await self.may_answer.wait()
        if self.errors:
            raise KafkaError.of(self.errors.pop(0), "t-0")


class Committing:
    """A member of a group that holds one partition, at offset 5."""

    def __init__(self, **settings):
        config = ConsumerConfig(
            {
                "group.id": "g",
                "retry.backoff.ms": 1,
                **{key.replace("_", "."): settings[key] for key in settings},
            }
        )
        self.subscription, self.coordinator, self.wakes = Subscription(), Coordinator(), 0
        self.subscription.subscribe(["t"], None, None)
        self.hold()
        self.commits = Commits(
            Cluster(config), config, self.subscription, self.coordinator, Interceptors(()), self._wake
        )

    def hold(self):
        self.subscription.set_assignment([PARTITION])
        self.subscription.state(PARTITION).seek(Position(5))

    def _wake(self):
        self.wakes += 1


def test_while_an_automatic_commit_is_under_way_nobody_is_kept_awake_for_the_next():
    async def run():
        case = Committing(auto_commit_interval_ms=0)
        commits = case.commits
        case.coordinator.may_answer.clear()
        commits.tick()
        assert commits.next_tick is None
        commits.tick()
        await asyncio.sleep(0)
        assert case.coordinator.asked == [{PARTITION: 5}] and case.wakes == 0
        case.coordinator.may_answer.set()
        await commits.settle(Deadline(1000))
        assert case.wakes == 1
        assert commits.next_tick > asyncio.get_running_loop().time(), "not at once, whatever the interval"

    asyncio.run(run())


def test_a_commit_that_waited_until_its_partition_had_moved_is_not_sent():
    async def run():
        case = Committing(enable_auto_commit=False)
        case.coordinator.may_answer.clear()
        first, second = (case.commits.commit_soon(case.commits.consumed()) for _ in range(2))
        await asyncio.sleep(0)
        case.subscription.set_assignment([])
        case.hold()
        case.coordinator.may_answer.set()
        await first
        with pytest.raises(CommitFailedError, match="t-0 was given up before"):
            await second
        assert len(case.coordinator.asked) == 1

    asyncio.run(run())


def test_partitions_are_given_up_when_commits_that_nobody_waits_for_have_arrived():
    async def run():
        case = Committing(enable_auto_commit=False)
        case.coordinator.may_answer.clear()
        under_way = case.commits.commit_soon(case.commits.consumed())
        given_up = asyncio.ensure_future(case.commits.commit_automatically(Deadline(10_000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not given_up.done()
        case.coordinator.may_answer.set()
        await given_up
        assert under_way.done() and under_way.exception() is None

    asyncio.run(run())


def test_nobody_waits_for_a_topic_that_was_deleted(caplog):
    async def run():
        case = Committing()
        case.coordinator.errors = [ErrorCode.NOT_COORDINATOR] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 9
        await case.commits.commit_automatically(Deadline(-1))
        assert len(case.coordinator.asked) == 2
        assert "UNKNOWN_TOPIC_OR_PARTITION" in caplog.text

    asyncio.run(run())
