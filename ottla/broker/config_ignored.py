"""Keys that people have in their server.properties and that mean nothing to this broker: read, checked, shown, no more.

A file that starts Kafka should start this broker too. What could lose or expose data if it were ignored is not here:
such keys are refused, or not known and warned about.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.core.config import Bytes, Config, Duration, Key, Scope, Words, between
from ottla.core.key import attribute_of
from ottla.core.values import INT16_MAX, INT32_MAX

_THREADS = "requests are served by one event loop"
_CONTROLLER = "the controller is part of the broker"
_METADATA_LOG = "metadata is in a database, not in a log"
_PURGATORY = "requests wait without a purgatory"
_SHARE = "there are no share groups"
_QUOTA = "there are no quotas yet"

_DURATION = (Duration, between(-1, INT32_MAX))
_BYTES = (Bytes, between(-1, INT32_MAX))
_SHORT = (int, between(1, INT16_MAX))
"""What Kafka keeps in 32 bits, and calls an INT, or in 16."""

_Row = tuple[str, Any, Any, str]

_READ_ONLY: list[_Row] = [
    ("num.replica.alter.log.dirs.threads", int, None, _THREADS),
    ("queued.max.requests", int, 500, "`request.in.flight.max` limits each connection"),
    ("queued.max.request.bytes", Bytes, -1, "`request.in.flight.max` limits each connection"),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _DURATION,
        10_000,
        "a transaction is aborted at the very moment its time is up",
    ),
    ("request.timeout.ms", _DURATION, 30_000, "`replica.socket.timeout.ms` says it"),
    ("broker.id.generation.enable", bool, True, "`node.id` has a default"),
    ("reserved.broker.max.id", int, 1000, "`node.id` has a default"),
    ("connection.failed.authentication.delay.ms", _DURATION, 100, "there is no authentication yet"),
    ("authorizer.class.name", str, "", "everything is allowed yet"),
    ("security.inter.broker.protocol", str, "PLAINTEXT", "`inter.broker.listener.name` says it"),
    ("early.start.listeners", Words, (), "all listeners start together"),
    ("broker.heartbeat.interval.ms", _DURATION, 2_000, _CONTROLLER),
    ("controller.quorum.election.timeout.ms", _DURATION, 1_000, _CONTROLLER),
    ("controller.quorum.election.backoff.max.ms", _DURATION, 1_000, _CONTROLLER),
    ("controller.quorum.fetch.timeout.ms", _DURATION, 2_000, _CONTROLLER),
    ("controller.quorum.request.timeout.ms", _DURATION, 2_000, _CONTROLLER),
    ("controller.quorum.auto.join.enable", bool, False, _CONTROLLER),
    ("metadata.log.segment.bytes", _BYTES, 1 << 30, _METADATA_LOG),
    ("metadata.log.segment.ms", Duration, 604_800_000, _METADATA_LOG),
    ("metadata.log.max.record.bytes.between.snapshots", Bytes, 20 << 20, _METADATA_LOG),
    ("metadata.log.max.snapshot.interval.ms", Duration, 3_600_000, _METADATA_LOG),
    ("metadata.max.retention.bytes", Bytes, 100 << 20, _METADATA_LOG),
    ("metadata.max.retention.ms", Duration, 604_800_000, _METADATA_LOG),
    ("metadata.max.idle.interval.ms", _DURATION, 500, _METADATA_LOG),
    ("replica.socket.receive.buffer.bytes", _BYTES, 64 << 10, "the kernel adapts it"),
    ("inter.broker.protocol.version", str, None, "brokers agree on versions by themselves"),
    ("log.message.format.version", str, None, "records are always written in format 2"),
    ("fetch.purgatory.purge.interval.requests", int, 1000, _PURGATORY),
    ("producer.purgatory.purge.interval.requests", int, 1000, _PURGATORY),
    ("delete.records.purgatory.purge.interval.requests", int, 1, _PURGATORY),
    ("log.dir.failure.timeout.ms", Duration, 30_000, _CONTROLLER),
    ("offsets.load.buffer.size", _BYTES, 5 << 20, "logs are read in pieces of a fixed size"),
    ("offsets.topic.compression.codec", int, 0, "commits are small"),
    ("transaction.state.log.load.buffer.size", _BYTES, 5 << 20, "logs are read in pieces of a fixed size"),
    (
        "group.coordinator.rebalance.protocols",
        Words,
        ("classic", "consumer", "streams"),
        "none can be turned off",
    ),
    ("group.coordinator.threads", int, 4, _THREADS),
    (
        "group.coordinator.append.linger.ms",
        _DURATION,
        -1,
        "commits that arrive together are written together",
    ),
    ("share.coordinator.state.topic.num.partitions", int, 50, _SHARE),
    ("share.coordinator.state.topic.replication.factor", _SHORT, 3, _SHARE),
    ("share.coordinator.state.topic.min.isr", _SHORT, 2, _SHARE),
    ("quota.window.num", int, 11, _QUOTA),
    ("quota.window.size.seconds", int, 1, _QUOTA),
    ("metrics.num.samples", int, 2, "metrics are Prometheus', see `http.listen`"),
    ("metrics.sample.window.ms", Duration, 30_000, "metrics are Prometheus', see `http.listen`"),
    ("metrics.recording.level", str, "INFO", "metrics are Prometheus', see `http.listen`"),
    ("auto.include.jmx.reporter", bool, True, "metrics are Prometheus', see `http.listen`"),
    ("telemetry.max.bytes", _BYTES, 1 << 20, "clients' telemetry is not kept"),
]

_CHANGEABLE: list[_Row] = [
    ("num.network.threads", int, 3, _THREADS),
    ("num.io.threads", int, 8, _THREADS),
    ("num.recovery.threads.per.data.dir", int, 2, _THREADS),
    ("background.threads", int, 10, _THREADS),
    (
        "max.connection.creation.rate",
        int,
        2**31 - 1,
        "connections are cheap to refuse: see `max.connections`",
    ),
    ("metric.reporters", Words, (), "metrics are Prometheus', see `http.listen`"),
]


def _keys(rows: Iterable[_Row], scope: Scope) -> Iterator[tuple[str, Key[Any]]]:
    for name, kind, default, reason in rows:
        doc = f"Accepted, without effect: {reason}."
        of, *checks = kind if isinstance(kind, tuple) else (kind,)
        yield attribute_of(name), Key(name, of, default, *checks, scope=scope, doc=doc)


class IgnoredConfig(Config):
    """Settings that are accepted, and have no effect."""

    # Nobody reads these as attributes, so a table says all there is to say about them.
    vars().update(_keys(_READ_ONLY, Scope.READ_ONLY))
    vars().update(_keys(_CHANGEABLE, Scope.CLUSTER_WIDE))
