"""What takes several brokers: replicas on the move, elections, questions that go to each, a controller that dies."""

import time
from collections.abc import Callable, Iterator

import pytest

from ottla.client.admin.blocking import Admin
from ottla.client.admin.config_values import ConfigResource
from ottla.client.admin.partitions import OffsetSpec
from ottla.client.admin.topic_values import ElectionType, NewTopic
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.testing.cluster import Cluster

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"auto.leader.rebalance.enable": "false"}
    with Cluster(nodes=3, racks=["a", "b", "c"], config=config) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def test_the_cluster_has_brokers_on_racks_and_each_answers_for_itself(admin, cluster):
    found = admin.describe_cluster()
    assert [(each.node_id, each.rack) for each in found.brokers] == [(1, "a"), (2, "b"), (3, "c")]
    assert found.controller.node_id == cluster.controller()
    admin.create_topic("spread", 6, 2)
    logs = admin.describe_log_dirs()
    places = [place for paths in logs.values() for each in paths.values() for place in each.replicas]
    assert sorted(place for place in places if place.topic == "spread") == sorted(
        TopicPartition("spread", number) for number in range(6) for _ in range(2)
    )
    ends = admin.list_offsets({TopicPartition("spread", number): OffsetSpec.LATEST for number in range(6)})
    assert [each.offset for each in ends.values()] == [0] * 6
    brokers = [ConfigResource.broker(number) for number in (1, 2, 3)]
    settings = admin.describe_configs(brokers, config_names=["broker.rack"])
    assert [each["broker.rack"].value for each in settings.values()] == ["a", "b", "c"]


def test_groups_of_all_coordinators_are_listed_described_and_deleted(admin):
    admin.create_topic("read", 1, 1)
    groups = [f"group-{number}" for number in range(12)]
    for group in groups:
        admin.alter_group_offsets(group, {TopicPartition("read", 0): 0})
    assert set(groups) <= admin.list_groups().keys()
    described = admin.describe_groups(groups)
    assert len({each.coordinator for each in described.values()}) > 1, "several brokers coordinate"
    admin.delete_groups(groups)
    assert not set(groups) & admin.list_groups().keys()


def test_a_partition_moves_and_its_preferred_replica_is_elected(admin):
    place = TopicPartition("moved", 0)
    admin.create_topics([NewTopic("moved", replica_assignments={0: [1, 2]})])
    admin.alter_partition_reassignments({place: [3, 1]})

    def settled():
        (partition,) = admin.describe_topic("moved").partitions
        return partition.replicas == (3, 1) and set(partition.isr) == {1, 3}

    until(settled)
    assert admin.list_partition_reassignments([place]) == {}
    until(lambda: admin.elect_leaders(ElectionType.PREFERRED, [place]) == {place: False})
    assert admin.describe_topic("moved").partitions[0].leader == 3
    with pytest.raises(PartialFailure) as failed:
        admin.alter_partition_reassignments({place: [3]}, allow_replication_factor_change=False)
    assert failed.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_calls_outlive_the_controller_and_a_dead_leader_is_elected_over(admin, cluster):
    first = cluster.controller()
    rest = [each for each in (1, 2, 3) if each != first]
    place, lonely = TopicPartition("survivor", 0), TopicPartition("lonely", 0)
    admin.create_topics(
        [
            NewTopic("survivor", replica_assignments={0: [first, *rest]}),
            NewTopic("lonely", replica_assignments={0: [first]}),
        ]
    )
    cluster.kill(first)
    admin.create_topic("afterwards", 2, 2)
    until(lambda: admin.describe_topic("survivor").partitions[0].leader in rest)
    with pytest.raises(PartialFailure) as failed:
        admin.elect_leaders(ElectionType.PREFERRED, [place])
    assert failed.value.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    with pytest.raises(PartialFailure) as failed:
        admin.elect_leaders(ElectionType.UNCLEAN, [lonely])
    assert failed.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert admin.describe_topic("lonely").partitions[0].leader == -1
    with pytest.raises(PartialFailure) as failed:
        admin.list_offsets({place: OffsetSpec.LATEST, lonely: OffsetSpec.LATEST}, timeout_ms=2_000)
    assert failed.value.results[place].offset == 0 and str(lonely) in str(failed.value)
    cluster.start(first)
    cluster.wait_until_healthy()
    assert admin.elect_leaders(ElectionType.PREFERRED, [place]) == {place: True}
    assert admin.describe_topic("survivor").partitions[0].leader == first
