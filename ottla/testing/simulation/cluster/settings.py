"""How long everything takes in a simulated cluster, in virtual milliseconds: a second here is a minute elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """One cluster."""

    brokers: int = 3
    partitions: int = 1
    replication_factor: int = 3
    min_insync_replicas: int = 2
    flushes_before_ack: bool = False
    allows_unclean: bool = False
    session_ms: int = 500
    """How long a broker may be unheard of by the metadata store."""
    lag_ms: int = 400
    """replica.lag.time.max.ms"""
    fetch_ms: int = 25
    """How long a follower waits that got nothing."""
    retry_ms: int = 60
    request_ms: int = 250
    """After this nobody waits for an answer any more."""
    produce_ms: int = 500
    flush_ms: int = 400
    """How often logs are flushed and high watermarks written to the disk."""
    records_max: int = 20
    """Of one fetch."""


TOPIC = "orders"
EXTRA = "extra"
"""A topic that comes and goes: no history is kept of it."""
