"""Members of a group come and go, crash and come back, in both protocols: every record is read, and once."""

import asyncio
import re

import pytest

from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.errors import CommitFailedError
from ottla.client.listener import RebalanceListener
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker
from tests.client.conftest import create_topic
from tests.client.group_members import PARTITIONS, Told, group_of, until
from tests.client.test_consumer_faults import consumer_of, read, write

CLASSIC, CONSUMER = {"group_protocol": "classic"}, {"group_protocol": "consumer"}
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
PROTOCOLS = pytest.mark.parametrize("how", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
EVERY_ASSIGNOR = [
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "roundrobin"},
    {"partition_assignment_strategy": "sticky"},
    COOPERATIVE,
    {"partition_assignment_strategy": ["range", "cooperative-sticky"]},
    {**CONSUMER, "group_remote_assignor": "uniform"},
    {**CONSUMER, "group_remote_assignor": "range"},
]


@pytest.mark.parametrize("how", EVERY_ASSIGNOR, ids=lambda how: "-".join(map(str, how.values())))
def test_members_come_and_go_under_load_and_every_record_is_read_once(server, new_topic, name, how):
    async def run():
        async with group_of(server, name, topic) as group:
            async with group.load():
                first = await group.join(**how)
                second = await group.join(**how)
                await group.shares(3, 3)
                await group.join(**how)
                await group.shares(2, 2, 2)
                await group.leave(second)
                await group.shares(3, 3)
            await group.has_read_everything()
            assert all(not each.errors for each in group.all), group.told()
            assert "lost" not in first.listener.events

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


@pytest.mark.parametrize("how", [COOPERATIVE, CONSUMER], ids=["cooperative", "consumer"])
def test_what_does_not_move_is_never_given_up(server, new_topic, name, how):
    async def run():
        async with group_of(server, name, topic) as group:
            first = await group.join(**how)
            await group.shares(6)
            await group.join(**how)
            await group.shares(3, 3)
            revoked = set().union(
                *(partitions for what, partitions in first.listener.heard if what == "revoked")
            )
            assert revoked == set(range(PARTITIONS)) - first.has

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


def test_eager_members_give_up_everything_before_they_join(server, new_topic, name):
    async def run():
        async with group_of(server, name, topic) as group:
            first = await group.join(partition_assignment_strategy="range")
            await group.shares(6)
            second = await group.join(partition_assignment_strategy="range")
            await group.shares(3, 3)
            everything = set(range(PARTITIONS))
            assert first.listener.heard == [
                ("assigned", everything),
                ("revoked", everything),
                ("assigned", first.has),
            ]
            await group.leave(second)
            rest = everything - first.listener.heard[-1][1]
            assert second.listener.heard == [("assigned", rest), ("revoked", rest)]

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


def test_the_partitions_of_a_member_that_died_go_to_the_others(server, new_topic, name):
    async def die(how, group_name, topic):
        async with group_of(server, group_name, topic) as group:
            first, second = await group.join(**how), await group.join(**how)
            await group.shares(3, 3)
            await group.produce(60)
            await group.has_read_everything()
            await group.crash(first)
            await group.produce(60)
            await group.shares(6)
            await group.has_read_everything(at_least_once=True)
            assert "lost" not in second.listener.events

    async def run():
        how = {"session_timeout_ms": 6000}
        await asyncio.gather(
            die({**CLASSIC, **how}, name, topics[0]),
            die({**COOPERATIVE, **how}, f"{name}-cooperative", topics[1]),
            die({**CONSUMER}, f"{name}-consumer", topics[2]),
        )

    topics = [new_topic(partitions=PARTITIONS) for _ in range(3)]
    asyncio.run(run())


@PROTOCOLS
def test_a_static_member_that_comes_back_disturbs_nobody(server, new_topic, name, how):
    async def run():
        async with group_of(server, name, topic) as group:
            first = await group.join(**how, group_instance_id="first")
            second = await group.join(**how, group_instance_id="second")
            await group.shares(3, 3)
            await group.produce(60)
            await group.has_read_everything()
            has, heard = second.has, list(first.listener.heard)
            await group.leave(second)
            again = await group.join(**how, group_instance_id="second")
            await group.shares(3, 3)
            await group.produce(60)
            await group.has_read_everything()
            assert again.has == has and first.listener.heard == heard

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


