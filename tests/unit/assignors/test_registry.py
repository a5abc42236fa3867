import uuid

import pytest

from ottla.assignors import range, uniform
from ottla.assignors.registry import CLIENT_SIDE, client_side, server_side
from ottla.assignors.spec import MemberSpec
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from tests.unit.assignors.groups import group, shares

OWN = "tests.unit.assignors.own"


def test_consumers_have_kafkas_four_by_kafkas_names():
    assert list(CLIENT_SIDE) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [name for name, each in CLIENT_SIDE.items() if each.is_cooperative] == ["cooperative-sticky"]


def test_the_coordinator_has_uniform_and_range_and_the_first_is_its_default():
    assert server_side(["uniform", "range"]) == {"uniform": uniform.assign, "range": range.assign}
    assert next(iter(server_side(["range", "uniform"]))) == "range"


def test_settings_written_for_kafka_name_its_classes():
    consumer, coordinator = "org.apache.kafka.clients.consumer", "org.apache.kafka.coordinator.group.assignor"
    assert list(client_side([f"{consumer}.CooperativeStickyAssignor", f"{consumer}.RangeAssignor"])) == [
        "cooperative-sticky",
        "range",
    ]
    assert list(server_side([f"{coordinator}.UniformAssignor", f"{coordinator}.RangeAssignor"])) == [
        "uniform",
        "range",
    ]


def test_users_bring_their_own():
    assign = client_side([f"{OWN}:first_takes_all"])["first_takes_all"].assign
    assert shares(assign(group(c0="t", c1="t"), {"t": 2})) == {"c0": "t-0 t-1", "c1": ""}


def test_their_own_may_lie_in_a_class_or_be_a_whole_assignor():
    assert list(client_side([f"{OWN}:Family.assign"])) == ["Family.assign"]
    assert client_side([f"{OWN}:NAMED"])["fair"].is_cooperative


def test_their_own_serves_the_coordinator_as_well():
    topic = uuid.UUID(int=1)
    assign = server_side(["uniform", f"{OWN}:first_takes_all"])["first_takes_all"]
    members = {"m": MemberSpec(frozenset([topic]), {})}
    assert assign(members, {topic: 1}) == {"m": {topic: frozenset({0})}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "fairest",
            "there are range, roundrobin, sticky, cooperative-sticky, and your own as package.module:name",
        ),
        ("", "is no assignor"),
        (":name", "is no assignor"),
        ("module:", "is no assignor"),
        ("no.such.module:name", "cannot be loaded: ModuleNotFoundError"),
        ("..relative:name", "cannot be loaded: TypeError"),
        (f"{OWN}:missing", "cannot be loaded: AttributeError"),
        (f"{OWN}:NOT_CALLABLE", "cannot be called: it is of type int"),
    ],
)
def test_one_that_cannot_be_had_is_a_mistake_in_the_settings(text, why):
    with pytest.raises(ConfigError, match=why):
        client_side([text])
    with pytest.raises(ConfigError):
        server_side([text])


def test_consumers_assignors_are_not_the_coordinators():
    with pytest.raises(ConfigError, match="there are uniform, range"):
        server_side(["sticky"])


def test_two_of_one_name_could_not_be_told_apart():
    with pytest.raises(ConfigError, match="'range'"):
        server_side(["range", "org.apache.kafka.coordinator.group.assignor.RangeAssignor"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raises", "failed: LookupError: lost my way"),
        ("returns_nothing", "failed: AttributeError"),
        ("gives_twice", "assigned partition 0 of topic t twice"),
        ("invents_a_partition", "assigned partition 99 of topic t, which does not exist"),
        ("invents_a_member", "assigned to 'nobody', which is no member"),
        ("ignores_subscriptions", "gave 'c0' the topic unwanted, to which it is not subscribed"),
    ],
)
def test_what_it_gets_wrong_does_not_get_into_the_group(name, why):
    assign = client_side([f"{OWN}:{name}"])[name].assign
    with pytest.raises(KafkaError, match=why) as caught:
        assign(group(c0="t", c1="t"), {"t": 1, "unwanted": 1})
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
