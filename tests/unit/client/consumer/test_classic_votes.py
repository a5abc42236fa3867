"""What members of classic groups vote for."""

import pytest

from ottla.assignors import range as range_assignor
from ottla.assignors.exchange import decode_subscription, specs
from ottla.assignors.registry import CLIENT_SIDE, Assignor
from ottla.assignors.spec import MemberSpec
from ottla.assignors.user_data import Claim, decode_sticky
from ottla.client.consumer.classic_votes import grouped, read_votes
from ottla.core.errors import ConfigError, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import JoinGroupResponse

JAVA = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def everything_to_the_first(members, partition_counts):
    """An assignor of a user."""
    first = min(members)
    return {first: {topic: range(partition_counts[topic]) for topic in members[first].subscribed}}


class FirstComeFirstServed:
    name = "first-come"
    is_cooperative = True

    def assign(self, members, partition_counts):
        return everything_to_the_first(members, partition_counts)


class RangePartitionAssignor:
    """As kafka-python has it."""

    name = "range"


RangePartitionAssignor.__module__ = "kafka.coordinator.assignors.range"


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        ("range", ["range"]),
        ("sticky, roundrobin", ["sticky", "roundrobin"]),
        (["range", JAVA], ["range", "cooperative-sticky"]),
        (CLIENT_SIDE["sticky"], ["sticky"]),
        ((CLIENT_SIDE["range"], "sticky"), ["range", "sticky"]),
        (f"{__name__}:everything_to_the_first", ["everything_to_the_first"]),
        (everything_to_the_first, ["everything_to_the_first"]),
        ([FirstComeFirstServed], ["first-come"]),
        ([FirstComeFirstServed()], ["first-come"]),
        (Assignor("own", everything_to_the_first), ["own"]),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_assignors_may_be_written_in_many_ways(strategy, names):
    assert list(read_votes(strategy).assignors) == names


def test_assignors_of_kafka_python_mean_ours_of_the_same_name():
    assert read_votes([RangePartitionAssignor]).assignors["range"] is CLIENT_SIDE["range"]


@pytest.mark.parametrize("strategy", ["", [], "range,range", "nearest", [42], None], ids=str)
def test_what_is_no_assignor_is_named(strategy):
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
        read_votes(strategy)


@pytest.mark.parametrize(
    ("strategy", "is_cooperative"),
    [
        ("range", False),
        ("cooperative-sticky", True),
        (["range", "cooperative-sticky"], False),
        ([FirstComeFirstServed, "cooperative-sticky"], True),
    ],
    ids=str,
)
def test_a_member_is_cooperative_if_all_its_assignors_are(strategy, is_cooperative):
    assert read_votes(strategy).is_cooperative is is_cooperative


def test_eager_assignors_remember_and_cooperative_ones_hold_on():
    votes = read_votes("sticky,cooperative-sticky,range")
    owned, given = Claim({"t": frozenset({1})}, 4), Claim({"t": frozenset({1, 2})}, 3)
    said = {
        each.name: decode_subscription(each.metadata) for each in votes.protocols({"t"}, owned, given, "rack")
    }
    assert decode_sticky(said["sticky"].user_data) == given
    assert said["sticky"].owned_partitions == said["range"].owned_partitions == []
    assert [each.partitions for each in said["cooperative-sticky"].owned_partitions] == [[1]]
    assert said["cooperative-sticky"].generation_id == 4
    assert {each.rack_id for each in said.values()} == {"rack"}
    assert all(each.topics == ["t"] for each in said.values())


def test_a_strangers_cooperative_assignor_never_gives_a_partition_two_readers():
    assignor = read_votes([FirstComeFirstServed]).assignors["first-come"]
    wants = frozenset({"t"})
    members = {
        "a": MemberSpec(wants, {"t": frozenset({0})}, generation_id=2),
        "b": MemberSpec(wants, {"t": frozenset({1})}, generation_id=2),
    }
    assert assignor.assign(members, {"t": 3}) == {"a": {"t": {0, 2}}, "b": {}}
    assert assignor.assign({**members, "b": members["b"]._replace(current={})}, {"t": 3})["a"] == {
        "t": {0, 1, 2}
    }


def test_what_members_own_is_seen_by_a_strangers_cooperative_assignor():
    votes = read_votes([FirstComeFirstServed])
    (vote,) = votes.protocols({"t"}, Claim({"t": frozenset({1})}, 4), Claim({}), None)
    joined = [JoinGroupResponse.Member(member_id="a", metadata=vote.metadata)]
    assert specs(votes.assignors["first-come"], joined)["a"].current == {"t": {1}}


def test_a_strangers_mistake_is_an_answer():
    def mistaken(members, partition_counts):
        return {"nobody": {}}

    assignor = read_votes(mistaken).assignors["mistaken"]
    with pytest.raises(KafkaError, match="no member"):
        assignor.assign({"a": MemberSpec(frozenset({"t"}), {})}, {"t": 1})


def test_partitions_are_grouped_by_topic():
    listed = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert grouped(listed) == {"a": {0}, "b": {0, 1}}
    assert read_votes("range").assignors["range"].assign is range_assignor.assign
