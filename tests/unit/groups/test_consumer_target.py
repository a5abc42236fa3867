"""Topics of a group, their hash, and who shall have what."""

import uuid

import pytest

from ottla.assignors import range as range_assignor
from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_member import Member
from ottla.groups.consumer_target import (
    assignors,
    check_assignor,
    metadata_hash,
    preferred_assignor,
    targets_for,
    topics_of,
)
from tests.unit.groups.consumer_hosting import World

BOTH = ("uniform", "range")


def reads(name, *topics, **given):
    return Member(name, topic_names=frozenset(topics), **given)


@pytest.fixture
def world():
    return World(orders=2, payments=1)


def test_the_hash_is_the_same_for_ever():
    """It is in logs: whoever changes this starts an epoch in every group of every cluster."""
    world = World(orders=2)
    image = world.topics.topics["orders"]._replace(topic_id=uuid.UUID(int=1))
    world.topics.topics["orders"] = image
    assert metadata_hash(["orders"], world.topics) == FOREVER
    assert metadata_hash([], world.topics) == metadata_hash(["unknown"], world.topics) == 0


FOREVER = -3087131513352028825


def test_the_hash_changes_with_what_the_group_reads_and_with_nothing_else(world):
    seen = {metadata_hash(["orders"], world.topics)}
    assert metadata_hash(["orders", "unknown"], world.topics) in seen
    world.make_topic("payments", 5)
    assert metadata_hash(["orders"], world.topics) in seen
    seen.add(metadata_hash(["orders", "payments"], world.topics))
    world.make_topic("orders", 3)
    seen.add(metadata_hash(["orders"], world.topics))
    world.delete_topic("orders")
    world.make_topic("orders", 3)
    seen.add(metadata_hash(["orders"], world.topics))
    assert len(seen) == 4
    assert metadata_hash(["payments", "orders"], world.topics) == metadata_hash(
        ["orders", "payments"], world.topics
    )
    assert all(-(1 << 63) <= one < 1 << 63 for one in seen)


def test_topics_are_names_and_what_patterns_stand_for():
    members = [reads("a", "x"), reads("b", "x", "y"), reads("c", topic_regex="z.*")]
    assert topics_of(members, lambda regex: frozenset({"zz"})) == {"x", "y", "zz"}


def test_targets_are_for_topics_that_exist(world):
    members = {one.id: one for one in (reads("a", "orders", "unknown"), reads("b", topic_regex="pay.*"))}
    targets = targets_for(
        members, {}, lambda regex: frozenset({"payments"}), world.topics, range_assignor.assign
    )
    orders, payments = (world.topics.topics[name].topic_id for name in ("orders", "payments"))
    assert targets == {"a": {orders: frozenset({0, 1})}, "b": {payments: frozenset({0})}}


def test_most_votes_win_and_a_draw_is_for_the_first_in_the_settings():
    def preferred(*names):
        members = [Member(str(at), assignor=name) for at, name in enumerate(names)]
        return preferred_assignor(members, BOTH)

    assert preferred() == preferred(None) == "uniform"
    assert preferred("range") == preferred("range", None, None) == "range"
    assert preferred("range", "uniform") == "uniform"
    assert preferred("gone", "gone", "range") == "range", "an assignor that the settings lost has no votes"


def test_assignors_that_the_broker_lacks_are_refused():
    check_assignor(None, BOTH)
    check_assignor("range", BOTH)
    with pytest.raises(KafkaError, match="uniform, range") as caught:
        check_assignor("best", BOTH)
    assert caught.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert list(assignors(BOTH)) == list(BOTH)
