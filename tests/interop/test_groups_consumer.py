"""Consumer groups of real clients, in the consumer protocol (KIP-848): the broker decides who has what."""

import pytest

from tests.interop.brokers import eventually
from tests.interop.clients.client import Record
from tests.interop.clients.members import TIMEOUTS, members_of
from tests.interop.features import feature
from tests.interop.group_life import PARTITIONS, GroupLife, members_come_go_and_die, told

CLASSIC = {"group_protocol": "classic", **{key.replace(".", "_"): value for key, value in TIMEOUTS.items()}}
CONSUMER = {"group_protocol": "consumer"}


@pytest.fixture
def join(bootstrap_server):
    with members_of(bootstrap_server) as join:
        yield join


@pytest.fixture
def life(control, join, new_topic, connected):
    """Makes a group on a topic of its own; `clients` are those that will be members."""

    def make(*clients):
        for name in clients:
            connected(name)  # which fetches and compiles what is missing, or skips
        topic = new_topic(partitions=PARTITIONS)
        return GroupLife(control, join, topic, f"group-of-{topic}")

    return make


@feature("Consumer protocol")
def test_members_come_go_and_die(life, client_name):
    members_come_go_and_die(life(client_name), client_name, **CONSUMER)


@pytest.mark.usefixtures("consumer_protocol")
@pytest.mark.parametrize("name", ["confluent-kafka", "ottla"])
def test_members_may_ask_for_another_assignor(life, name):
    how = {**CONSUMER, "group_remote_assignor": "range"}
    group = life(name)
    members = [group.join(name, **how) for _ in range(3)]
    group.has_settled(2, 2, 2)
    runs = sorted(sorted(number for _, number in each.assignment) for each in members)
    assert runs == [[0, 1], [2, 3], [4, 5]]
    group.reads()


@feature("Consumer protocol")
def test_a_static_member_that_restarts_disturbs_nobody(life, client_name):
    group = life(client_name)
    first = group.join(client_name, **CONSUMER, group_instance_id="first")
    second = group.join(client_name, **CONSUMER, group_instance_id="second")
    group.has_settled(3, 3)
    group.reads()
    before, rebalances = first.assignment, second.rebalances
    group.close(first)
    first = group.join(client_name, **CONSUMER, group_instance_id="first")
    group.has_settled(3, 3)
    group.reads()
    assert first.assignment == before
    assert second.rebalances == rebalances, "a member that stayed was given partitions anew"


@feature("Topics by a pattern that the broker matches")
def test_a_pattern_finds_topics_that_are_and_topics_that_come(
    control, join, new_topic, client_name, connected
):
    connected(client_name)
    topic = new_topic(partitions=2)
    group = f"pattern-{topic}"
    member = join(client_name, group, [], pattern=f"{topic}(-late)?", **CONSUMER)
    assert eventually(lambda: member.assignment == {(topic, 0), (topic, 1)}), member
    control.create_topic(f"{topic}-late", 1, {})
    control.create_topic(f"{topic}-other", 1, {})
    assert eventually(lambda: (f"{topic}-late", 0) in member.assignment), member
    assert eventually(lambda: control.is_led(f"{topic}-late", 1))
    control.produce(f"{topic}-late", [Record(0, None, b"found")])
    control.produce(topic, [Record(1, None, b"found too")])
    assert eventually(lambda: len(member.seen) == 2), member
    assert {each.value for each in member.seen} == {"found", "found too"}
    assert {name for name, _ in member.assignment} == {topic, f"{topic}-late"}


@pytest.mark.usefixtures("consumer_protocol")
@pytest.mark.parametrize(
    ("classic", "consumer"),
    [
        ("java", "java"),
        ("confluent-kafka", "confluent-kafka"),
        ("java", "confluent-kafka"),
        ("java-3.9", "java"),
        ("ottla", "ottla"),
        ("ottla", "java"),
        ("java", "ottla"),
        ("confluent-kafka", "ottla"),
    ],
)
def test_a_group_is_upgraded_and_downgraded_while_it_reads(life, control, classic, consumer):
    group = life(classic, consumer)
    old = group.join(classic, **CLASSIC)
    group.has_settled(6)
    group.reads()
    assert control.group_type(group.group) == "CLASSIC"
    new = group.join(consumer, **CONSUMER)
    group.has_settled(3, 3)
    assert control.group_type(group.group) == "CONSUMER"
    group.reads()
    group.close(new)
    group.has_settled(6)
    assert control.group_type(group.group) == "CLASSIC"
    group.reads()
    new = group.join(consumer, **CONSUMER)
    group.has_settled(3, 3)
    group.close(old)
    group.has_settled(6)
    assert control.group_type(group.group) == "CONSUMER"
    group.reads()


@pytest.mark.usefixtures("consumer_protocol")
def test_clients_of_different_makes_share_a_group(life):
    group = life("confluent-kafka", "java", "ottla")
    librdkafka, ours = group.join("confluent-kafka", **CONSUMER), group.join("ottla", **CONSUMER)
    group.join("java", **CONSUMER)
    group.has_settled(2, 2, 2)
    group.reads()
    group.close(librdkafka)
    group.has_settled(3, 3)
    group.reads()
    group.close(ours)
    group.has_settled(6)
    group.reads()


@pytest.mark.usefixtures("consumer_protocol")
@pytest.mark.parametrize("name", ["confluent-kafka", "ottla"])
def test_a_group_finds_partitions_that_are_added_to_its_topic(life, control, name):
    group = life(name)
    member = group.join(name, **CONSUMER)
    group.has_settled(6)
    control.create_partitions(group.topic, PARTITIONS + 2)
    assert eventually(lambda: len(member.assignment) == PARTITIONS + 2), told(group.members)
