"""Members by id and instance id, the leader, and the vote; counts against counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_member import ClassicMember, Supported
from ottla.groups.classic_roster import Roster, elected_protocol
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription
from tests.unit.groups.hosting import Slip


def member(member_id, *names, instance=None):
    protocols = tuple(Supported(name, b"") for name in names or ("range",))
    return ClassicMember(member_id, instance, "c", "h", 1_000, 1_000, "consumer", protocols)


def test_the_first_to_join_leads_and_the_next_one_inherits():
    roster = Roster()
    for one in "abc":
        roster.add(member(one))
    assert roster.leader_id == "a"
    roster.remove("a")
    assert roster.leader_id == "b"
    roster.remove("b"), roster.remove("c")
    assert roster.leader_id is None


def test_an_instance_id_is_held_by_one_member():
    roster = Roster()
    roster.add(member("a", instance="i"))
    assert roster.check("a", "i").member_id == roster.check("a", None).member_id == "a"
    for ids, code in (
        (("b", "i"), ErrorCode.FENCED_INSTANCE_ID),
        (("a", "j"), ErrorCode.UNKNOWN_MEMBER_ID),
        (("b", None), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as caught:
            roster.check(*ids)
        assert caught.value.code == code
    roster.replace("a", member("b", instance="i"))
    assert roster.id_of("i") == "b" and roster.leader_id == "b"


def test_only_members_that_joined_are_elected():
    roster = Roster()
    for one in "abc":
        roster.add(member(one))
    assert not roster.elect() and roster.leader_id == "a"
    roster.hold_join(roster.members["c"], Slip(), 9)
    assert roster.elect() and roster.leader_id == "c"
    roster.hold_join(roster.members["a"], Slip(), 9)
    assert roster.elect() and roster.leader_id == "c"


def test_names_that_nobody_supports_any_more_are_forgotten():
    roster = Roster()
    roster.add(member("a"))
    for number in range(100):
        roster.change(roster.members["a"], (Supported(f"protocol-{number}", b""),), 1, 1)
    assert len(roster._supporters) == 1


@pytest.mark.parametrize(
    ("wishes", "elected"),
    [
        ([["range"]], "range"),
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["range", "sticky"], ["sticky"]], "sticky"),
        ([["modern", "range", "sticky"], ["range", "sticky"], ["sticky", "range"]], "range"),
        ([["range", "sticky"], ["sticky", "range"]], "range"),
    ],
)
def test_members_vote_for_their_favourite_among_what_all_support(wishes, elected):
    assert elected_protocol([member(str(n), *names) for n, names in enumerate(wishes)]) == elected


NAMES = st.lists(st.sampled_from(["range", "sticky", "modern"]), min_size=1, max_size=3, unique=True)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["add", "remove", "change", "hold"]), NAMES))
)
def test_counts_are_those_of_counting(steps):
    roster = Roster()
    for who, what, names in steps:
        here = roster.members.get(who)
        if what == "add" and here is None:
            roster.add(member(who, *names))
        elif what == "remove":
            roster.remove(who)
        elif what == "change" and here is not None:
            roster.change(here, tuple(Supported(name, b"") for name in names), 1, 1)
        elif what == "hold" and here is not None:
            roster.hold_join(here, Slip(), 9)
            if len(names) == 1:
                roster.release_join(here)
        assert roster.joined_count == sum(one.join_ticket is not None for one in roster)
        for name in ("range", "sticky", "modern"):
            by_all = all(name in [each.name for each in one.protocols] for one in roster)
            assert roster.supports_any([name]) == by_all
        assert (roster.leader_id in roster.members) if roster.members else roster.leader_id is None


def reader(member_id, *topics, instance=None):
    message = ConsumerProtocolSubscription(topics=list(topics), user_data=None)
    protocols = (Supported("range", encode_versioned(message, 0)),)
    return ClassicMember(member_id, instance, "c", "h", 1_000, 1_000, "consumer", protocols)


def test_what_members_read_is_known_after_every_change():
    roster = Roster()
    assert not roster.subscribes_to("a")
    roster.add(reader("1", "a"))
    assert roster.subscribes_to("a") and not roster.subscribes_to("b")
    roster.add(reader("2", "b", instance="i"))
    assert roster.subscribes_to("a") and roster.subscribes_to("b")
    roster.replace("2", reader("3", "c", instance="i"))
    assert roster.subscribes_to("c") and not roster.subscribes_to("b")
    roster.change(roster.members["3"], reader("3", "d").protocols, 1, 1)
    assert roster.subscribes_to("d") and not roster.subscribes_to("c")
    roster.remove("1")
    assert not roster.subscribes_to("a")
    roster.settle([member("4")], None)
    assert roster.subscribes_to("anything"), "what cannot be read may be anything"
    roster.settle([], None)
    assert not roster.subscribes_to("d")


def test_subscriptions_are_read_once_and_not_for_every_topic(monkeypatch):
    reads = []
    topics = ClassicMember.topics
    monkeypatch.setattr(ClassicMember, "topics", lambda self: reads.append(self) or topics(self))
    roster = Roster()
    for name in "abc":
        roster.add(reader(name, "orders"))
    assert [roster.subscribes_to(f"topic-{number}") for number in range(100)] == [False] * 100
    assert len(reads) == 3
