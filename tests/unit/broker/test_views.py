"""The cluster as a listener shows it, and what is kept of it between requests."""

import gc
import weakref

import pytest

from ottla.broker import views
from ottla.broker.metadata import Metadata
from ottla.broker.views import views_of
from ottla.core.errors import ErrorCode
from tests.unit.broker.handlers.fakes import LISTENER, node, topic


def metadata_with(*topics, nodes):
    metadata = Metadata("cluster-1")
    metadata.update(topics=topics, brokers=nodes, controller_id=1)
    return metadata


def shown(image, version, *nodes, listener=LISTENER):
    return views_of(metadata_with(image, nodes=nodes), listener, version).topic(image).partitions[0]


@pytest.mark.parametrize("version", range(14))
def test_a_partition_without_a_leader_says_so(version):
    found = shown(topic("a", leader=-1), version, node(1))
    assert (found.error_code, found.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", range(14))
def test_a_leader_that_is_dead_is_no_leader(version):
    found = shown(topic("a", leader=2, replicas=(2, 1)), version, node(1))
    assert (found.error_code, found.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert found.offline_replicas == [2]


@pytest.mark.parametrize("version", range(14))
def test_a_leader_without_the_listener_is_named_as_such_since_v6(version):
    found = shown(
        topic("a", leader=2, replicas=(2,)), version, node(1, "OUTSIDE"), node(2), listener="OUTSIDE"
    )
    assert found.leader_id == -1
    assert found.error_code == (
        ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    )


def test_clients_of_v0_are_not_told_of_replicas_that_they_cannot_reach():
    image = topic("a", replicas=(1, 2), isr=(1, 2))
    old, new = shown(image, 0, node(1)), shown(image, 1, node(1))
    assert (old.error_code, old.replica_nodes, old.isr_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1], [1])
    assert (new.error_code, new.replica_nodes, new.isr_nodes) == (ErrorCode.NONE, [1, 2], [1, 2])


def test_a_replica_that_lost_its_disk_is_offline_though_its_broker_lives():
    assert shown(topic("a", replicas=(1, 2), offline=(2,)), 12, node(1), node(2)).offline_replicas == [2]


def test_a_topic_is_built_once_and_anew_when_it_changes():
    first, second = topic("a"), topic("a", 2)
    metadata = metadata_with(first, nodes=[node(1)])
    built = views_of(metadata, LISTENER, 12).topic(first)
    assert views_of(metadata, LISTENER, 13).topic(first) is built
    assert len(views_of(metadata, LISTENER, 12).topic(second).partitions) == 2


def test_topics_are_built_anew_when_the_brokers_change():
    image = topic("a")
    metadata = metadata_with(image, nodes=[node(1)])
    assert views_of(metadata, LISTENER, 12).topic(image).partitions[0].leader_id == 1
    metadata.update(brokers=[node(2)])
    assert views_of(metadata, LISTENER, 12).topic(image).partitions[0].leader_id == -1


def test_deleted_topics_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(views, "_STALE_MAX", 10)
    metadata = metadata_with(nodes=[node(1)])
    for number in range(100):
        image = topic(f"short-lived-{number}")
        metadata.update(topics=[image])
        views_of(metadata, LISTENER, 12).topic(image)
        metadata.update(deleted=[image.name])
    assert len(views_of(metadata, LISTENER, 12)._topics) <= 11


def test_nothing_is_kept_of_a_cluster_that_is_gone():
    metadata = metadata_with(topic("a"), nodes=[node(1)])
    kept = weakref.ref(views_of(metadata, LISTENER, 12))
    del metadata
    gc.collect()
    assert kept() is None
