"""The settings of replication have Kafka's names and defaults."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.config_replication import ReplicationConfig
from ottla.core.errors import ConfigError

KAFKA = {
    "replica.lag.time.max.ms": (30_000, "LONG"),
    "replica.socket.timeout.ms": (30_000, "INT"),
    "replica.fetch.max.bytes": (1_048_576, "INT"),
    "replica.fetch.wait.max.ms": (500, "INT"),
    "replica.fetch.min.bytes": (1, "INT"),
    "replica.fetch.response.max.bytes": (10_485_760, "INT"),
    "replica.fetch.backoff.ms": (1_000, "INT"),
    "num.replica.fetchers": (1, "INT"),
    "replica.selector.class": (None, "STRING"),
    "leader.replication.throttled.rate": (2**63 - 1, "LONG"),
    "follower.replication.throttled.rate": (2**63 - 1, "LONG"),
    "replication.quota.window.num": (11, "INT"),
    "replication.quota.window.size.seconds": (1, "INT"),
}


def test_defaults_and_types_are_those_of_kafka():
    config = ReplicationConfig()
    assert {name: (config[name], config.describe(name).type.name) for name in KAFKA} == KAFKA


@pytest.mark.parametrize(
    "name",
    ["num.replica.fetchers", "leader.replication.throttled.rate", "follower.replication.throttled.rate"],
)
def test_rates_and_the_number_of_fetchers_can_change_while_the_broker_runs(name):
    config = BrokerConfig()
    config.update({name: "3"})
    assert config[name] == 3


def test_a_quiet_partition_must_not_make_its_followers_seem_slow():
    with pytest.raises(ConfigError, match=r"replica.fetch.wait.max.ms must not be more than"):
        BrokerConfig({"replica.lag.time.max.ms": "400"})


@pytest.mark.parametrize(
    "name", ["LeaderSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"]
)
def test_selectors_are_those_of_kafka(name):
    assert BrokerConfig({"replica.selector.class": name}).replica_selector_class == name


def test_a_selector_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="RackAwareReplicaSelector"):
        BrokerConfig({"replica.selector.class": "com.example.Mine"})
