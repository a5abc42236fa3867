import uuid

from ottla.broker.call import Call
from ottla.broker.handlers.leaders import endpoints_of, leader_of
from ottla.protocol.messages.fetch import FetchResponse
from tests.unit.broker.handlers.fakes import Connection, broker_with, node, topic


def call(listener="PLAINTEXT"):
    return Call(Connection(listener), 1, 16, 1, "test")


def test_the_leader_is_whom_the_controller_named():
    broker = broker_with(topic("orders", 2, leader=3, replicas=(3,)))
    assert leader_of(broker, "orders", 1) == (3, 7)


def test_of_what_is_not_known_there_is_no_leader():
    broker = broker_with(topic("orders", 2))
    assert leader_of(broker, "orders", 2) is None
    assert leader_of(broker, "orders", -1) is None
    assert leader_of(broker, "visits", 0) is None
    assert leader_of(broker, str(uuid.uuid4()), 0) is None


def test_leaders_are_reached_on_the_listener_that_the_client_came_by():
    broker = broker_with(nodes=[node(1, "IN", "OUT"), node(2, "IN", "OUT", rack="r"), node(3, "IN")])
    found = endpoints_of(broker, call("OUT"), [2, 1, 2, 3, 9, -1], FetchResponse.NodeEndpoint)
    assert [(each.node_id, each.host, each.port, each.rack) for each in found] == [
        (1, "out1", 9001, None),
        (2, "out2", 9002, "r"),
    ]
