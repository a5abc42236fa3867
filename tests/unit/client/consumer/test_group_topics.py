"""Which topics there are, looked up again now and then."""

import asyncio
import re

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.group_topics import GroupTopics
from ottla.client.consumer.subscription import Subscription
from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.core.errors import ErrorCode
from tests.unit.client.consumer.driven import new_broker, until


class Watched:
    """A watch, and what it told."""

    def __init__(self, server, **settings):
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = ConsumerConfig({"bootstrap.servers": server, "retry.backoff.ms": 5, **given})
        self.cluster, self.subscription = Cluster(self.config), Subscription()
        self.news, self.errors = 0, []
        self.topics = GroupTopics(
            self.cluster, self.config, self.subscription, self._heard, self.errors.append
        )

    def _heard(self):
        self.news += 1

    async def close(self):
        await self.topics.stop()
        await self.cluster.close()


def on_broker(test, **settings):
    async def run():
        async with new_broker(auto_create_topics_enable="false") as broker:
            await broker.create_topic("tea", 2)
            watched = Watched(broker.bootstrap_server, **settings)
            try:
                await test(broker, watched)
            finally:
                await watched.close()

    asyncio.run(run())


def test_topics_by_name_are_what_they_are():
    async def test(broker, watched):
        watched.subscription.subscribe(["tea"], None, None)
        watched.topics.start()
        await until(lambda: watched.topics.has_looked)
        assert watched.topics.matching() == {"tea"} and not watched.topics.match()
        assert watched.topics.counts(["tea", "milk"]) == {"tea": 2}

    on_broker(test)


def test_a_missing_topic_is_looked_for_again_and_one_that_is_there_is_not():
    async def test(broker, watched):
        watched.subscription.subscribe(["tea", "milk"], None, None)
        watched.topics.start()
        await until(lambda: watched.news > 2)
        await broker.create_topic("milk", 1)
        await until(lambda: watched.topics.counts(["milk"]) == {"milk": 1})
        assert not watched.errors

    on_broker(test)


def test_what_other_members_want_is_looked_for_too():
    async def test(broker, watched):
        await broker.create_topic("milk", 3)
        watched.subscription.subscribe(["tea"], None, None)
        watched.topics.others = frozenset({"milk"})
        watched.topics.start()
        await until(lambda: watched.topics.counts(["milk", "tea"]) == {"milk": 3, "tea": 2})

    on_broker(test)


def test_a_pattern_is_matched_once_everything_was_looked_at():
    async def test(broker, watched):
        watched.subscription.subscribe((), re.compile("t.*"), None)
        assert not watched.topics.has_looked and not watched.topics.match()
        watched.topics.start()
        await until(lambda: watched.topics.has_looked)
        assert watched.topics.matching() == {"tea"}
        assert watched.topics.match() and watched.subscription.topics == {"tea"}
        assert not watched.topics.match()
        watched.subscription.subscribe((), re.compile("m.*"), None)
        assert not watched.topics.has_looked, "not since the subscription changed"
        watched.topics.look_soon()
        await until(lambda: watched.topics.has_looked)
        assert watched.topics.matching() == frozenset()

    on_broker(test)


def test_internal_topics_are_passed_over_unless_they_are_wanted():
    async def test(broker, watched):
        await broker.create_topic("__consumer_offsets", 1)
        watched.subscription.subscribe((), re.compile(".*"), None)
        watched.topics.start()
        await until(lambda: watched.topics.has_looked)
        wanted = {"tea"} if watched.config.exclude_internal_topics else {"tea", "__consumer_offsets"}
        assert watched.topics.matching() == wanted

    on_broker(test)
    on_broker(test, exclude_internal_topics=False)


def test_a_pattern_that_brokers_match_asks_for_nothing():
    async def test(broker, watched):
        watched.subscription.subscribe((), SubscriptionPattern("t.*"), None)
        watched.topics.start()
        await until(lambda: watched.news)
        assert not watched.cluster.metadata.topics and not watched.topics.match()

    on_broker(test)


def test_topics_are_found_by_their_ids():
    async def test(broker, watched):
        other = Cluster(watched.config)
        await other.refresh(["tea"])
        topic_id = other.metadata.topic_id("tea")
        await other.close()
        watched.subscription.subscribe((), SubscriptionPattern("t.*"), None)
        watched.topics.start()
        watched.topics.learn([topic_id])
        await until(lambda: watched.cluster.metadata.names.get(topic_id) == "tea")
        await until(lambda: not watched.topics.unknown_ids)

    on_broker(test)


def test_a_topic_that_cannot_be_is_told():
    async def test(broker, watched):
        watched.subscription.subscribe(["no such/name"], None, None)
        watched.topics.start()
        await until(lambda: watched.errors)
        assert watched.errors[0].code == ErrorCode.INVALID_TOPIC_EXCEPTION

    on_broker(test)


def test_a_cluster_that_is_away_is_waited_for():
    async def test(broker, watched):
        await broker.stop()
        watched.subscription.subscribe(["tea"], None, None)
        watched.topics.start()
        await asyncio.sleep(0)
        await broker.start()
        await until(lambda: watched.topics.has_looked)
        assert not watched.errors

    on_broker(test, reconnect_backoff_ms=5)
