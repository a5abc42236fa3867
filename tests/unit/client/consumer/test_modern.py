"""A member of a KIP-848 group meets a coordinator with moods."""

import asyncio
import logging
import re

import pytest

from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.deadline import Deadline
from ottla.client.errors import UnsupportedVersionError
from ottla.core.errors import ErrorCode, FencedError
from ottla.core.ids import NULL_ID
from ottla.network.peer import Peer
from ottla.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from ottla.protocol.wiretypes import Versions
from tests.unit.client.consumer.driven import Driven, Told, driven, new_broker, until

HEARTBEAT = 68


def modern(broker, *topics, **how):
    return driven(broker.bootstrap_server, *topics, group_protocol="consumer", **how)


def on_broker(test, partitions=4, **config):
    """Run a coroutine function with a broker that has a topic."""

    async def run():
        async with new_broker(**config) as broker:
            await broker.create_topic("t", partitions)
            await test(broker)

    asyncio.run(run())


def counted(member):
    """The answers to heartbeats from now on."""
    found, brain = [], member.membership._member
    judge = brain.answered

    def answered(answer):
        found.append(answer.error_code)
        return judge(answer)

    brain.answered = answered
    return found


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ConsumerGroupHeartbeat", "COORDINATOR_NOT_AVAILABLE"),
        ("ConsumerGroupHeartbeat", "NOT_COORDINATOR"),
        ("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
    ],
)
def test_what_passes_is_waited_out(api, code):
    async def test(broker):
        broker.fail_next(api, code)
        async with modern(broker) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            assert not broker.faults.pending and not member.errors

    on_broker(test)


@pytest.mark.parametrize(
    "code", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]
)
def test_a_coordinator_that_moves_costs_nothing(code):
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            broker.fail_next("ConsumerGroupHeartbeat", code, times=3)
            await until(lambda: not broker.faults.pending)
            assert member.listener.events == ["assigned"]

    on_broker(test)


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"])
def test_a_fenced_member_has_lost_its_partitions_and_joins_again(code):
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            member_id = member.membership.group_metadata.member_id
            broker.fail_next("ConsumerGroupHeartbeat", code)
            await until(lambda: member.listener.events == ["assigned", "lost", "assigned"])
            assert member.commits == 0, "to commit was too late"
            assert member.membership.group_metadata.member_id == member_id

    on_broker(test)


@pytest.mark.parametrize(
    "code",
    [
        "UNRELEASED_INSTANCE_ID",
        "UNSUPPORTED_ASSIGNOR",
        "INVALID_REGULAR_EXPRESSION",
        "GROUP_MAX_SIZE_REACHED",
        "UNSUPPORTED_VERSION",
        "GROUP_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
    ],
)
def test_a_refusal_is_raised_from_poll_and_the_next_poll_tries_again(code):
    async def test(broker):
        broker.fail_next("ConsumerGroupHeartbeat", code)
        async with modern(broker) as member:
            await until(lambda: member.has)
            assert [each.code.name for each in member.errors] == [code]

    on_broker(test)


def test_who_is_fenced_hears_it_in_every_poll():
    async def test(broker):
        async with modern(broker, group_instance_id="only") as member:
            await until(lambda: member.has)
            broker.fail_next("ConsumerGroupHeartbeat", "FENCED_INSTANCE_ID")
            await until(lambda: len(member.errors) > 2)
            assert all(isinstance(each, FencedError) for each in member.errors)

    on_broker(test)


def test_an_assignor_that_the_broker_does_not_have_is_an_error_and_one_that_it_has_is_used():
    async def test(broker):
        async with modern(broker, group_remote_assignor="nearest") as member:
            await until(lambda: member.errors)
            assert member.errors[0].code == ErrorCode.UNSUPPORTED_ASSIGNOR
        async with modern(broker, group_remote_assignor="range") as member:
            await until(lambda: member.has)

    on_broker(test)


