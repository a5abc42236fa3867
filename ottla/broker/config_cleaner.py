"""What can be set about the compaction of logs. Kafka's names, defaults and bounds."""

from ottla.core.config import Bytes, Config, Duration, Key, Scope, at_least, between
from ottla.core.errors import ConfigError

_INT_MAX = 2**31 - 1
_NO_LIMIT = 1.7976931348623157e308
_SHARE_MIN = 1 << 20
_BACKOFF_S = (0.1, 86_400.0)
"""Looking costs a little for every log, and no timer waits for ever."""


class CleanerConfig(Config):
    """The settings that the cleaner obeys. Topics have more of their own: `min.cleanable.dirty.ratio` and its like."""

    log_cleaner_enable = Key(
        "log.cleaner.enable",
        bool,
        True,
        scope=Scope.CLUSTER_WIDE,
        doc="Compact logs whose `cleanup.policy` names `compact`. False pauses compaction, also one that is under "
        "way; it goes on from there. Unlike in Kafka it can change while the broker runs.",
    )
    log_cleaner_threads = Key(
        "log.cleaner.threads",
        int,
        1,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="How many logs are compacted at once, each by a process of its own. Those under way are not disturbed.",
    )
    log_cleaner_backoff_ms = Key(
        "log.cleaner.backoff.ms",
        Duration,
        15_000,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="How long to wait before looking again, when there was nothing to compact.",
    )
    log_cleaner_dedupe_buffer_size = Key(
        "log.cleaner.dedupe.buffer.size",
        Bytes,
        128 << 20,
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
        doc="Memory for the keys of records that are newer than what was compacted before, 24 bytes for each, shared "
        "by `log.cleaner.threads`. What does not fit is compacted the next time, but one segment must fit. "
        "Holds from the next compaction on.",
    )
    log_cleaner_io_buffer_size = Key(
        "log.cleaner.io.buffer.size",
        Bytes,
        512 << 10,
        between(0, _INT_MAX),
        scope=Scope.CLUSTER_WIDE,
        doc="Memory for reading and writing, shared by `log.cleaner.threads`.",
    )
    log_cleaner_io_buffer_load_factor = Key(
        "log.cleaner.io.buffer.load.factor",
        float,
        0.9,
        between(0.01, 1),
        scope=Scope.CLUSTER_WIDE,
        doc="How full the memory for keys may get. Fuller takes more keys at once, and more time for each.",
    )
    log_cleaner_io_max_bytes_per_second = Key(
        "log.cleaner.io.max.bytes.per.second",
        float,
        _NO_LIMIT,
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
        doc="Read and write at most this much for compaction, all of it together. Takes effect at once.",
    )

    @property
    def cleaner_rate(self) -> float | None:
        """Bytes per second for all cleaning together; None if nobody set a limit."""
        rate = self.log_cleaner_io_max_bytes_per_second
        return None if rate >= _NO_LIMIT else rate

    @property
    def cleaner_backoff_s(self) -> float:
        """`log.cleaner.backoff.ms` within reason."""
        low, high = _BACKOFF_S
        return max(low, min(self.log_cleaner_backoff_ms / 1000, high))

    def check(self) -> None:
        super().check()
        if self.log_cleaner_dedupe_buffer_size <= max(1, self.log_cleaner_threads) * _SHARE_MIN:
            raise ConfigError(
                "log.cleaner.dedupe.buffer.size must be more than 1 MiB for each of log.cleaner.threads"
            )
