"""Where the metadata is kept, as settings say it."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.core.errors import ConfigError


def test_a_broker_of_which_nothing_is_said_is_a_cluster_of_its_own():
    assert not BrokerConfig().has_shared_store


@pytest.mark.parametrize("key", ["zookeeper.connect", "metadata.store.connect", "metadata.store.listen"])
def test_a_store_that_others_reach_is_shared(key):
    assert BrokerConfig({key: "127.0.0.1:2181"}).has_shared_store


def test_the_session_lasts_as_long_as_kafka_says_for_each_kind_of_store():
    timeouts = {"zookeeper.session.timeout.ms": 18_001, "broker.session.timeout.ms": 9_001}
    assert BrokerConfig(timeouts).session_timeout_ms == 9_001
    assert BrokerConfig({**timeouts, "zookeeper.connect": "zk:2181"}).session_timeout_ms == 18_001


def test_the_defaults_are_those_of_kafka():
    config = BrokerConfig({"zookeeper.connect": "zk:2181"})
    assert (config.session_timeout_ms, config.zookeeper_connection_timeout_ms) == (18_000, None)
    assert config.initial_broker_registration_timeout_ms == 60_000


def test_two_stores_are_refused():
    with pytest.raises(ConfigError, match=r"zookeeper\.connect and metadata\.store\.listen are set"):
        BrokerConfig({"zookeeper.connect": "zk:2181", "metadata.store.listen": "127.0.0.1:1"})
