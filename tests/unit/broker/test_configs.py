import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.config_resources import ClientMetricsConfig, GroupConfig
from ottla.broker.configs import ALL_BROKERS, Configs
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.config import Source
from ottla.core.errors import ErrorCode, KafkaError

ORDERS = ConfigResource(ResourceType.TOPIC, "orders")
BROKER_1 = ConfigResource(ResourceType.BROKER, "1")
BROKER_2 = ConfigResource(ResourceType.BROKER, "2")
READERS = ConfigResource(ResourceType.GROUP, "readers")
PUSHED = ConfigResource(ResourceType.CLIENT_METRICS, "pushed")


@pytest.fixture
def configs():
    return Configs(BrokerConfig({"node.id": 1}))


def fault(configs, resource, values):
    with pytest.raises(KafkaError) as caught:
        configs.check(resource, values)
    return caught.value


def test_a_topic_has_one_object_that_follows_changes(configs):
    orders = configs.topic("orders")
    configs.apply(ORDERS, {"retention.ms": "1000"})
    assert configs.topic("orders") is orders
    assert orders.retention_ms == 1000
    configs.apply(ORDERS, {"segment.ms": "5"})
    assert (orders.retention_ms, orders.segment_ms) == (7 * 86_400_000, 5)


def test_a_topic_falls_back_to_the_broker_and_follows_it(configs):
    orders = configs.topic("orders")
    configs.apply(ALL_BROKERS, {"log.retention.ms": "1000"})
    assert orders.retention_ms == 1000
    configs.apply(BROKER_1, {"log.retention.ms": "2000"})
    assert orders.retention_ms == 2000
    configs.apply(BROKER_1, {})
    assert orders.retention_ms == 1000


def test_it_is_told_which_topics_keep_their_records_for_another_time_now(configs):
    for name in ("orders", "visits"):
        configs.topic(name)
    told = []
    configs.on_retention_changed = told.append
    configs.apply(ORDERS, {"retention.ms": "1000"})
    configs.apply(ORDERS, {"retention.ms": "1000", "flush.ms": "7"})
    configs.apply(ORDERS, {"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    assert told == [["orders"], ["orders"]], "not because of flush.ms"
    told.clear()
    configs.apply(ALL_BROKERS, {"log.retention.ms": "2000"})
    assert told == [["visits"]], "the other has a time of its own"
    told.clear()
    for key in ("log.retention.bytes", "log.roll.ms", "log.segment.delete.delay.ms"):
        configs.apply(BROKER_1, {key: "50000"})
    configs.apply(BROKER_2, {"log.retention.bytes": "60000"})
    configs.apply(READERS, {})
    assert [set(each) for each in told] == [{"orders", "visits"}] * 3


def test_settings_of_another_broker_are_not_ours(configs):
    configs.apply(BROKER_2, {"log.retention.ms": "2000"})
    assert configs.topic("orders").retention_ms == 7 * 86_400_000
    with pytest.raises(KafkaError) as caught:
        configs.get(BROKER_2)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_topic_that_was_forgotten_starts_over(configs):
    configs.apply(ORDERS, {"retention.ms": "1000"})
    configs.forget_topic("orders")
    assert configs.topic("orders").retention_ms == 7 * 86_400_000


@pytest.mark.parametrize(
    ("resource", "values", "names"),
    [
        (ORDERS, {"retention.ms": "soon"}, "retention.ms"),
        (ORDERS, {"retenton.ms": "1"}, "did you mean retention.ms"),
        (READERS, {"consumer.session.timeout.ms": "0"}, "consumer.session.timeout.ms"),
        (PUSHED, {"interval.ms": "5"}, "interval.ms"),
        (PUSHED, {"match": "colour=red"}, "match"),
        (PUSHED, {"match": "client_id=["}, "match"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(configs, resource, values, names):
    refused = fault(configs, resource, values)
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert names in refused.detail


@pytest.mark.parametrize(
    ("resource", "values", "names"),
    [
        (BROKER_1, {"log.dirs": "/x"}, "log.dirs"),
        (ALL_BROKERS, {"message.max.bytes": "-4"}, "message.max.bytes"),
        (PUSHED, {"colour": "red"}, "colour"),
    ],
)
def test_kafka_calls_the_request_invalid_where_it_is_about_a_broker_or_a_key_that_nobody_knows(
    configs, resource, values, names
):
    refused = fault(configs, resource, values)
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert names in refused.detail


@pytest.mark.parametrize(
    ("resource", "values"),
    [
        (ORDERS, {"retention.ms": "1"}),
        (BROKER_1, {"log.retention.ms": "1"}),
        (BROKER_2, {"log.retention.ms": "1"}),
        (ALL_BROKERS, {"log.retention.ms": "1"}),
        (READERS, {"consumer.session.timeout.ms": "50000"}),
        (PUSHED, {"metrics": "org.apache.kafka.", "match": "client_id=a.*,client_software_name=java"}),
    ],
)
def test_checking_changes_nothing(configs, resource, values):
    configs.check(resource, values)
    assert configs.topic("orders").retention_ms == 7 * 86_400_000
    assert not configs.groups
    assert not configs.client_metrics


def test_what_has_no_settings_is_refused(configs):
    nothing = ConfigResource(ResourceType.BROKER_LOGGER, "1")
    with pytest.raises(KafkaError):
        configs.check(nothing, {})
    with pytest.raises(KafkaError):
        configs.get(nothing)
    configs.apply(nothing, {})


def test_groups_and_client_metrics_come_and_go(configs):
    configs.apply(READERS, {"consumer.session.timeout.ms": "50000"})
    configs.apply(PUSHED, {"interval.ms": "1000"})
    assert configs.groups["readers"].consumer_session_timeout_ms == 50_000
    assert configs.client_metrics["pushed"].interval_ms == 1000
    assert configs.get(READERS) is configs.groups["readers"]
    configs.apply(READERS, {})
    configs.apply(PUSHED, {})
    assert not configs.groups
    assert not configs.client_metrics


def test_what_is_not_set_still_has_defaults(configs):
    assert isinstance(configs.get(READERS), GroupConfig)
    assert isinstance(configs.get(PUSHED), ClientMetricsConfig)
    assert configs.get(READERS).describe("consumer.session.timeout.ms").source is Source.DEFAULT
    assert configs.get(ALL_BROKERS) is configs.broker
    assert configs.get(ORDERS) is configs.topic("orders")


def test_what_a_newer_broker_stored_does_not_harm(configs, caplog):
    configs.apply(ORDERS, {"retention.ms": "1000", "quantum.mode": "on"})
    assert configs.topic("orders").retention_ms == 1000
    assert "quantum.mode" in caplog.text


@pytest.mark.parametrize(
    "values",
    [
        {"consumer.session.timeout.ms": "44999"},
        {"consumer.session.timeout.ms": "60001"},
        {"consumer.heartbeat.interval.ms": "4999"},
        {"consumer.heartbeat.interval.ms": "15001"},
    ],
)
def test_a_group_stays_within_what_the_broker_allows(values):
    configs = Configs(BrokerConfig({}))
    group = ConfigResource(ResourceType.GROUP, "g")
    with pytest.raises(KafkaError) as refused:
        configs.check(group, values)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    configs.check(group, {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"})
