"""Settings of consumers that are more than a number."""

import pytest

from ottla.client.consumer.config import ConsumerConfig, duration_ms
from ottla.core.errors import ConfigError


@pytest.mark.parametrize(
    "text, ms",
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 86_400_000 + 2 * 3_600_000 + 3 * 60_000 + 4500),
        ("pt10s", 10_000),
        ("P0D", 0),
    ],
)
def test_durations_are_those_of_iso_8601(text, ms):
    assert duration_ms(text) == ms
    assert ConsumerConfig({"auto.offset.reset": f"by_duration:{text}"}).reset_duration_ms == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1X", "P1M", "PT-1S", "P1Y"])
def test_other_durations_are_refused(text):
    assert duration_ms(text) == -1
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        ConsumerConfig({"auto.offset.reset": f"by_duration:{text}"})


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"auto.offset.reset": "smallest"}, "auto.offset.reset"),
        ({"heartbeat.interval.ms": 5000, "session.timeout.ms": 5000}, "heartbeat.interval.ms"),
        ({"group.protocol": "consumer"}, "group.id must be set"),
        ({"group.instance.id": "me"}, "group.id must be set"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ConsumerConfig(settings)


def test_nothing_is_committed_without_a_group():
    assert not ConsumerConfig({}).auto_commits
    assert ConsumerConfig({"group.id": "g"}).auto_commits
