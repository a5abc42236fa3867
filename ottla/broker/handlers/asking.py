"""What handlers that turn to a coordinator have in common: who asks, whether they may, and taking turns."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.authorizer import NOT_ASKED, Operation, ResourceType, authorized_operations
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.group import Asker

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ELSEWHERE_OR_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a coordinator says that has not even looked at the request."""

PARTITIONS_MAX = 200_000
"""That one request may number: four bytes each in the request, and hundreds in memory and in answers."""

_AT_A_TIME = 100
Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def asker_of(call: Call) -> Asker:
    """Kafka writes the address of a client with a slash before it, and tools show it so."""
    return Asker(call.version, call.client_id or "", f"/{call.connection.peer_host}")


def check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def check_partition_count(count: int) -> None:
    """Too many numbers in one request are treated as too many of anything else in a message are."""
    if count > PARTITIONS_MAX:
        raise ProtocolError(f"{count} partitions in one request; {PARTITIONS_MAX} are allowed")


def check_group(broker: "Broker", call: Call, operation: Operation, group_id: str) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED unless the caller may do this to the group."""
    if not broker.authorizer.allows(call, operation, ResourceType.GROUP, group_id):
        raise KafkaError(
            ErrorCode.GROUP_AUTHORIZATION_FAILED, f"{operation.name} of group {group_id!r} is not allowed"
        )


def check_transactional_id(broker: "Broker", call: Call, operation: Operation, transactional_id: str) -> None:
    """Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED unless the caller may do this to the transactional id."""
    if not broker.authorizer.allows(call, operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            f"{operation.name} of transactional id {transactional_id!r} is not allowed",
        )


def group_operations(broker: "Broker", call: Call, group_id: str, *, is_asked: bool) -> int:
    """What the caller may do to the group, as bits."""
    if not is_asked:
        return NOT_ASKED
    return authorized_operations(broker.authorizer, call, ResourceType.GROUP, group_id)


async def one_by_one(
    asked: Iterable[Asked], answer: Callable[[Asked], Awaitable[Answered]]
) -> list[Answered]:
    """An answer to each, in their order. Somebody may ask about thousands: others get their turn in between."""
    answers = []
    for count, item in enumerate(asked, 1):
        answers.append(await answer(item))
        if count % _AT_A_TIME == 0:
            await asyncio.sleep(0)
    return answers
