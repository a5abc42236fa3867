"""The controller's settings have Kafka's names and defaults."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.core.errors import ConfigError


def test_defaults_are_kafkas():
    config = BrokerConfig({})
    assert config.controlled_shutdown_enable
    assert config.controlled_shutdown_max_retries == 3
    assert config.controlled_shutdown_retry_backoff_ms == 5_000
    assert config.controller_socket_timeout_ms == 30_000
    assert config.leader_imbalance_per_broker_percentage == 10
    assert config.rebalance_seconds == 300


def test_leadership_is_left_where_it_is_if_nobody_is_to_look():
    assert BrokerConfig({"auto.leader.rebalance.enable": "false"}).rebalance_seconds is None


def test_nobody_looks_all_the_time():
    with pytest.raises(ConfigError, match=r"leader\.imbalance\.check\.interval\.seconds"):
        BrokerConfig({"leader.imbalance.check.interval.seconds": "0"})
