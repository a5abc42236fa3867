"""What can be set about groups and about the metrics of clients: the smaller things that AlterConfigs knows."""

import re

from ottla.core.config import Check, Config, Duration, Key, Source, Words, between

_SELECTORS = {
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
}
_INT_MAX = 2**31 - 1


def _selects(words: tuple[str, ...]) -> bool:
    return all(_is_selector(*word.partition("=")) for word in words)


def _is_selector(name: str, equals: str, pattern: str) -> bool:
    try:
        re.compile(pattern.strip())
    except re.error:
        return False
    return bool(equals) and name.strip() in _SELECTORS


class GroupConfig(Config, source=Source.GROUP):
    """Settings of one group of consumers. An unset key falls back to the broker key named beside it."""

    consumer_session_timeout_ms = Key(
        "consumer.session.timeout.ms",
        Duration,
        45_000,
        between(1, _INT_MAX),
        broker_key="group.consumer.session.timeout.ms",
        doc="Expel a member that was not heard of for this long.",
    )
    consumer_heartbeat_interval_ms = Key(
        "consumer.heartbeat.interval.ms",
        Duration,
        5_000,
        between(1, _INT_MAX),
        broker_key="group.consumer.heartbeat.interval.ms",
        doc="How often members are told to send a heartbeat.",
    )


class ClientMetricsConfig(Config, source=Source.CLIENT_METRICS):
    """A subscription to metrics that clients push (KIP-714)."""

    metrics = Key(
        "metrics",
        Words,
        (),
        doc="Prefixes of the names of the metrics that are wanted. `*` wants all of them.",
    )
    interval_ms = Key(
        "interval.ms", Duration, 300_000, between(100, 3_600_000), doc="How often clients push their metrics."
    )
    match = Key(
        "match",
        Words,
        (),
        Check(f"each with one of {', '.join(sorted(_SELECTORS))} and a pattern, as client_id=a.*", _selects),
        doc="Which clients are asked: all of these patterns must match. Without any, every client is.",
    )
