"""Our assignors against Apache Kafka's: the same results where they are determined, and no worse ones elsewhere."""

import random
import uuid
from collections.abc import Mapping

import pytest

from ottla.assignors import exchange
from ottla.assignors.registry import CLIENT_SIDE, SERVER_SIDE
from ottla.assignors.spec import Assignment, MemberSpec, T
from ottla.assignors.user_data import Claim
from ottla.protocol.messages.groups import JoinGroupResponse
from tests.oracles import java_assignors
from tests.oracles.java_assignors import Joined, Target

GROUP_COUNT = 400
ROUNDS_OF_KAFKA = 4  # where wishes differ its second round may begin to move other partitions


def random_members(source: random.Random, partition_counts: Mapping[T, int]) -> dict[str, MemberSpec[T]]:
    """A group that has just changed: members want the same or not, and have a lot, little or nothing."""
    names = list(dict.fromkeys(f"m{source.randrange(1000)}" for _ in range(source.randint(1, 8))))
    topics = list(partition_counts)
    common = source.sample(topics, source.randint(1, len(topics)))
    all_want_the_same = source.random() < 0.4
    owners = source.choice([names, [*names, None], names[: 1 + len(names) // 2], [None]])
    owner_of = {
        (topic, each): source.choice(owners)
        for topic, count in partition_counts.items()
        for each in range(count)
    }
    members = {}
    for name in names:
        wanted = common if all_want_the_same else source.sample(topics, source.randint(1, len(topics)))
        had = {
            topic: frozenset(each for (of, each), owner in owner_of.items() if of == topic and owner == name)
            for topic in wanted
        }
        members[name] = MemberSpec(
            frozenset(wanted),
            {topic: partitions for topic, partitions in had.items() if partitions},
            source.choice([None, f"i{source.randrange(10**6)}"]),
            generation_id=3,
        )
    return members


def random_joined(source: random.Random, name: str) -> Joined:
    partition_counts = {f"t{number}": source.randint(1, 8) for number in range(source.randint(1, 5))}
    members = [
        JoinGroupResponse.Member(
            member_id=member_id,
            group_instance_id=member.instance_id,
            metadata=exchange.subscription_of(
                CLIENT_SIDE[name], member.subscribed, Claim(member.current, member.generation_id)
            ),
        )
        for member_id, member in random_members(source, partition_counts).items()
    ]
    return Joined(name, members, partition_counts)


def random_target(source: random.Random, name: str) -> Target:
    partition_counts = {uuid.UUID(int=number): source.randint(1, 8) for number in range(source.randint(1, 5))}
    return Target(name, random_members(source, partition_counts), partition_counts)


def unevenness(assignment: Assignment[T]) -> int:
    return sum(sum(map(len, share.values())) ** 2 for share in assignment.values())


def kept_count(assignment: Assignment[T], members: Mapping[str, MemberSpec[T]]) -> int:
    return sum(
        len(assignment[member_id].get(topic, frozenset()) & partitions)
        for member_id, member in members.items()
        for topic, partitions in member.current.items()
    )


def assign(group: Joined) -> Assignment[str]:
    assignments = exchange.assign_group(CLIENT_SIDE[group.assignor], group.members, group.partition_counts)
    return {each.member_id: exchange.decode_assignment(each.assignment) for each in assignments}


def expect_no_worse(ours: Assignment[T], theirs: Assignment[T], members: Mapping[str, MemberSpec[T]]) -> None:
    """More even, or as even with no more moves."""
    score = (unevenness(ours), -kept_count(ours, members))
    assert score <= (unevenness(theirs), -kept_count(theirs, members)), (members, ours, theirs)


@pytest.mark.parametrize("kafka", java_assignors.KAFKAS)
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_round_robin_assign_as_kafkas_consumer_does(name, kafka):
    source = random.Random(f"{name} {kafka}")
    groups = [random_joined(source, name) for _ in range(GROUP_COUNT)]
    for group, theirs in zip(groups, java_assignors.ask_consumer(kafka, groups), strict=True):
        assert assign(group) == theirs, group


@pytest.mark.parametrize("kafka", java_assignors.KAFKAS)
def test_sticky_is_as_even_as_kafkas_and_moves_no_more(kafka):
    source = random.Random(kafka)
    groups = [random_joined(source, "sticky") for _ in range(GROUP_COUNT)]
    for group, theirs in zip(groups, java_assignors.ask_consumer(kafka, groups), strict=True):
        expect_no_worse(assign(group), theirs, exchange.specs(CLIENT_SIDE["sticky"], group.members))


@pytest.mark.parametrize("kafka", java_assignors.KAFKAS)
def test_cooperative_sticky_settles_in_two_rounds_and_is_then_as_even_as_kafkas(kafka):
    source = random.Random(kafka)
    groups = [random_joined(source, "cooperative-sticky") for _ in range(GROUP_COUNT)]
    joined = groups
    for _ in range(ROUNDS_OF_KAFKA):
        theirs = java_assignors.ask_consumer(kafka, joined)
        joined = list(map(next_round, joined, theirs))
    for group, their_end in zip(groups, theirs, strict=True):
        specs = exchange.specs(CLIENT_SIDE["cooperative-sticky"], group.members)
        ours = assign(next_round(group, assign(group)))
        assert partition_count(ours) == partition_count(their_end), "nothing is withheld any more"
        expect_no_worse(ours, their_end, specs)


def partition_count(assignment: Assignment[str]) -> int:
    return sum(len(partitions) for share in assignment.values() for partitions in share.values())


def next_round(group: Joined, assignment: Assignment[str]) -> Joined:
    """Everybody has given up what it was not given, and joins again."""
    assignor = CLIENT_SIDE[group.assignor]
    members = [
        JoinGroupResponse.Member(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            metadata=exchange.subscription_of(
                assignor,
                exchange.decode_subscription(each.metadata).topics,
                Claim(assignment[each.member_id], 4),
            ),
        )
        for each in group.members
    ]
    return group._replace(members=members)


def test_range_assigns_as_kafkas_coordinator_does():
    source = random.Random(848)
    groups = [random_target(source, "range") for _ in range(GROUP_COUNT)]
    for group, theirs in zip(groups, java_assignors.ask_coordinator("4.3.1", groups), strict=True):
        assert SERVER_SIDE["range"](group.members, group.partition_counts) == theirs, group


def test_uniform_is_as_even_as_kafkas_and_moves_no_more():
    source = random.Random(848)
    groups = [random_target(source, "uniform") for _ in range(GROUP_COUNT)]
    for group, theirs in zip(groups, java_assignors.ask_coordinator("4.3.1", groups), strict=True):
        expect_no_worse(SERVER_SIDE["uniform"](group.members, group.partition_counts), theirs, group.members)
