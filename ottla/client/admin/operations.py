"""What principals may do: the operations that access control knows, and the sets of them that brokers send."""

import enum
from typing import TypeVar

E = TypeVar("E", bound=enum.IntEnum)

NOT_ASKED = -(1 << 31)
"""Brokers send this instead of a set when nobody asked for it."""


class AclOperation(enum.IntEnum):
    """Numbers are the protocol's, and places in a set of bits."""

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


def known(kind: type[E], number: int) -> E:
    """The member of an enumeration, or its UNKNOWN (0) for a number that is newer than ours."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The operations whose bits are set; None if the broker was not asked, or does not know."""
    if bits == NOT_ASKED:
        return None
    return frozenset(each for each in AclOperation if each > AclOperation.ANY and bits >> each & 1)
