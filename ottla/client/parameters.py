"""The parameters of clients, for editors and type checkers. Written by `make docs` from their tables."""

from collections.abc import Sequence
from typing import Any, TypedDict


class ClientParameters(TypedDict, total=False):
    """Settings of producers, consumers and admin clients."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_rack: str
    metadata_max_age_ms: int | str
    reconnect_backoff_max_ms: int | str
    reconnect_backoff_ms: int | str
    request_timeout_ms: int | str
    retry_backoff_max_ms: int | str
    retry_backoff_ms: int | str
    sasl_mechanism: str
    sasl_oauth_token_provider: Any
    sasl_plain_password: str | None
    sasl_plain_username: str | None
    security_protocol: str
    socket_connection_setup_timeout_ms: int | str
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_check_hostname: bool | str
    ssl_context: Any
    ssl_keyfile: str | None
    ssl_password: str | None


class ProducerParameters(ClientParameters, total=False):
    """Settings of producers."""

    acks: int | str
    allow_auto_create_topics: bool | str
    batch_max_records: int | str
    batch_size: int | str
    buffer_full: str
    buffer_max_records: int | str
    buffer_memory: int | str
    compression_gzip_level: int | str
    compression_lz4_level: int | str
    compression_type: str
    compression_zstd_level: int | str
    delivery_timeout_ms: int | str
    enable_idempotence: bool | str
    interceptors: Any
    key_serializer: Any
    linger_ms: int | str
    max_block_ms: int | str
    max_in_flight_requests_per_connection: int | str
    max_request_size: int | str
    partitioner: Any
    retries: int | str
    send_waits: bool | str
    transaction_timeout_ms: int | str
    transactional_id: str | None
    value_serializer: Any


class AdminParameters(ClientParameters, total=False):
    """Settings of admin clients."""

    default_api_timeout_ms: int | str


class ConsumerParameters(AdminParameters, total=False):
    """Settings of consumers."""

    allow_auto_create_topics: bool | str
    auto_commit_interval_ms: int | str
    auto_offset_reset: str
    check_crcs: bool | str
    consumer_timeout_ms: int | str
    enable_auto_commit: bool | str
    exclude_internal_topics: bool | str
    fetch_max_bytes: int | str
    fetch_max_wait_ms: int | str
    fetch_min_bytes: int | str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    heartbeat_interval_ms: int | str
    interceptors: Any
    isolation_level: str
    key_deserializer: Any
    max_partition_fetch_bytes: int | str
    max_poll_interval_ms: int | str
    max_poll_records: int | str
    partition_assignment_strategy: Any
    session_timeout_ms: int | str
    value_deserializer: Any
