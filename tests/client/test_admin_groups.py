"""Groups and their offsets through the admin client, against both servers; members are librdkafka's."""

import contextlib
import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from ottla.client.admin.blocking import Admin
from ottla.client.admin.group_values import GroupType
from ottla.client.errors import PartialFailure, UnsupportedVersionError
from ottla.client.records import OffsetAndMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from tests.interop.brokers import eventually


@pytest.fixture
def admin(server):
    with Admin(bootstrap_servers=server) as client:
        yield client


@contextlib.contextmanager
def member(server, group, topic, **settings):
    """A member that has its partitions, and is polled while the test looks at the group."""
    consumer = Consumer({"bootstrap.servers": server, "group.id": group, "log_level": 0, **settings})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    try:
        while not consumer.assignment():
            assert time.monotonic() < deadline, "nothing was assigned"
            consumer.poll(0.05)
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols_are_described_in_one_shape(admin, server, new_topic, name, protocol):
    topic = new_topic(partitions=2)
    both = frozenset({TopicPartition(topic, 0), TopicPartition(topic, 1)})
    settings = {"group.protocol": protocol, "client.id": "reader", "group.instance.id": "one"}
    with member(server, name, topic, **settings):
        group = admin.describe_group(name, include_authorized_operations=True)
        assert (group.group_id, group.type, group.state) == (name, GroupType(protocol.title()), "Stable")
        assert group.protocol_type == "consumer" and group.assignor in ("range", "uniform")
        (one,) = group.members
        assert (one.client_id, one.group_instance_id, one.assignment) == ("reader", "one", both)
        assert one.subscribed_topics == {topic} and one.member_id and one.client_host
        assert group.coordinator == admin.describe_cluster().brokers[0].node_id
        assert (group.group_epoch is not None) == (protocol == "consumer")
        assert one.target_assignment == (both if protocol == "consumer" else None)
        listing = admin.list_groups(states=["Stable"], types=[group.type], protocol_types=["consumer"])[name]
        assert (listing.type, listing.state) == (group.type, "Stable")
        assert name not in admin.list_groups(states=["Empty"])
        assert name not in admin.list_groups(types=[GroupType.SHARE])
        assert name not in admin.list_groups(protocol_types=["connect"])
    librdkafka = AdminClient({"bootstrap.servers": server, "log_level": 0})
    theirs = librdkafka.list_consumer_groups().result(20).valid
    assert {each.group_id for each in theirs} == admin.list_groups().keys()


def test_a_group_that_is_not_there_is_an_error_that_names_it(admin, new_topic, name):
    place = TopicPartition(new_topic(), 0)
    for call in (
        lambda: admin.describe_group(name),
        lambda: admin.delete_group(name),
        lambda: admin.delete_group_offsets(name, [place]),
        lambda: admin.remove_group_members(name),
    ):
        with pytest.raises(KafkaError, match=name) as error:
            call()
        assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert admin.list_group_offsets(name) == {}


def test_offsets_of_an_empty_group_are_set_listed_and_forgotten(admin, new_topic, name):
    topic = new_topic(partitions=3)
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    admin.alter_group_offsets(name, {first: 5, second: OffsetAndMetadata(7, "a note")})
    wanted = {first: OffsetAndMetadata(5), second: OffsetAndMetadata(7, "a note")}
    assert admin.list_group_offsets(name) == wanted
    assert admin.list_group_offsets(name, [first, third]) == {first: wanted[first], third: None}
    assert admin.list_group_offsets(name, require_stable=True) == wanted
    with pytest.raises(PartialFailure) as failed:
        admin.alter_group_offsets(name, {first: 6, TopicPartition(f"{topic}-nowhere", 0): 1})
    assert failed.value.results[first] is None
    assert failed.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    admin.delete_group_offsets(name, [first])
    assert admin.list_group_offsets(name) == {second: wanted[second]}
    group = admin.describe_group(name)
    assert (group.type, group.state, group.members) == (GroupType.CLASSIC, "Empty", ())
    with pytest.raises(PartialFailure, match="nobody") as failed:
        admin.delete_groups([name, f"nobody-{name}"])
    assert failed.value.results[name] is None
    assert name not in admin.list_groups()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_offsets_of_a_group_that_has_members_are_theirs(admin, server, new_topic, name, protocol):
    topic = new_topic()
    place = TopicPartition(topic, 0)
    with member(server, name, topic, **{"group.protocol": protocol}) as consumer:
        with pytest.raises(KafkaError, match=f"group {name} has members") as error:
            admin.alter_group_offsets(name, {place: 0})
        assert not isinstance(error.value, PartialFailure)
        with pytest.raises(KafkaError, match=name) as error:
            admin.delete_group(name)
        assert error.value.code is ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(PartialFailure) as failed:
            admin.delete_group_offsets(name, [place])
        assert failed.value.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        consumer.poll(0.01)
    assert eventually(lambda: not admin.describe_group(name).members)
    admin.alter_group_offsets(name, {place: 0})
    assert admin.list_group_offsets(name)[place].offset == 0


def test_members_are_removed_by_instance_id_or_all_of_them(admin, server, new_topic, name):
    topic = new_topic()
    settings = {"group.instance.id": "one", "session.timeout.ms": 30_000}
    with member(server, name, topic, **settings):
        pass  # a static member that closes says nothing: the group waits for it
    assert [each.group_instance_id for each in admin.describe_group(name).members] == ["one"]
    with pytest.raises(PartialFailure, match="nobody") as failed:
        admin.remove_group_members(name, ["one", "nobody"], reason="it is gone")
    assert failed.value.results["one"] is None
    assert failed.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert admin.describe_group(name).members == ()
    with member(server, name, topic, **settings):
        admin.remove_group_members(name)
        assert eventually(lambda: not admin.describe_group(name).members)


def test_share_groups_are_described_where_there_are_any(admin, new_topic, name):
    topic = new_topic()
    place = TopicPartition(topic, 0)
    if "share.version" not in admin.describe_features().finalized_features:
        with pytest.raises(UnsupportedVersionError, match="does not offer AlterShareGroupOffsets"):
            admin.alter_share_group_offsets(name, {place: 0})
        with pytest.raises(UnsupportedVersionError, match="does not offer DescribeShareGroupOffsets"):
            admin.list_share_group_offsets(name)
        with pytest.raises(UnsupportedVersionError, match="does not offer DeleteShareGroupOffsets"):
            admin.delete_share_group_offsets(name, [topic])
        return

    def is_altered():
        try:
            admin.alter_share_group_offsets(name, {place: 0})
        except PartialFailure as error:  # the coordinator hears of a new topic later than others
            return error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return True

    assert eventually(is_altered)
    group = admin.describe_group(name)
    assert (group.type, group.state) == (GroupType.SHARE, "Empty")
    assert admin.list_groups(types=["share"])[name].type is GroupType.SHARE
    assert eventually(lambda: admin.list_share_group_offsets(name).get(place))
    assert admin.list_share_group_offsets(name, [place])[place].start_offset == 0
    admin.delete_share_group_offsets(name, [topic])
    admin.delete_group(name)
