"""What a broker counts. The hot path binds its numbers once and only adds to them."""

from ottla.core.metrics import Counter, CounterValue, Gauge, Histogram, HistogramValue, Metrics

_REQUEST_MS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000, 2000, 5000, 10000, 30000)


class BrokerMetrics(Metrics):
    """The table; docs/reference/metrics.md is made from it."""

    requests = Counter("ottla_requests_total", "Requests answered, by API.", labels=["api"])
    request_ms = Histogram(
        "ottla_request_milliseconds",
        "From the arrival of a request to its reply, by API. Waiting for records or replicas is part of it.",
        labels=["api"],
        buckets=_REQUEST_MS,
    )
    request_errors = Counter(
        "ottla_request_errors_total",
        "Requests refused as a whole, by API and error.",
        labels=["api", "error"],
    )
    bad_requests = Counter(
        "ottla_bad_requests_total", "Requests that made no sense; their connection is closed."
    )
    throttled_ms = Counter("ottla_throttled_milliseconds_total", "How long clients were held back.")
    topic_bytes_in = Counter("ottla_topic_bytes_in_total", "Bytes of batches appended.", labels=["topic"])
    topic_bytes_out = Counter("ottla_topic_bytes_out_total", "Bytes of batches fetched.", labels=["topic"])
    topic_records_in = Counter("ottla_topic_records_in_total", "Records appended.", labels=["topic"])
    partitions = Gauge("ottla_partitions", "Partitions that this broker has a replica of.")
    partitions_led = Gauge("ottla_partitions_led", "Partitions that this broker leads.")
    under_replicated = Gauge(
        "ottla_under_replicated_partitions", "Partitions led here that have replicas which are not in sync."
    )
    under_min_isr = Gauge(
        "ottla_under_min_isr_partitions",
        "Partitions led here with fewer replicas in sync than `min.insync.replicas`: writes with acks=all are refused.",
    )
    offline_partitions = Gauge(
        "ottla_offline_partitions",
        "Partitions that nobody leads, as the controller knows; 0 on all other brokers.",
    )
    active_controller = Gauge("ottla_active_controller", "1 if this broker is the controller, else 0.")
    elections = Counter(
        "ottla_leader_elections_total", "Leaders that this broker elected while it was the controller."
    )
    unclean_elections = Counter(
        "ottla_unclean_leader_elections_total",
        "Those of them that were not in sync: records that were acknowledged may be lost.",
    )
    replication_lag = Gauge(
        "ottla_replication_max_lag_offsets",
        "How many offsets the slowest follower of a partition led here is behind; those that are away included.",
    )
    isr_shrinks = Counter(
        "ottla_isr_shrinks_total", "Times that replicas left the ISR of a partition led here."
    )
    isr_expands = Counter(
        "ottla_isr_expands_total", "Times that replicas joined the ISR of a partition led here."
    )
    replication_bytes_in = Counter(
        "ottla_replication_bytes_in_total", "Bytes of batches fetched from leaders."
    )
    replication_bytes_out = Counter(
        "ottla_replication_bytes_out_total", "Bytes of batches sent to followers."
    )
    offline_directories = Gauge("ottla_offline_log_directories", "Log directories that have failed.")
    connections = Gauge("ottla_connections", "Connections of clients.")
    connections_accepted = Counter(
        "ottla_connections_accepted_total", "Connections since the start, those refused included."
    )
    connections_refused = Counter(
        "ottla_connections_refused_total", "Connections refused because there were too many."
    )
    bytes_in = Counter("ottla_network_bytes_in_total", "Bytes received from clients since the start.")
    bytes_out = Counter("ottla_network_bytes_out_total", "Bytes sent to clients since the start.")
    fetch_sessions = Gauge("ottla_fetch_sessions", "Incremental fetch sessions.")
    groups = Gauge("ottla_groups", "Groups that this broker coordinates.")
    transactional_ids = Gauge("ottla_transactional_ids", "Transactional ids that this broker coordinates.")
    shards_loading = Gauge(
        "ottla_coordinator_shards_loading", "Partitions of coordinators that are being read from the log."
    )
    late_transactions = Gauge(
        "ottla_partitions_with_late_transactions",
        "Partitions led here in which a transaction is open for longer than any may be: readers of committed records "
        "do not get past it.",
    )
    cleaner_runs = Counter("ottla_cleaner_runs_total", "Compactions of logs that ended well.")
    cleaner_failures = Counter("ottla_cleaner_failures_total", "Compactions of logs that failed.")
    cleaner_running = Gauge("ottla_cleaner_running", "Logs that are being compacted.")
    cleaner_bytes_read = Counter("ottla_cleaner_bytes_read_total", "Bytes of batches that were compacted.")
    cleaner_bytes_kept = Counter("ottla_cleaner_bytes_kept_total", "Bytes of batches that were left of them.")
    cleaner_records_read = Counter("ottla_cleaner_records_read_total", "Records that were compacted.")
    cleaner_records_kept = Counter("ottla_cleaner_records_kept_total", "Records that were left of them.")
    cleaner_dirty_ratio = Gauge(
        "ottla_cleaner_max_dirty_ratio",
        "Of the dirtiest log: how much of it was written since it was last compacted, from 0 to 1.",
    )
    cleaner_map_utilization = Gauge(
        "ottla_cleaner_map_utilization",
        "How full the memory for keys was in the last compaction, from 0 to 1 (`log.cleaner.dedupe.buffer.size`).",
    )
    cleaner_idle_seconds = Gauge(
        "ottla_cleaner_seconds_since_last_run", "Since a compaction ended well; -1 if none has yet."
    )
    cleaner_uncleanable = Gauge(
        "ottla_cleaner_uncleanable_partitions", "Partitions whose last compaction failed: they grow."
    )
    group_lag = Gauge(
        "ottla_group_lag_offsets",
        "Offsets between what a group has committed and what it could read, for partitions led here.",
        labels=["group", "topic", "partition", "isolation"],
    )
    group_lag_seconds = Gauge(
        "ottla_group_lag_seconds",
        "Age of the next record that a group will read, for partitions led here.",
        labels=["group", "topic", "partition", "isolation"],
    )


class ApiMeter:
    """The numbers of one API."""

    __slots__ = ("request_ms", "requests")

    def __init__(self, metrics: BrokerMetrics, api: str) -> None:
        self.requests: CounterValue = metrics.requests.labels(api)
        self.request_ms: HistogramValue = metrics.request_ms.labels(api)


class TopicMeter:
    """The numbers of one topic."""

    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self, metrics: BrokerMetrics, topic: str) -> None:
        self.bytes_in: CounterValue = metrics.topic_bytes_in.labels(topic)
        self.bytes_out: CounterValue = metrics.topic_bytes_out.labels(topic)
        self.records_in: CounterValue = metrics.topic_records_in.labels(topic)


class TopicMeters(dict[str, TopicMeter]):
    """The meters of all topics that anything happened to; made when first asked for, gone with the topic."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        super().__init__()
        self._metrics = metrics

    def __missing__(self, topic: str) -> TopicMeter:
        self[topic] = TopicMeter(self._metrics, topic)
        return self[topic]

    def forget(self, topic: str) -> None:
        if self.pop(topic, None) is not None:
            for family in (
                self._metrics.topic_bytes_in,
                self._metrics.topic_bytes_out,
                self._metrics.topic_records_in,
            ):
                family.remove(topic)
