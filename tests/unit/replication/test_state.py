import uuid

import pytest

from ottla.core.ids import TopicPartition
from ottla.replication.state import BrokerImage, Endpoint, PartitionState, TopicImage

STATE = PartitionState("orders", uuid.UUID(int=7), 3, 1, 5, 2, (1, 2), (1,))


def test_a_state_names_its_partition():
    assert STATE.topic_partition == TopicPartition("orders", 3)


def test_a_state_is_a_value():
    assert STATE._replace(leader=2)._replace(leader=1) == STATE
    with pytest.raises(AttributeError):
        STATE.leader = 2


def test_nothing_is_being_moved_or_lost_unless_it_is_said():
    assert (STATE.adding, STATE.removing, STATE.offline, STATE.is_new) == ((), (), (), False)
    assert not TopicImage("orders", STATE.topic_id, (STATE,)).is_internal


def test_a_broker_is_found_by_the_listener_that_it_has():
    inside, outside = Endpoint("IN", "PLAINTEXT", "10.0.0.1", 1), Endpoint("OUT", "SSL", "example.org", 2)
    broker = BrokerImage(1, 77, (inside, outside))
    assert broker.endpoint("OUT") is outside
    assert broker.endpoint("in") is None
