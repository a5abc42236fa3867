"""Groups. There is no coordinator yet: FindCoordinator says so, in words that a client repeats until there is one."""

from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Whose coordinator is looked for."""

_KEY_TYPES = {GROUP: "group", TRANSACTION: "transactional id", SHARE: "share partition"}
_SINCE_MANY_KEYS = 4
_SINCE_SHARE = 6


def find_coordinator(
    broker: "Broker", call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Up to v3 one key and one answer, since v4 one answer for each key."""
    if call.version >= _SINCE_MANY_KEYS:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[_no_coordinator(key, _fault(broker, call, request.key_type, key)) for key in keys]
        )
    fault = _fault(broker, call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=fault.code, error_message=fault.detail, node_id=-1, host="", port=-1
    )


def _no_coordinator(key: str, fault: KafkaError) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=fault.code, error_message=fault.detail
    )


def _fault(broker: "Broker", call: Call, key_type: int, key: str) -> KafkaError:
    """Why no coordinator can be named."""
    allows = broker.authorizer.allows
    describe = Operation.DESCRIBE
    if key_type not in _KEY_TYPES:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    if key_type == GROUP and not allows(call, describe, ResourceType.GROUP, key):
        return KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {key!r}")
    if key_type == TRANSACTION and not allows(call, describe, ResourceType.TRANSACTIONAL_ID, key):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, f"transactional id {key!r}")
    if key_type == SHARE:
        if call.version < _SINCE_SHARE:
            return KafkaError(ErrorCode.INVALID_REQUEST, f"share partitions came with v{_SINCE_SHARE}")
        if not allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers ask for share coordinators"
            )
        return KafkaError(ErrorCode.INVALID_REQUEST, "this broker serves no share groups")
    kind = _KEY_TYPES[key_type]
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no broker coordinates {kind} {key!r}")
