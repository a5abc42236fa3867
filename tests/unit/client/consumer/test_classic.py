"""A member of a classic group meets a coordinator with moods."""

import asyncio
import logging
import re

import pytest

from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.deadline import Deadline
from ottla.client.errors import IllegalStateError
from ottla.core.errors import ErrorCode, FencedError, KafkaError
from ottla.network.peer import Peer
from ottla.protocol.messages.topics import CreatePartitionsRequest
from ottla.protocol.wiretypes import Versions
from tests.unit.client.consumer.driven import Driven, Told, driven, new_broker, until

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
SHORT = {"session_timeout_ms": 500}
"""Where a member that never left must be missed before the group can go on."""


def on_broker(test, partitions=4, **config):
    """Run a coroutine function with a broker that has a topic."""

    async def run():
        async with new_broker(**config) as broker:
            await broker.create_topic("t", partitions)
            await test(broker)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("JoinGroup", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("SyncGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("SyncGroup", "UNKNOWN_MEMBER_ID"),
        ("SyncGroup", "ILLEGAL_GENERATION"),
        ("Metadata", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_what_passes_is_waited_out(api, code):
    async def test(broker):
        broker.fail_next(api, code)
        async with driven(broker.bootstrap_server, **SHORT) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            assert not broker.faults.pending
            assert all(isinstance(each, KafkaError) for each in member.errors)

    on_broker(test)


@pytest.mark.parametrize(
    "code", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]
)
def test_a_heartbeat_to_a_coordinator_that_moves_costs_nothing(code):
    async def test(broker):
        async with driven(broker.bootstrap_server) as member:
            await until(lambda: member.has)
            generation = member.membership.group_metadata.generation_id
            broker.fail_next("Heartbeat", code, times=3)
            await until(lambda: not broker.faults.pending)
            assert member.listener.events == ["assigned"]
            assert member.membership.group_metadata.generation_id == generation

    on_broker(test)


@pytest.mark.parametrize("how", [{}, COOPERATIVE], ids=str)
@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_member_that_the_group_has_forgotten_has_lost_its_partitions_and_joins_again(code, how):
    async def test(broker):
        async with driven(broker.bootstrap_server, **SHORT, **how) as member:
            await until(lambda: member.has)
            broker.fail_next("Heartbeat", code)
            await until(lambda: member.listener.events == ["assigned", "lost", "assigned"])
            assert member.has == {0, 1, 2, 3}
            assert member.commits == 0, "to commit was too late"

    on_broker(test)


def test_a_cooperative_member_that_is_forgotten_while_it_joins_has_lost_its_partitions():
    async def test(broker):
        async with driven(broker.bootstrap_server, **SHORT, **COOPERATIVE) as member:
            await until(lambda: member.has)
            broker.fail_next("JoinGroup", "UNKNOWN_MEMBER_ID")
            member.membership.enforce_rebalance("for a test")
            await until(lambda: member.listener.events == ["assigned", "lost", "assigned"])

    on_broker(test)


@pytest.mark.parametrize(
    "code",
    [
        "GROUP_MAX_SIZE_REACHED",
        "INCONSISTENT_GROUP_PROTOCOL",
        "INVALID_SESSION_TIMEOUT",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_GROUP_ID",
    ],
)
def test_a_refusal_is_raised_from_poll_and_the_next_poll_tries_again(code):
    async def test(broker):
        broker.fail_next("JoinGroup", code)
        async with driven(broker.bootstrap_server) as member:
            await until(lambda: member.has)
            assert [each.code.name for each in member.errors] == [code]

    on_broker(test)


def test_who_is_fenced_hears_it_in_every_poll():
    async def test(broker):
        async with driven(broker.bootstrap_server, group_instance_id="only") as member:
            await until(lambda: member.has)
            broker.fail_next("Heartbeat", "FENCED_INSTANCE_ID")
            await until(lambda: len(member.errors) > 2)
            assert all(isinstance(each, FencedError) for each in member.errors)
            assert member.membership.needs_poll

    on_broker(test)


def test_a_session_timeout_that_the_broker_does_not_allow_is_named():
    async def test(broker):
        async with driven(broker.bootstrap_server, session_timeout_ms=60) as member:
            await until(lambda: member.errors)
            assert member.errors[0].code == ErrorCode.INVALID_SESSION_TIMEOUT

    on_broker(test)


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"])
def test_a_failed_commit_is_looked_into_by_a_heartbeat(code):
    async def test(broker):
        async with driven(broker.bootstrap_server, heartbeat_interval_ms=499, **SHORT) as member:
            await until(lambda: member.has)
            broker.fail_next("Heartbeat", code)
            member.membership.failed_commit(ErrorCode[code])
            await until(lambda: member.listener.events.count("assigned") == 2)

    on_broker(test)


def test_an_old_answer_to_a_commit_costs_nothing():
    async def test(broker):
        async with driven(broker.bootstrap_server, heartbeat_interval_ms=9000) as member:
            await until(lambda: member.has)
            beaten = counted(member)
            member.membership.failed_commit(ErrorCode.ILLEGAL_GENERATION)
            await until(lambda: beaten)
            assert member.listener.events == ["assigned"] and not member.membership.needs_poll

    on_broker(test)


def counted(member):
    """The answers to heartbeats from now on."""
    found, brain = [], member.membership._member
    judge = brain.beaten

    def beaten(request, code):
        found.append(code)
        return judge(request, code)

    brain.beaten = beaten
    return found


def test_heartbeats_go_on_while_a_listener_runs():
    class Slow(Told):
        async def on_partitions_revoked(self, revoked):
            beaten = counted(self.member)
            await until(lambda: len(beaten) > 3)
            super().on_partitions_revoked(revoked)

    async def test(broker):
        listener = Slow()
        async with driven(broker.bootstrap_server, listener=listener) as member:
            listener.member = member
            await until(lambda: member.has)
            async with driven(broker.bootstrap_server) as other:
                await until(lambda: len(other.has) == len(member.has) == 2)
            assert listener.events[:3] == ["assigned", "revoked", "assigned"]

    on_broker(test)


def test_an_application_may_work_for_longer_than_its_session():
    async def test(broker):
        async with driven(broker.bootstrap_server, session_timeout_ms=300) as member:
            await until(lambda: member.has)
            await member.pause()
            beaten = counted(member)
            await until(lambda: len(beaten) > 12)
            member.run()
            async with driven(broker.bootstrap_server) as other:
                await until(lambda: len(other.has) == len(member.has) == 2)
            assert member.listener.events == ["assigned", "revoked", "assigned"]

    on_broker(test)


def test_an_application_that_does_not_poll_leaves_the_group_and_comes_back(caplog):
    async def test(broker):
        # The first is a little slower than the second, or both would go.
        async with driven(broker.bootstrap_server, max_poll_interval_ms=300) as stuck:
            await until(lambda: stuck.has)
            async with driven(broker.bootstrap_server) as other:
                await until(lambda: len(stuck.has) == len(other.has) == 2)
                await stuck.pause()
                with caplog.at_level(logging.WARNING):
                    await until(lambda: len(other.has) == 4)
                assert "max_poll_interval_ms" in caplog.text
                assert stuck.membership.needs_poll and len(stuck.has) == 2
                stuck.run()
                await until(lambda: len(stuck.has) == len(other.has) == 2)
                assert stuck.listener.events[-2:] == ["lost", "assigned"]

    on_broker(test)


def test_an_application_that_waits_in_a_poll_does_not_leave():
    async def test(broker):
        async with driven(broker.bootstrap_server, max_poll_interval_ms=100) as member:
            await until(lambda: member.has)
            beaten = counted(member)
            await until(lambda: len(beaten) > 8)
            assert member.listener.events == ["assigned"]
            assert set(beaten) == {0}

    on_broker(test)


def test_a_listener_that_fails_is_heard_and_the_group_goes_on():
    class Failing(Told):
        def on_partitions_assigned(self, assigned):
            super().on_partitions_assigned(assigned)
            raise ValueError("not now")

    async def test(broker):
        async with driven(broker.bootstrap_server, listener=Failing()) as member:
            await until(lambda: member.errors)
            assert [str(each) for each in member.errors] == ["not now"]
            assert member.has == {0, 1, 2, 3} and not member.membership.needs_poll

    on_broker(test)


def test_leaving_gives_up_commits_and_tells_the_group():
    async def test(broker):
        async with driven(broker.bootstrap_server) as member, driven(broker.bootstrap_server) as other:
            await until(lambda: len(member.has) == len(other.has) == 2)
            commits = member.commits
            await member.leave()
            assert member.listener.events[-1] == "revoked" and member.commits == commits + 1
            assert member.membership.group_metadata.generation_id == -1
            await until(lambda: len(other.has) == 4)

    on_broker(test)


def test_leaving_while_the_group_is_away_ends_in_time():
    async def test(broker):
        async with driven(broker.bootstrap_server) as member:
            await until(lambda: member.has)
            await broker.stop()
            await member.pause()
            await member.membership.leave(Deadline(50))
            assert member.listener.events == ["assigned", "revoked"]

    on_broker(test)


def test_after_leaving_one_may_join_again():
    async def test(broker):
        async with driven(broker.bootstrap_server) as member:
            await until(lambda: member.has)
            await member.pause()
            await member.membership.leave(Deadline(5000))
            assert not member.has
            member.run()
            await until(lambda: member.has)
            assert member.listener.events == ["assigned", "revoked", "assigned"]

    on_broker(test)


def test_other_topics_may_be_wanted_while_the_first_join_is_under_way():
    async def test(broker):
        await broker.create_topic("u", 2)
        async with driven(broker.bootstrap_server) as member:
            member.subscription.subscribe(["u"], None, member.listener)
            member.membership.subscription_changed()
            await until(lambda: {each.topic for each in member.subscription.partitions} == {"u"})

    on_broker(test)


@pytest.mark.parametrize("how", [{}, COOPERATIVE], ids=str)
def test_a_topic_that_is_not_wanted_any_more_is_given_up(how):
    async def test(broker):
        await broker.create_topic("u", 2)
        async with driven(broker.bootstrap_server, "t", "u", **how) as member:
            await until(lambda: len(member.subscription.partitions) == 6)
            member.subscription.subscribe(["u"], None, member.listener)
            member.membership.subscription_changed()
            await until(lambda: {each.topic for each in member.subscription.partitions} == {"u"})
            gone = next(partitions for what, partitions in member.listener.heard if what == "revoked")
            assert len(gone) == 4

    on_broker(test)


def test_a_topic_that_does_not_exist_is_waited_for():
    async def test(broker):
        async with driven(broker.bootstrap_server, "later", metadata_max_age_ms=60_000) as member:
            await until(lambda: member.listener.events == ["assigned"])
            await broker.create_topic("later", 2)
            await until(lambda: member.has == {0, 1})

    on_broker(test, auto_create_topics_enable="false")


async def add_partitions(cluster, count):
    wanted = CreatePartitionsRequest.Topic(name="t", count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=9000, validate_only=False)
    answer = await cluster.ask_controller(request)
    assert [row.error_code for row in answer.results] == [0]


def test_the_leader_sees_partitions_that_were_added():
    async def test(broker):
        async with driven(broker.bootstrap_server, metadata_max_age_ms=50) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            await add_partitions(member.cluster, 6)
            await until(lambda: member.has == {0, 1, 2, 3, 4, 5})

    on_broker(test)


def test_a_static_leader_that_comes_back_leads_without_assigning_and_looks_after_the_group():
    async def test(broker):
        how = {"group_instance_id": "only", "metadata_max_age_ms": 50}
        async with driven(broker.bootstrap_server, **how) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            generation = member.membership.group_metadata.generation_id
            await member.leave()
            assert member.listener.events == ["assigned", "revoked"]
        async with driven(broker.bootstrap_server, **how) as again:
            await until(lambda: again.has == {0, 1, 2, 3})
            assert again.membership.group_metadata.generation_id == generation
            await add_partitions(again.cluster, 6)
            await until(lambda: again.has == {0, 1, 2, 3, 4, 5})

    on_broker(test)


def test_a_pattern_finds_topics_that_come_later_and_no_internal_ones():
    async def test(broker):
        pattern = re.compile(".*")
        async with driven(broker.bootstrap_server, pattern=pattern, metadata_max_age_ms=50) as member:
            await until(lambda: member.has == {0, 1, 2, 3})
            await broker.create_topic("another", 6)
            await until(lambda: len(member.subscription.partitions) == 10)
            assert {each.topic for each in member.subscription.partitions} == {"t", "another"}

    on_broker(test)


def test_patterns_that_brokers_match_need_the_other_protocol():
    async def test(broker):
        async with driven(broker.bootstrap_server, pattern=SubscriptionPattern("t.*")) as member:
            await until(lambda: member.errors)
            assert isinstance(member.errors[0], IllegalStateError)
            assert "group_protocol" in str(member.errors[0])

    on_broker(test)


def test_a_topic_with_an_impossible_name_is_an_error():
    async def test(broker):
        async with driven(broker.bootstrap_server, "t", "no such/name") as member:
            await until(lambda: member.errors)
            assert member.errors[0].code == ErrorCode.INVALID_TOPIC_EXCEPTION

    on_broker(test)


def test_an_assignor_that_fails_is_heard_of_in_poll():
    def mistaken(members, partition_counts):
        raise ValueError("wrong")

    async def test(broker):
        async with driven(broker.bootstrap_server, partition_assignment_strategy=mistaken) as member:
            await until(lambda: len(member.errors) > 1)
            assert "mistaken" in str(member.errors[0])

    on_broker(test)


def test_sticky_members_keep_what_they_had():
    async def test(broker):
        how = {"partition_assignment_strategy": "sticky"}
        async with (
            driven(broker.bootstrap_server, **how) as first,
            driven(broker.bootstrap_server, **how) as second,
        ):
            await until(lambda: len(first.has) == len(second.has) == 2)
            before = first.has, second.has
            async with driven(broker.bootstrap_server, **how) as third:
                await until(lambda: third.has)
                assert first.has <= before[0] and second.has <= before[1]
                await third.leave()
            await until(lambda: len(first.has) == len(second.has) == 2)

    on_broker(test)


def test_a_restarted_coordinator_still_knows_its_members():
    async def test(broker):
        async with driven(broker.bootstrap_server) as member:
            await until(lambda: member.has)
            generation = member.membership.group_metadata.generation_id
            await broker.restart()
            beaten = counted(member)
            await until(lambda: 0 in beaten)
            assert member.listener.events == ["assigned"]
            assert member.membership.group_metadata.generation_id == generation

    on_broker(test)


@pytest.mark.parametrize("version", range(10))
def test_every_version_that_a_broker_may_offer_will_do(version, monkeypatch):
    caps = {
        JOIN_GROUP: version,
        SYNC_GROUP: min(version, 5),
        HEARTBEAT: min(version, 4),
        LEAVE_GROUP: min(version, 5),
        10: min(version, 6),
    }
    negotiate = Peer.negotiate

    async def negotiate_old(self):
        await negotiate(self)
        capped = {key: Versions(self.versions[key].first, last) for key, last in caps.items()}
        self.versions = {**self.versions, **capped}

    async def test(broker):
        monkeypatch.setattr(Peer, "negotiate", negotiate_old)
        async with driven(broker.bootstrap_server, session_timeout_ms=1000) as member:
            await until(lambda: len(member.has) == 4)
            async with driven(broker.bootstrap_server, session_timeout_ms=1000) as other:
                await until(lambda: len(other.has) == len(member.has) == 2)
                await other.leave()
            await until(lambda: len(member.has) == 4)
            assert not member.errors and not other.errors

    on_broker(test)


def test_nothing_is_left_behind_by_a_member_that_never_polled():
    async def test(broker):
        member = Driven(broker.bootstrap_server)
        assert member.membership.needs_poll
        assert member.membership.group_metadata == ("g", -1, "", None)
        await member.leave()

    on_broker(test)