def test_a_second_owner_of_an_instance_id_fences_the_first(server, new_topic, name):
    async def run():
        async with group_of(server, name, topic) as group:
            first = await group.join(group_instance_id="only")
            await group.shares(6)
            group.members.remove(first)
            await group.join(group_instance_id="only")
            await group.shares(6)
            await until(lambda: first.errors, group.told)
            assert first.errors[0].code.name == "FENCED_INSTANCE_ID"
            await first.close()
            assert first.listener.events[-1] == "lost"

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


def test_a_second_owner_of_an_instance_id_waits_for_the_first_to_go(server, new_topic, name):
    async def run():
        async with group_of(server, name, topic) as group:
            first = await group.join(**CONSUMER, group_instance_id="only")
            await group.shares(6)
            second = await group.join(**CONSUMER, group_instance_id="only")
            await until(lambda: second.errors, group.told)
            assert second.errors[0].code.name == "UNRELEASED_INSTANCE_ID"
            await group.leave(first)
            await group.shares(6)

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


@PROTOCOLS
def test_who_takes_longer_than_it_may_leaves_the_group_until_it_polls_again(server, new_topic, name, how):
    async def run():
        async with group_of(server, name, topic) as group:
            slow = await group.join(**how, max_poll_interval_ms=1500)
            other = await group.join(**how)
            await group.shares(3, 3)
            await slow.rest()
            await until(lambda: other.has == set(range(PARTITIONS)), group.told)
            assert len(slow.has) == 3, "it has not noticed"
            with pytest.raises(CommitFailedError, match="max_poll_interval_ms"):
                await slow.consumer.commit({TopicPartition(topic, 0): 0})
            slow.poll()
            await group.shares(3, 3)
            assert "lost" in slow.listener.events
            await group.produce(60)
            await group.has_read_everything()

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


@PROTOCOLS
def test_a_pattern_finds_a_topic_that_is_made_later(server, name, how):
    async def run():
        async with group_of(server, name, f"{name}.one") as group:
            member = await group.join(**how, pattern=re.escape(name) + r"\..*")
            await group.shares(2, partitions=2)
            await create_topic(server, f"{name}.two", 3)
            await until(lambda: len(member.consumer.assignment()) == 5, group.told)
            await group.produce(10, partitions=2)
            await group.has_read_everything()

    asyncio.run(create_topic(server, f"{name}.one", 2))
    asyncio.run(run())


def test_brokers_match_patterns_too(server, name):
    async def run():
        async with group_of(server, name, f"{name}.one") as group:
            await group.join(**CONSUMER, pattern=SubscriptionPattern(re.escape(name) + r"\..*"))
            await group.shares(2, partitions=2)
            await group.produce(10, partitions=2)
            await group.has_read_everything()
            assert all(not each.errors for each in group.members), group.told()

    asyncio.run(create_topic(server, f"{name}.one", 2))
    asyncio.run(run())


@PROTOCOLS
def test_a_topic_that_is_made_later_is_found(server, name, how):
    async def run():
        async with group_of(server, name, name) as group:
            member = await group.join(**how, allow_auto_create_topics=False)
            await until(lambda: member.consumer.group_metadata().generation_id > 0, group.told)
            await create_topic(server, name, 2)
            await group.shares(2, partitions=2)
            await group.produce(10, partitions=2)
            await group.has_read_everything()

    asyncio.run(run())


def everything_to_the_last(members, partition_counts):
    """An assignor of a user."""
    last = max(members)
    return {last: {topic: range(partition_counts[topic]) for topic in members[last].subscribed}}


