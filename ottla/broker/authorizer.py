"""Who may do what. Every handler asks before it touches something; the answer is always yes until there are ACLs.

The numbers are those of Kafka's ACL requests, and the operations also those of the "authorized operations" that
Metadata, DescribeCluster and DescribeGroups report as a set of bits (KIP-430).
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from ottla.broker.call import Call


class Operation(IntEnum):
    """What somebody wants to do."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What it is done to."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"
"""The only resource of type CLUSTER."""

NOT_ASKED = -(1 << 31)
"""Stands for authorized operations that a request did not ask for."""

_OF_TOPIC = "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"
_OF_GROUP = "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"
_OF_CLUSTER = "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: tuple(Operation[name] for name in _OF_TOPIC.split()),
    ResourceType.GROUP: tuple(Operation[name] for name in _OF_GROUP.split()),
    ResourceType.CLUSTER: tuple(Operation[name] for name in _OF_CLUSTER.split()),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
}
"""What can be allowed or denied at all, for each type."""


class Authorizer(Protocol):
    """Decides at once, from memory: handlers ask in the middle of their work, for every topic of a request."""

    def allows(self, call: Call, operation: Operation, resource_type: ResourceType, name: str) -> bool: ...


class AllowAll:
    """A broker without an authorizer."""

    def allows(self, call: Call, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return True


def operation_bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in set(operations))


def authorized_operations(authorizer: Authorizer, call: Call, resource_type: ResourceType, name: str) -> int:
    """The bits of everything that the caller may do to one resource."""
    possible = OPERATIONS[resource_type]
    return operation_bits(op for op in possible if authorizer.allows(call, op, resource_type, name))
