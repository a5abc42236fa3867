"""Percentiles and rates."""

import pytest

from ottla.cli.benching.measuring import MEGABYTE, Latencies, Measured


def test_a_percentile_is_one_that_was_measured():
    found = Latencies.of(float(each) for each in range(1000, 0, -1))
    assert (found.percentile(50), found.percentile(99), found.percentile(99.9)) == (500, 990, 999)
    assert found.percentile(100) == 1000
    assert Latencies.of([7.0]).row() == {"mean": 7, "p50": 7, "p95": 7, "p99": 7, "p99_9": 7, "max": 7}


def test_of_nothing_nothing_is_known():
    assert set(Latencies.of([]).row().values()) == {None}


def test_rates_count_as_kafka_does():
    found = Measured(1000, 2 * MEGABYTE, 0.5, Latencies.of([]))
    assert (found.records_per_second, found.megabytes_per_second) == (2000, pytest.approx(4))
    assert Measured(0, 0, 0.0, Latencies.of([])).megabytes_per_second == 0
