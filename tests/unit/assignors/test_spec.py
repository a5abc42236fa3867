import uuid

from ottla.assignors.spec import in_order, java_order, sorted_topics, subscribed_topics
from tests.unit.assignors.groups import group, member


def test_static_members_come_first_and_by_their_instance_id():
    members = {
        "z": member("t", instance_id="i1"),
        "b": member("t"),
        "y": member("t", instance_id="i0"),
        "a": member("t"),
    }
    assert in_order(members) == ["y", "z", "a", "b"]


def test_strings_are_sorted_by_utf_16_units_as_java_does():
    emoji, late = "\U0001f600", "\uffee"
    assert emoji > late, "by code points, as Python does, it is the other way round"
    assert sorted([late, emoji], key=java_order) == [emoji, late]
    assert sorted_topics([late, emoji]) == [emoji, late]


def test_half_a_surrogate_pair_can_be_sorted():
    assert sorted(["\ud83d", "a"], key=java_order) == ["a", "\ud83d"]


def test_only_topics_that_exist_and_are_wanted_are_dealt_with():
    members = group(c0="b gone empty", c1="a b")
    assert subscribed_topics(members, {"a": 1, "b": 2, "unwanted": 3, "empty": 0}) == ["a", "b"]


def test_topics_may_be_known_by_their_ids():
    ids = [uuid.UUID(int=number) for number in (3, 1, 2)]
    assert sorted_topics(ids) == sorted(ids)
