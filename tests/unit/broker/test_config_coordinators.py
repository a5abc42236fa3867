"""The settings of coordinators have Kafka's defaults."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.config_coordinators import CoordinatorConfig
from ottla.core.errors import ConfigError

KAFKA = {
    "offsets.topic.num.partitions": 50,
    "offsets.topic.replication.factor": 3,
    "offsets.retention.minutes": 10080,
    "offset.metadata.max.bytes": 4096,
    "group.initial.rebalance.delay.ms": 3000,
    "group.min.session.timeout.ms": 6000,
    "group.max.session.timeout.ms": 1800000,
    "group.consumer.session.timeout.ms": 45000,
    "group.consumer.heartbeat.interval.ms": 5000,
    "transaction.state.log.num.partitions": 50,
    "transaction.state.log.min.isr": 2,
    "transaction.max.timeout.ms": 900000,
    "transactional.id.expiration.ms": 604800000,
}


def test_the_defaults_are_those_of_kafka():
    config = CoordinatorConfig()
    assert {name: config[name] for name in KAFKA} == KAFKA


def test_the_types_are_those_of_kafka():
    types = {key: CoordinatorConfig().describe(key).type.name for key in KAFKA}
    assert types["offsets.topic.replication.factor"] == "SHORT"
    assert types["offsets.topic.num.partitions"] == "INT"
    assert types["group.min.session.timeout.ms"] == "INT"


@pytest.mark.parametrize(
    "settings",
    [
        {"group.consumer.min.session.timeout.ms": "70000"},
        {"group.consumer.session.timeout.ms": "30000"},
        {"group.consumer.heartbeat.interval.ms": "16000"},
        {"group.consumer.min.heartbeat.interval.ms": "1000", "group.consumer.heartbeat.interval.ms": "999"},
        {
            "group.consumer.max.heartbeat.interval.ms": "50000",
            "group.consumer.heartbeat.interval.ms": "46000",
        },
    ],
)
def test_timeouts_of_the_new_protocol_must_fit_each_other(settings):
    with pytest.raises(ConfigError, match=r"group\.consumer"):
        BrokerConfig(settings)
