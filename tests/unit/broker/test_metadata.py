"""The broker's picture of the cluster."""

import uuid

from ottla.broker.metadata import NO_CONTROLLER, Metadata
from ottla.replication.state import BrokerImage, PartitionState, TopicImage

FIRST, SECOND = uuid.UUID(int=1000), uuid.UUID(int=2000)


def topic(name: str, topic_id: uuid.UUID = FIRST, partitions: int = 1) -> TopicImage:
    states = [PartitionState(name, topic_id, index, 0, 0, 0, (0,), (0,)) for index in range(partitions)]
    return TopicImage(name, topic_id, tuple(states))


def test_nothing_is_known_at_first():
    metadata = Metadata("id")
    assert (metadata.cluster_id, metadata.controller_id) == ("id", NO_CONTROLLER)
    assert metadata.topics == metadata.topic_of_id == metadata.brokers == {}


def test_topics_are_found_by_name_and_by_id():
    metadata = Metadata()
    metadata.update(topics=[topic("a"), topic("b", SECOND, partitions=3)])
    assert metadata.topics["a"] is metadata.topic_of_id[FIRST]
    assert metadata.topic_of_id[SECOND].name == "b"
    assert metadata.partition_count == 4


def test_a_topic_that_changed_replaces_the_one_before():
    metadata = Metadata()
    metadata.update(topics=[topic("a")])
    metadata.update(topics=[topic("a", partitions=2)])
    assert len(metadata.topics["a"].partitions) == len(metadata.topic_of_id[FIRST].partitions) == 2


def test_a_topic_that_was_created_again_is_not_found_by_its_old_id():
    metadata = Metadata()
    metadata.update(topics=[topic("a", FIRST)])
    metadata.update(topics=[topic("a", SECOND)])
    assert metadata.topic_of_id.keys() == {SECOND}


def test_what_is_deleted_is_found_no_more():
    metadata = Metadata()
    metadata.update(topics=[topic("a")], brokers=[BrokerImage(0, 1, ())])
    metadata.update(deleted=["a", "never.was"])
    assert metadata.topics == metadata.topic_of_id == {}
    assert list(metadata.brokers) == [0], "what is not mentioned stays"


def test_brokers_that_are_not_named_are_gone():
    metadata = Metadata()
    metadata.update(brokers=[BrokerImage(0, 1, ()), BrokerImage(1, 2, ())], controller_id=1)
    metadata.update(brokers=[BrokerImage(1, 2, ())])
    assert list(metadata.brokers) == [1]
    assert metadata.controller_id == 1