def test_members_move_one_by_one_and_what_is_given_up_is_committed():
    async def test(broker):
        async with modern(broker) as first:
            await until(lambda: len(first.has) == 4)
            async with modern(broker) as second:
                await until(lambda: len(first.has) == len(second.has) == 2)
                assert first.listener.events[:2] == ["assigned", "revoked"] and first.commits == 1
                assert second.commits == 0
                await second.leave()
                assert second.listener.events[-1] == "revoked" and second.commits == 1
            await until(lambda: len(first.has) == 4)
            assert "lost" not in first.listener.events

    on_broker(test)


def test_a_static_member_comes_back_to_its_partitions():
    async def test(broker):
        async with modern(broker, group_instance_id="one") as first:
            await until(lambda: len(first.has) == 4)
            async with modern(broker, group_instance_id="two") as second:
                await until(lambda: len(first.has) == len(second.has) == 2)
                has, events = second.has, list(first.listener.events)
                await second.leave()
            async with modern(broker, group_instance_id="two") as again:
                await until(lambda: again.has == has)
                assert first.listener.events == events

    on_broker(test)


def test_heartbeats_go_on_while_a_listener_runs():
    class Slow(Told):
        async def on_partitions_revoked(self, revoked):
            beaten = counted(self.member)
            await until(lambda: len(beaten) > 3)
            super().on_partitions_revoked(revoked)

    async def test(broker):
        listener = Slow()
        async with modern(broker, listener=listener) as member:
            listener.member = member
            await until(lambda: member.has)
            async with modern(broker) as other:
                await until(lambda: len(other.has) == len(member.has) == 2)
            assert listener.events[:2] == ["assigned", "revoked"]

    on_broker(test)


def test_an_application_that_does_not_poll_leaves_the_group_and_comes_back(caplog):
    async def test(broker):
        async with modern(broker, max_poll_interval_ms=300) as stuck:
            await until(lambda: stuck.has)
            async with modern(broker) as other:
                await until(lambda: len(stuck.has) == len(other.has) == 2)
                await stuck.pause()
                with caplog.at_level(logging.WARNING):
                    await until(lambda: len(other.has) == 4)
                assert "max_poll_interval_ms" in caplog.text
                assert stuck.membership.needs_poll and len(stuck.has) == 2
                stuck.run()
                await until(lambda: len(stuck.has) == len(other.has) == 2)
                assert "lost" in stuck.listener.events

    on_broker(test)


def test_an_application_that_waits_in_a_poll_does_not_leave():
    async def test(broker):
        async with modern(broker, max_poll_interval_ms=100) as member:
            await until(lambda: member.has)
            beaten = counted(member)
            await until(lambda: len(beaten) > 8)
            assert member.listener.events == ["assigned"]

    on_broker(test)


def test_a_failed_commit_is_looked_into_by_a_heartbeat():
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            beaten = counted(member)
            member.membership.failed_commit(ErrorCode.STALE_MEMBER_EPOCH)
            await until(lambda: beaten)
            assert member.listener.events == ["assigned"]

    on_broker(test)


def test_to_ask_for_a_rebalance_is_only_noted(caplog):
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            member.membership.enforce_rebalance("for a test")
            assert "for a test" in caplog.text and not member.membership.needs_poll

    on_broker(test)


def test_a_listener_that_fails_is_heard_and_the_group_goes_on():
    class Failing(Told):
        def on_partitions_revoked(self, revoked):
            super().on_partitions_revoked(revoked)
            raise ValueError("not now")

    async def test(broker):
        async with modern(broker, listener=Failing()) as member:
            await until(lambda: member.has)
            async with modern(broker) as other:
                await until(lambda: len(other.has) == len(member.has) == 2)
            assert [str(each) for each in member.errors] == ["not now"]

    on_broker(test)


def test_leaving_while_the_group_is_away_ends_in_time():
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            await broker.stop()
            await member.pause()
            await member.membership.leave(Deadline(50))
            assert member.listener.events == ["assigned", "revoked"]

    on_broker(test)


def test_after_leaving_one_may_join_again():
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            await member.pause()
            await member.membership.leave(Deadline(5000))
            member.run()
            await until(lambda: member.has)
            assert member.listener.events == ["assigned", "revoked", "assigned"]

    on_broker(test)


