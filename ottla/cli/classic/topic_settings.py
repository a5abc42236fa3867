"""The settings of topics that Apache's tools know, as far as they look at values before a broker does."""

import math

from ottla.cli.classic.java import Illegal

_INT = [
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "index.interval.bytes",
    "max.message.bytes",
    "min.insync.replicas",
    "segment.bytes",
    "segment.index.bytes",
]
_LONG = [
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
]
_BOOLEAN = [
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
]
_OTHER = [
    "cleanup.policy",
    "compression.type",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.type",
]
_BITS = {**dict.fromkeys(_INT, 32), **dict.fromkeys(_LONG, 64)}
_RATIO = "min.cleanable.dirty.ratio"
NAMES = frozenset((*_BITS, *_BOOLEAN, *_OTHER, _RATIO))


def check_settings(settings: dict[str, str]) -> None:
    """Raises Illegal for what is no setting of a topic, or no value of its type."""
    for name in settings:
        if name not in NAMES:
            raise Illegal(f"Unknown topic config name: {name}")
    for name, value in settings.items():
        kind = _kind_missed(name, value)
        if kind:
            raise Illegal(f"Invalid value {value} for configuration {name}: {kind}")


def _kind_missed(name: str, value: str) -> str | None:
    if name in _BITS and not _is_integer(value, _BITS[name]):
        return f"Not a number of type {'INT' if name in _INT else 'LONG'}"
    if name == _RATIO and not _is_number(value):
        return "Not a number of type DOUBLE"
    if name in _BOOLEAN and value.lower() not in ("true", "false"):
        return "Expected value to be either true or false"
    return None


def _is_integer(text: str, bits: int) -> bool:
    try:
        return "_" not in text and -(1 << bits - 1) <= int(text) < 1 << bits - 1
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and not math.isnan(float(text))
    except ValueError:
        return False
