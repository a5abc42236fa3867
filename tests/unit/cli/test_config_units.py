"""Times and sizes of settings with their units."""

import click
import pytest

from ottla.cli.config_units import assignment, plain, settings


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("retention.ms", "1d", "86400000"),
        ("retention.ms", "1.5 h", "5400000"),
        ("retention.ms", "-1", "-1"),
        ("log.retention.hours", "2d", "48"),
        ("segment.bytes", "64MiB", "67108864"),
        ("segment.bytes", "1kB", "1000"),
        ("leader.replication.throttled.rate", "5M", "5242880"),
        ("cleanup.policy", "10 d", "10 d"),
        ("retention.ms", "9223372036854775807", "9223372036854775807"),
    ],
)
def test_brokers_are_sent_plain_numbers(key, value, expected):
    assert plain(key, value) == expected


@pytest.mark.parametrize(
    ("key", "value"), [("retention.ms", "5x"), ("log.retention.hours", "90m"), ("segment.bytes", "1d")]
)
def test_units_that_do_not_fit_are_refused(key, value):
    with pytest.raises(click.UsageError, match=key):
        plain(key, value)


def test_an_assignment_needs_a_key_and_a_sign():
    assert assignment(" a = b=c") == ("a", " b=c")
    for text in ("a", "=b", " =b"):
        with pytest.raises(click.UsageError):
            assignment(text)
    assert settings(("flush.ms=1s", "flush.ms=2s")) == {"flush.ms": "2000"}
