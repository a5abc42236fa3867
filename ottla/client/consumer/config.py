"""The settings of consumers."""

import re

from ottla.assignors.registry import CLIENT_SIDE
from ottla.client.config import AdminConfig, anything
from ottla.core.config import Bytes, Duration, Key, at_least, between, one_of
from ottla.core.errors import ConfigError
from ottla.core.values import INT32_MAX

_BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


class ConsumerConfig(AdminConfig):
    """Settings of consumers."""

    group_id = Key("group.id", str, None, doc="The group. Without one, partitions are assigned by hand.")
    group_instance_id = Key(
        "group.instance.id",
        str,
        None,
        doc="A name that is this member's alone, and stays over restarts (static membership): if it comes back within "
        "the session timeout, it gets its partitions again and nobody else notices.",
    )
    group_protocol = Key(
        "group.protocol",
        one_of("classic", "consumer"),
        "classic",
        doc="`classic`: a member assigns. `consumer`: the broker does (KIP-848, Kafka 4), and members move one by one.",
    )
    group_remote_assignor = Key(
        "group.remote.assignor",
        str,
        None,
        doc="With `group.protocol=consumer`, the assignor of the broker: `uniform` or `range`. Without it, its first.",
    )
    partition_assignment_strategy = Key(
        "partition.assignment.strategy",
        anything("names, Java classes or `package.module:name` of assignors, or Assignor objects"),
        ("range", "cooperative-sticky"),
        doc=f"With `group.protocol=classic`, the assignors that this member votes for, most wanted first: "
        f"{', '.join(CLIENT_SIDE)}, or your own.",
    )
    session_timeout_ms = Key(
        "session.timeout.ms",
        Duration,
        45_000,
        between(1, INT32_MAX),
        doc="A member that was silent for so long is thrown out. With `group.protocol=consumer` the broker decides.",
    )
    heartbeat_interval_ms = Key(
        "heartbeat.interval.ms",
        Duration,
        3000,
        between(1, INT32_MAX),
        doc="How often the group hears of this member. At most a third of the session timeout.",
    )
    max_poll_interval_ms = Key(
        "max.poll.interval.ms",
        Duration,
        300_000,
        between(1, INT32_MAX),
        doc="How long an application may work on what it was given. One that takes longer is taken for stuck, and "
        "leaves the group until it polls again. Also how long a rebalance waits for it.",
    )
    max_poll_records = Key(
        "max.poll.records", int, 500, at_least(1), doc="How many records one `poll` hands out at most."
    )
    enable_auto_commit = Key(
        "enable.auto.commit",
        bool,
        True,
        doc="Commit, every `auto.commit.interval.ms`, what earlier polls have handed out. It happens in `poll`, when "
        "the application is done with that.",
    )
    auto_commit_interval_ms = Key(
        "auto.commit.interval.ms", Duration, 5000, at_least(0), doc="How often that happens."
    )
    auto_offset_reset = Key(
        "auto.offset.reset",
        str,
        "latest",
        doc="Where to begin if nothing was committed, or if it is not in the log any more: `earliest`, `latest`, "
        "`none` (raise an error), or `by_duration:PT1H` (so long ago, KIP-1106).",
    )
    isolation_level = Key(
        "isolation.level",
        one_of("read_uncommitted", "read_committed"),
        "read_uncommitted",
        doc="`read_committed`: nothing of transactions that are open or were aborted.",
    )
    fetch_min_bytes = Key(
        "fetch.min.bytes",
        Bytes,
        1,
        between(0, INT32_MAX),
        doc="A broker waits for so many bytes before it answers.",
    )
    fetch_max_bytes = Key(
        "fetch.max.bytes",
        Bytes,
        50 * 1024 * 1024,
        between(0, INT32_MAX),
        doc="The most that one answer brings.",
    )
    fetch_max_wait_ms = Key(
        "fetch.max.wait.ms", Duration, 500, between(0, INT32_MAX), doc="But it waits no longer than this."
    )
    max_partition_fetch_bytes = Key(
        "max.partition.fetch.bytes",
        Bytes,
        1024 * 1024,
        between(1, INT32_MAX),
        doc="The most of one partition that an answer brings. A batch that is larger comes nevertheless.",
    )
    check_crcs = Key("check.crcs", bool, True, doc="Whether checksums of batches are verified.")
    exclude_internal_topics = Key(
        "exclude.internal.topics",
        bool,
        True,
        doc="Whether patterns pass over `__consumer_offsets` and its like.",
    )
    allow_auto_create_topics = Key(
        "allow.auto.create.topics",
        bool,
        True,
        doc="Whether subscribing to a topic may bring it into being, if the brokers allow that.",
    )
    key_deserializer = Key(
        "key.deserializer",
        anything("a function from bytes, a deserializer, or the name of one"),
        None,
        doc="Makes keys from bytes. Without it they are bytes.",
    )
    value_deserializer = Key(
        "value.deserializer",
        anything("a function from bytes, a deserializer, or the name of one"),
        None,
        doc="Makes values from bytes. Without it they are bytes.",
    )
    interceptors = Key(
        "interceptors",
        anything("a list of interceptors"),
        (),
        doc="Objects with `on_consume(records)` and `on_commit(offsets)`, in this order.",
        aliases=("interceptor.classes",),
    )
    consumer_timeout_ms = Key(
        "consumer.timeout.ms",
        Duration,
        -1,
        at_least(-1),
        doc="After so long without a record, iterating over the consumer ends. -1 is never.",
    )

    @property
    def reset_duration_ms(self) -> int:
        """How long ago `auto_offset_reset=by_duration:...` begins."""
        return duration_ms(self.auto_offset_reset.removeprefix(_BY_DURATION))

    @property
    def auto_commits(self) -> bool:
        return self.enable_auto_commit and self.group_id is not None

    def check(self) -> None:
        super().check()
        if self.group_protocol == "classic" and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat.interval.ms must be less than session.timeout.ms")
        if self.group_protocol == "consumer" and self.group_id is None:
            raise ConfigError("group.protocol is consumer: group.id must be set")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group.instance.id is set: group.id must be set")
        where = self.auto_offset_reset
        is_duration = where.startswith(_BY_DURATION) and self.reset_duration_ms >= 0
        if where not in ("earliest", "latest", "none") and not is_duration:
            raise ConfigError(
                f"auto.offset.reset is {where!r}, but must be earliest, latest, none or by_duration:PT1H"
            )


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days and below, as Java reads it: `P1DT2H`, `PT0.5S`. -1 if it is none."""
    found = _DURATION.fullmatch(text.upper())
    if found is None or not any(found.groups()) or text.upper().endswith("T"):
        return -1
    return int(
        sum(float(number) * ms for number, ms in zip(found.groups(), _UNITS_MS, strict=True) if number)
    )
