"""Permissions: the numbers on the wire, and the sets of bits that clients read."""

import pytest

from ottla.broker.authorizer import (
    CLUSTER_NAME,
    OPERATIONS,
    AllowAll,
    Operation,
    ResourceType,
    authorized_operations,
    operation_bits,
)
from ottla.broker.call import Call


class Connection:
    listener, peer_host, principal = "PLAINTEXT", "127.0.0.1", "User:ANONYMOUS"


class Only:
    """Allows some operations on everything."""

    def __init__(self, *allowed):
        self.allowed = allowed

    def allows(self, call, operation, resource_type, name):
        return operation in self.allowed


CALL = Call(Connection(), 3, 12, 1, "test")


@pytest.mark.parametrize("resource_type", OPERATIONS)
def test_without_an_authorizer_everything_is_allowed(resource_type):
    found = authorized_operations(AllowAll(), CALL, resource_type, "anything")
    assert found == operation_bits(OPERATIONS[resource_type])


def test_the_bits_of_topics_and_of_the_cluster_are_those_of_a_kafka_broker():
    # Without an authorizer Kafka allows everything that it supports for the type.
    assert authorized_operations(AllowAll(), CALL, ResourceType.TOPIC, "orders") == 3576
    assert authorized_operations(AllowAll(), CALL, ResourceType.CLUSTER, CLUSTER_NAME) == 8096


def test_what_is_denied_is_missing_from_the_bits():
    authorizer = Only(Operation.READ, Operation.DESCRIBE)
    assert authorized_operations(authorizer, CALL, ResourceType.TOPIC, "orders") == (1 << 3) | (1 << 8)


def test_the_numbers_are_those_of_the_acl_requests():
    assert (Operation.READ, Operation.IDEMPOTENT_WRITE, Operation.TWO_PHASE_COMMIT) == (3, 12, 15)
    assert (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER) == (2, 3, 4)
