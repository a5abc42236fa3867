import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.config_resources import ClientMetricsConfig, GroupConfig
from ottla.core.config import Source
from ottla.core.errors import ConfigError


def test_a_group_falls_back_to_its_broker():
    broker = BrokerConfig({"group.consumer.session.timeout.ms": 50_000})
    group = GroupConfig(broker=broker)
    assert group.consumer_session_timeout_ms == 50_000
    group.update({"consumer.session.timeout.ms": "48000"})
    entry = group.describe("consumer.session.timeout.ms")
    assert (entry.value, entry.source) == ("48000", Source.GROUP)
    assert [each.source for each in entry.synonyms] == [Source.GROUP, Source.FILE, Source.DEFAULT]


def test_the_defaults_of_groups_are_those_of_brokers():
    for key in GroupConfig.keys.values():
        assert BrokerConfig.keys[key.broker_key].default == key.default


def test_a_subscription_has_defaults_and_is_its_own_source():
    metrics = ClientMetricsConfig({"metrics": "a.,b."})
    assert (metrics.metrics, metrics.interval_ms, metrics.match) == (("a.", "b."), 300_000, ())
    assert metrics.describe("metrics").source is Source.CLIENT_METRICS


@pytest.mark.parametrize("match", ["client_id", "=x", "colour=red", "client_id=a,colour=red"])
def test_a_pattern_needs_something_to_match(match):
    with pytest.raises(ConfigError):
        ClientMetricsConfig({"match": match})