def test_a_group_may_have_an_assignor_of_its_own(server, new_topic, name):
    async def run():
        async with group_of(server, name, topic) as group:
            for _ in range(2):
                await group.join(partition_assignment_strategy=[everything_to_the_last])
            await group.shares(6, 0)
            await group.produce(12)
            await group.has_read_everything()

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


def test_a_group_moves_to_the_other_protocol_and_back_while_it_lives(server, new_topic, name):
    async def run():
        async with group_of(server, name, topic) as group:
            async with group.load():
                old = [await group.join(**CLASSIC), await group.join(**CLASSIC)]
                await group.shares(3, 3)
                await group.join(**CONSUMER)
                await group.shares(2, 2, 2)
                await group.leave(old[0])
                await group.join(**CONSUMER)
                await group.shares(2, 2, 2)
                await group.leave(old[1])
                await group.shares(3, 3)
                await group.join(**CLASSIC)
                await group.shares(2, 2, 2)
            await group.has_read_everything()

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


@PROTOCOLS
def test_listeners_may_fail_and_the_group_goes_on(server, new_topic, name, how):
    class Failing(Told):
        def on_partitions_assigned(self, assigned):
            super().on_partitions_assigned(assigned)
            raise ValueError("not now")

    async def run():
        async with group_of(server, name, topic) as group:
            member = await group.join(**how, listener=Failing())
            await until(lambda: member.errors, group.told)
            assert [str(each) for each in member.errors] == ["not now"]
            await group.produce(12)
            await group.has_read_everything()

    topic = new_topic(partitions=PARTITIONS)
    asyncio.run(run())


@pytest.mark.parametrize("how", [CLASSIC, COOPERATIVE, CONSUMER], ids=["classic", "cooperative", "consumer"])
def test_a_group_outlives_its_coordinator(how):
    async def run():
        times = {
            "group.consumer.heartbeat.interval.ms": 200,
            "group.consumer.min.heartbeat.interval.ms": 200,
        }
        async with AsyncBroker(config=times) as broker:
            await broker.create_topic("t", PARTITIONS)
            async with group_of(broker.bootstrap_server, "g", "t") as group:
                first, _ = await group.join(**how), await group.join(**how)
                await group.shares(3, 3)
                async with group.load():
                    await broker.restart()
                    await group.join(**how)
                    await group.shares(2, 2, 2)
                    await broker.kill()
                    await broker.start()
                await group.has_read_everything()
                assert "lost" not in first.listener.events

    asyncio.run(run())


@pytest.mark.parametrize("how", [{}, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("in_listener", [False, True], ids=["before", "in the listener"])
def test_commits_that_nobody_waits_for_arrive_before_the_group_goes_on(how, in_listener):
    """They take another connection than the join: without a word they would come too late, and count no more."""

    class Commits(RebalanceListener):
        def on_partitions_revoked(self, revoked):
            if in_listener:
                done.append(consumer.commit_async())

    done = []

    async def run():
        nonlocal consumer
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            consumer = consumer_of(broker, group_id="g", enable_auto_commit=False, **how)
            async with consumer:
                consumer.subscribe(["t"], listener=Commits())
                await read(consumer, 5)
                broker.delay("OffsetCommit", 0.3)
                if not in_listener:
                    done.extend(consumer.commit_async() for _ in range(2))
                consumer.enforce_rebalance()
                generation = consumer.group_metadata().generation_id
                async with asyncio.timeout(20):
                    while consumer.group_metadata().generation_id == generation:
                        assert not await consumer.poll(100)
                assert not any(each.exception() for each in done)
                broker.delay("OffsetCommit", 0)
                assert not await consumer.poll(300), "nothing is read again"

    consumer = None
    asyncio.run(run())


@PROTOCOLS
def test_commits_that_nobody_waits_for_arrive_before_the_group_is_left(how):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, "t", group_id="g", enable_auto_commit=False, **how) as consumer:
                await read(consumer, 5)
                broker.delay("OffsetCommit", 0.1)
                done = [consumer.commit_async() for _ in range(2)]
                await consumer.unsubscribe()
                assert all(each.exception() is None for each in done)

    asyncio.run(run())
