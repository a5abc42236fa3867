import math
from collections.abc import Callable

import pytest

from ottla.core.metrics import (
    Counter,
    CounterValue,
    Gauge,
    Histogram,
    Metrics,
    Registry,
    exponential,
    format_number,
)


class LogMetrics(Metrics):
    appends = Counter("log_appends_total", "Batches appended.", labels=["topic", "acks"])
    open_files = Gauge("log_open_files", "Files that are open.")
    flush_ms = Histogram("log_flush_ms", "How long a sync took.", buckets=(1, 2.5, 10))


def test_a_metric_without_labels_is_shown_at_zero_and_one_with_labels_when_it_has_some() -> None:
    assert Registry(LogMetrics()).expose() == (
        "# HELP log_appends_total Batches appended.\n"
        "# TYPE log_appends_total counter\n"
        "# HELP log_flush_ms How long a sync took.\n"
        "# TYPE log_flush_ms histogram\n"
        'log_flush_ms_bucket{le="1"} 0\n'
        'log_flush_ms_bucket{le="2.5"} 0\n'
        'log_flush_ms_bucket{le="10"} 0\n'
        'log_flush_ms_bucket{le="+Inf"} 0\n'
        "log_flush_ms_sum 0\n"
        "log_flush_ms_count 0\n"
        "# HELP log_open_files Files that are open.\n"
        "# TYPE log_open_files gauge\n"
        "log_open_files 0\n"
    )


def test_counters_add_up_by_label() -> None:
    metrics = LogMetrics()
    orders = metrics.appends.labels("orders", "1")
    orders.add()
    orders.add(41)
    metrics.appends.labels("audit", "-1").add(0.5)
    assert metrics.appends.labels("orders", "1") is orders
    assert list(metrics.appends.expose())[2:] == [
        'log_appends_total{topic="audit",acks="-1"} 0.5',
        'log_appends_total{topic="orders",acks="1"} 42',
    ]


def test_a_gauge_is_set_moved_or_followed() -> None:
    metrics = LogMetrics()
    gauge = metrics.open_files.labels()
    gauge.set(5)
    gauge.add(-2)
    assert list(metrics.open_files.expose())[-1] == "log_open_files 3"
    files = ["a", "b"]
    gauge.follow(lambda: len(files))
    files.append("c")
    files.append("d")
    assert list(metrics.open_files.expose())[-1] == "log_open_files 4"


def test_a_histogram_counts_each_number_in_its_bucket_and_all_above() -> None:
    metrics = LogMetrics()
    histogram = metrics.flush_ms.labels()
    for value in (0.5, 1, 2, 3.25, 10, 11):
        histogram.observe(value)
    assert list(metrics.flush_ms.expose())[2:] == [
        'log_flush_ms_bucket{le="1"} 2',
        'log_flush_ms_bucket{le="2.5"} 3',
        'log_flush_ms_bucket{le="10"} 5',
        'log_flush_ms_bucket{le="+Inf"} 6',
        "log_flush_ms_sum 27.75",
        "log_flush_ms_count 6",
    ]
    assert histogram.count == 6


def test_a_labelled_histogram_keeps_its_labels_before_the_bound() -> None:
    class Requests(Metrics):
        total_ms = Histogram("request_ms", "Time.", labels=["api"], buckets=[1])

    requests = Requests()
    requests.total_ms.labels("Fetch").observe(0.5)
    assert list(requests.total_ms.expose())[2:] == [
        'request_ms_bucket{api="Fetch",le="1"} 1',
        'request_ms_bucket{api="Fetch",le="+Inf"} 1',
        'request_ms_sum{api="Fetch"} 0.5',
        'request_ms_count{api="Fetch"} 1',
    ]


def test_help_and_labels_are_escaped() -> None:
    class Odd(Metrics):
        odd = Gauge("odd", 'a\\b\n"c"', labels=["x"])

    table = Odd()
    table.odd.labels('a\\b\n"c"').set(1)
    assert list(table.odd.expose()) == [
        '# HELP odd a\\\\b\\n"c"',
        "# TYPE odd gauge",
        'odd{x="a\\\\b\\n\\"c\\""} 1',
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (True, "1"),
        (3.0, "3"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (2**70, str(2**70)),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_prometheus_reads_them(number: float, text: str) -> None:
    assert format_number(number) == text


def test_removed_labels_are_shown_no_longer() -> None:
    metrics = LogMetrics()
    metrics.appends.labels("gone", "1").add()
    metrics.appends.remove("gone", "1")
    metrics.appends.remove("never there", "1")
    assert len(list(metrics.appends.expose())) == 2


def test_two_instances_of_a_table_share_no_number() -> None:
    first, second = LogMetrics(), LogMetrics()
    first.open_files.labels().set(7)
    assert second.open_files.labels().value == 0


def test_the_table_can_be_read_without_an_instance() -> None:
    assert [metric.name for metric in LogMetrics.declared.values()] == [
        "log_appends_total",
        "log_open_files",
        "log_flush_ms",
    ]
    assert isinstance(LogMetrics.appends, Counter)
    assert repr(LogMetrics.appends) == "<Counter log_appends_total>"


def test_a_wrong_number_of_label_values_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="log_appends_total has the labels"):
        LogMetrics().appends.labels("orders")


def test_two_metrics_may_not_show_numbers_under_one_name() -> None:
    class Clash(Metrics):
        flush_sum = Gauge("log_flush_ms_sum", "Hidden in the histogram.")

    registry = Registry(LogMetrics())
    with pytest.raises(AssertionError, match="two metrics are called log_flush_ms_sum"):
        registry.add(Clash())
    with pytest.raises(AssertionError):
        registry.add(LogMetrics())


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Gauge("1st", ""),
        lambda: Gauge("a-b", ""),
        lambda: Gauge("", ""),
        lambda: Gauge("a\n", ""),
        lambda: Gauge("a", "", labels=["__x"]),
        lambda: Gauge("a", "", labels=["x-y"]),
        lambda: Gauge("a", "", labels=["x", "x"]),
        lambda: Histogram("a", "", labels=["le"]),
        lambda: Histogram("a", "", buckets=[2, 1]),
        lambda: Histogram("a", "", buckets=[1, 1]),
        lambda: Histogram("a", "", buckets=[]),
        lambda: Histogram("a", "", buckets=[1, math.inf]),
        lambda: Counter("a", ""),
        lambda: exponential(0, 2, 3),
    ],
)
def test_a_declaration_that_prometheus_could_not_read_is_a_bug(declare: Callable[[], object]) -> None:
    with pytest.raises(AssertionError):
        declare()


def test_exponential_buckets_grow_by_their_factor() -> None:
    assert exponential(1, 2, 4) == (1, 2, 4, 8)


def test_a_counter_can_follow_a_number_that_is_counted_elsewhere():
    counter = CounterValue()
    seen = [7]
    counter.follow(lambda: seen[0])
    assert list(counter.samples()) == [("", (), 7)]
    seen[0] = 9
    assert list(counter.samples()) == [("", (), 9)]