def test_other_topics_may_be_wanted():
    async def test(broker):
        await broker.create_topic("u", 2)
        async with modern(broker) as member:
            await until(lambda: member.has)
            member.subscription.subscribe(["u"], None, member.listener)
            member.membership.subscription_changed()
            await until(lambda: {each.topic for each in member.subscription.partitions} == {"u"})

    on_broker(test)


@pytest.mark.parametrize("pattern", [re.compile("t.*"), SubscriptionPattern("t.*")], ids=repr)
def test_a_pattern_finds_topics_that_come_later(pattern):
    async def test(broker):
        async with modern(broker, pattern=pattern, metadata_max_age_ms=50) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            await broker.create_topic("tea", 6)
            await broker.create_topic("unwanted", 1)
            await until(lambda: len(member.subscription.partitions) == 10)
            assert {each.topic for each in member.subscription.partitions} == {"t", "tea"}

    on_broker(test)


def test_a_pattern_that_brokers_cannot_read_is_an_error():
    async def test(broker):
        async with modern(broker, pattern=SubscriptionPattern("t(")) as member:
            await until(lambda: member.errors)
            assert member.errors[0].code == ErrorCode.INVALID_REGULAR_EXPRESSION

    on_broker(test)


def test_a_topic_that_does_not_exist_is_waited_for():
    async def test(broker):
        async with modern(broker, "later") as member:
            await until(lambda: member.membership.group_metadata.generation_id > 0)
            await broker.create_topic("later", 2)
            await until(lambda: member.has == {0, 1})

    on_broker(test, auto_create_topics_enable="false")


def test_the_partitions_of_a_topic_that_was_made_again_are_others():
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            places = dict(member.subscription.partitions)
            await member.cluster.ask_controller(
                DeleteTopicsRequest(
                    topics=[DeleteTopicsRequest.Topic(name="t", topic_id=NULL_ID)], timeout_ms=9000
                )
            )
            await member.cluster.ask_controller(new_topic("t", 4))
            member.membership._watch.look_soon()
            await until(lambda: member.has == {0, 1, 2, 3} and member.subscription.partitions != places)
            again = member.subscription.partitions
            await until(lambda: all(again[each] is not places[each] for each in places))

    on_broker(test)


def new_topic(name, partitions):
    topic = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=9000)


def test_a_restarted_coordinator_still_knows_its_members():
    async def test(broker):
        async with modern(broker) as member:
            await until(lambda: member.has)
            await broker.restart()
            beaten = counted(member)
            await until(lambda: 0 in beaten)
            assert member.listener.events == ["assigned"]

    on_broker(test)


def capped(monkeypatch, last):
    """Brokers offer the heartbeat up to this version, or not at all."""
    negotiate = Peer.negotiate

    async def negotiate_old(self):
        await negotiate(self)
        versions = {key: each for key, each in self.versions.items() if key != HEARTBEAT}
        self.versions = versions if last is None else {**versions, HEARTBEAT: Versions(0, last)}

    monkeypatch.setattr(Peer, "negotiate", negotiate_old)


def test_the_first_version_will_do(monkeypatch):
    async def test(broker):
        capped(monkeypatch, 0)
        async with modern(broker) as member:
            await until(lambda: member.has)
            assert member.membership.group_metadata.member_id
            await member.leave()
        async with modern(broker, pattern=SubscriptionPattern("t")) as member:
            await until(lambda: member.errors)
            assert isinstance(member.errors[0], UnsupportedVersionError)

    on_broker(test)


def test_a_broker_without_the_protocol_is_named(monkeypatch):
    async def test(broker):
        capped(monkeypatch, None)
        async with modern(broker) as member:
            await until(lambda: member.errors)
            assert isinstance(member.errors[0], UnsupportedVersionError)
            assert "ConsumerGroupHeartbeat" in str(member.errors[0])

    on_broker(test)


def test_nothing_is_left_behind_by_a_member_that_never_polled():
    async def test(broker):
        member = Driven(broker.bootstrap_server, group_protocol="consumer")
        assert member.membership.needs_poll
        assert member.membership.group_metadata == ("g", -1, "", None)
        await member.leave()

    on_broker(test)
