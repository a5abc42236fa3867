"""Client telemetry (KIP-714), as a broker answers that has no subscriptions: push nothing, and ask again later.

Nothing is remembered about a client. The id of its subscription follows from its instance id, so every broker, and
this one after a restart, comes to the same.
"""

import uuid
import zlib
from typing import TYPE_CHECKING

from ottla.broker.call import Call
from ottla.core.errors import ErrorCode
from ottla.core.ids import NULL_ID, is_reserved_id, random_id
from ottla.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PUSH_INTERVAL_MS = 300_000
TELEMETRY_BYTES_MAX = 1 << 20
ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2
ACCEPTED_COMPRESSION_TYPES = (ZSTD, LZ4, GZIP, SNAPPY)
"""In the order in which clients should try them. Uncompressed is always accepted, and never listed."""


def get_telemetry_subscriptions(
    broker: "Broker", call: Call, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """No metrics. A client without an instance id gets one: it names itself by that in its logs, too."""
    instance_id = request.client_instance_id
    if instance_id == NULL_ID:
        instance_id = random_id()
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=subscription_id_of(instance_id),
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=TELEMETRY_BYTES_MAX,
        delta_temporality=True,
        requested_metrics=[],
    )


def push_telemetry(broker: "Broker", call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Judge the push, and drop it: nobody asked for metrics."""
    return PushTelemetryResponse(error_code=_fault(request))


def subscription_id_of(instance_id: uuid.UUID) -> int:
    """Changes when what is wanted of the client does; then the client must ask again before it pushes."""
    wanted = f"[]{PUSH_INTERVAL_MS}".encode()
    unsigned = zlib.crc32(wanted + instance_id.bytes)
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned


def _fault(request: PushTelemetryRequest) -> ErrorCode:
    if is_reserved_id(request.client_instance_id):
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != subscription_id_of(request.client_instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in (0, *ACCEPTED_COMPRESSION_TYPES):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > TELEMETRY_BYTES_MAX:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
