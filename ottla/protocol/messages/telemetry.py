"""Client telemetry (keys 71, 72; KIP-714)."""

from ottla.protocol.schema import Bool, Bytes, Int8, Int16, Int32, String, Uuid, api, field


@api(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """Ask which metrics the broker wants this client to push (KIP-714)."""

    client_instance_id: Uuid


@api(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """Metric name prefixes, how often, and in which compression."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]


@api(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    """Push one OTLP document of client metrics (KIP-714)."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@api(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    """One error code."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
