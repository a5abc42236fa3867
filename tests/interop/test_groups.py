"""Consumer groups of real clients, in the classic protocol: members come, leave, die and come back."""

import pytest

from tests.interop.brokers import eventually
from tests.interop.clients.members import TIMEOUTS, members_of
from tests.interop.features import feature
from tests.interop.group_life import PARTITIONS, GroupLife, members_come_go_and_die, told

CLASSIC = {key.replace(".", "_"): value for key, value in TIMEOUTS.items()}


@pytest.fixture
def life(control, bootstrap_server, new_topic, connected):
    """Makes a group on a topic of its own; `clients` are those that will be members."""
    with members_of(bootstrap_server) as join:

        def make(*clients):
            for name in clients:
                connected(name)  # which fetches and compiles what is missing, or skips
            topic = new_topic(partitions=PARTITIONS)
            return GroupLife(control, join, topic, f"group-of-{topic}")

        yield make


@feature("Members come, go and die")
def test_members_come_go_and_die(life, client_name):
    members_come_go_and_die(life(client_name), client_name, **CLASSIC)


@feature("Cooperative rebalancing")
def test_cooperative_members_keep_what_they_have(life, client_name):
    group = life(client_name)
    how = {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"}
    first, second = group.join(client_name, **how), group.join(client_name, **how)
    group.has_settled(3, 3)
    group.reads()
    before = first.assignment, second.assignment
    third = group.join(client_name, **how)
    group.has_settled(2, 2, 2)
    assert first.assignment < before[0] and second.assignment < before[1]
    group.reads(commit=[first, third])
    before = first.assignment, third.assignment
    group.kill(second)
    group.has_settled(3, 3)
    assert first.assignment > before[0] and third.assignment > before[1]
    group.reads()


@feature("Static members")
def test_a_static_member_that_restarts_disturbs_nobody(life, client_name):
    group = life(client_name)
    first = group.join(client_name, **CLASSIC, group_instance_id="first")
    second = group.join(client_name, **CLASSIC, group_instance_id="second")
    group.has_settled(3, 3)
    group.reads()
    before, rebalances = first.assignment, second.rebalances
    group.kill(first)
    first = group.join(client_name, **CLASSIC, group_instance_id="first")
    group.has_settled(3, 3)
    group.reads()
    assert first.assignment == before
    assert second.rebalances == rebalances, "a member that stayed was made to join again"


@pytest.mark.usefixtures("coordinators")
@pytest.mark.parametrize("name", ["confluent-kafka", "java", "java-3.9", "ottla"])
def test_a_second_owner_of_an_instance_id_fences_the_first(life, name):
    """Those of the other clients take no notice."""
    group = life(name)
    first = group.join(name, **CLASSIC, group_instance_id="only")
    group.has_settled(6)
    group.reads()
    group.members.remove(first)
    group.join(name, **CLASSIC, group_instance_id="only")
    group.has_settled(6)
    assert eventually(lambda: first.failures), first
    group.reads()


@pytest.mark.usefixtures("coordinators")
def test_clients_of_different_makes_share_a_group(life):
    names = ["confluent-kafka", "java", "kafka-python", "aiokafka", "ottla"]
    group = life(*names)
    for name in names:
        group.join(name, **CLASSIC, partition_assignment_strategy="range")
    group.has_settled(2, 1, 1, 1, 1)
    group.reads()
    librdkafka, java, *_, ours = group.members
    group.close(ours)
    group.has_settled(2, 2, 1, 1)
    group.reads()
    group.close(librdkafka)
    group.has_settled(2, 2, 2)
    group.reads()
    group.close(java)
    group.has_settled(3, 3)
    group.reads()


@pytest.mark.usefixtures("coordinators")
@pytest.mark.parametrize("other", ["confluent-kafka", "java"])
@pytest.mark.parametrize("ours_comes_first", [True, False], ids=["led by us", "led by the other"])
def test_cooperative_members_of_ours_and_of_others_share_a_group(life, other, ours_comes_first):
    """Who comes first leads, and so assigns: from what the other says that it has."""
    names = ["ottla", other] if ours_comes_first else [other, "ottla"]
    group = life(*names)
    how = {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"}
    first = group.join(names[0], **how)
    group.has_settled(6)
    group.reads()
    second = group.join(names[1], **how)
    group.has_settled(3, 3)
    group.reads()
    before = first.assignment, second.assignment
    third = group.join("ottla", **how)
    group.has_settled(2, 2, 2)
    assert first.assignment < before[0] and second.assignment < before[1]
    group.reads()
    before = second.assignment, third.assignment
    group.close(first)  # whoever leads next knows what the others have
    group.has_settled(3, 3)
    assert second.assignment > before[0] and third.assignment > before[1]
    group.reads()


@pytest.mark.usefixtures("coordinators")
@pytest.mark.parametrize("name", ["confluent-kafka", "ottla"])
def test_a_group_finds_partitions_that_are_added_to_its_topic(life, control, name):
    group = life(name)
    member = group.join(name, **CLASSIC)
    group.has_settled(6)
    control.create_partitions(group.topic, PARTITIONS + 2)
    assert eventually(lambda: len(member.assignment) == PARTITIONS + 2), told(group.members)
