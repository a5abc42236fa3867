"""The settings of coordinators have Kafka's defaults."""

from ottla.broker.config_coordinators import CoordinatorConfig

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
