import logging

import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import Configs
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.config import Key, Password
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.handlers.fakes import ask, broker_with, node, refusal, topic

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class SecretiveConfig(BrokerConfig):
    safe_password = Key("safe.password", Password, None, doc="Not to be shown.")


class Store:
    """As much of a controller as stores settings: judged first, then applied."""

    def __init__(self, configs):
        self.configs = configs
        self.stored = {}

    def configs_of(self, kind, name):
        return self.stored.get(ConfigResource(ResourceType(kind), name), {})

    async def alter_configs(self, resource, values, *, replace, validate_only):
        before = {} if replace else self.configs_of(*resource)
        after = {name: value for name, value in {**before, **values}.items() if value is not None}
        self.configs.check(resource, after)
        if not validate_only:
            self.stored[resource] = after
            self.configs.apply(resource, after)


@pytest.fixture
def broker():
    broker = broker_with(topic("orders"), topic("refunds"), nodes=[node(1), node(2)])
    broker.config = SecretiveConfig({"node.id": 1, "log.retention.hours": 24, "safe.password": "hush"})
    broker.configs = Configs(broker.config)
    broker.controller = broker.to_controller = Store(broker.configs)
    return broker


def describe(broker, kind, name, *, keys=None, version=4, **how):
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    (result,) = ask(broker, "DescribeConfigs", version, resources=[resource], **how).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def settings(broker, kind, name, **how):
    result = describe(broker, kind, name, **how)
    assert (result.error_code, result.error_message) == (0, None)
    return {each.name: each for each in result.configs}


def alter(broker, kind, name, values, *, version=2, validate_only=False):
    resource = AlterConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterConfigsRequest.Resource.Setting(name=key, value=value) for key, value in values],
    )
    (result,) = ask(
        broker, "AlterConfigs", version, resources=[resource], validate_only=validate_only
    ).responses
    return result


def change(broker, kind, name, *changes, version=1, validate_only=False):
    """Each change is an operation, a key and a value."""
    resource = IncrementalAlterConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.Resource.Setting(name=key, config_operation=operation, value=value)
            for operation, key, value in changes
        ],
    )
    (result,) = ask(
        broker, "IncrementalAlterConfigs", version, resources=[resource], validate_only=validate_only
    ).responses
    return result


# --- describe


def test_a_topic_has_every_key_with_type_source_and_default(broker):
    found = settings(broker, TOPIC, "orders")
    assert found.keys() == broker.configs.topic("orders").keys.keys()
    segment = found["segment.bytes"]
    assert (segment.value, segment.config_source, segment.config_type) == ("1073741824", 5, 3)
    assert (segment.read_only, segment.is_sensitive, segment.synonyms) == (False, False, [])
    assert segment.documentation is None


def test_synonyms_tell_where_a_value_comes_from(broker):
    broker.configs.apply(ConfigResource(ResourceType.TOPIC, "orders"), {"retention.ms": "1000"})
    retention = settings(broker, TOPIC, "orders", include_synonyms=True)["retention.ms"]
    assert (retention.value, retention.config_source) == ("1000", 1)
    assert [(each.name, each.value, each.source) for each in retention.synonyms] == [
        ("retention.ms", "1000", 1),
        ("log.retention.hours", "86400000", 4),
        ("log.retention.ms", "604800000", 5),
    ]


def test_documentation_comes_when_it_is_asked_for(broker):
    assert settings(broker, TOPIC, "orders", include_documentation=True)["retention.ms"].documentation


def test_only_the_keys_that_were_asked_for_come_back(broker):
    assert settings(broker, TOPIC, "orders", keys=["retention.ms", "nonsense"]).keys() == {"retention.ms"}
    assert settings(broker, TOPIC, "orders", keys=[]) == settings(broker, TOPIC, "orders")


@pytest.mark.parametrize("version", range(5))
def test_every_version_can_be_asked(broker, version):
    assert settings(broker, TOPIC, "orders", version=version)["cleanup.policy"].value == "delete"
    assert settings(broker, BROKER, "1", version=version)["node.id"].value == "1"


def test_version_0_asks_whether_a_topic_has_set_a_key_itself(broker):
    broker.configs.apply(ConfigResource(ResourceType.TOPIC, "orders"), {"segment.ms": "1000"})
    found = settings(broker, TOPIC, "orders", version=0)
    assert not found["segment.ms"].is_default
    assert found["retention.ms"].is_default  # though the broker has set it
    assert not settings(broker, BROKER, "1", version=0)["node.id"].is_default


def test_a_broker_shows_its_own_settings_but_no_secrets(broker):
    found = settings(broker, BROKER, "1", include_synonyms=True)
    assert (found["node.id"].config_source, found["node.id"].read_only) == (4, True)
    secret = found["safe.password"]
    assert (secret.value, secret.is_sensitive, {each.value for each in secret.synonyms}) == (
        None,
        True,
        {None},
    )


def test_all_brokers_together_show_what_was_set_for_all(broker):
    assert settings(broker, BROKER, "") == {}
    broker.configs.apply(ConfigResource(ResourceType.BROKER, ""), {"log.retention.ms": "1000"})
    broker.configs.apply(ConfigResource(ResourceType.BROKER, "1"), {"log.retention.ms": "2000"})
    found = settings(broker, BROKER, "", include_synonyms=True)
    assert found.keys() == {"log.retention.ms"}
    assert (found["log.retention.ms"].value, found["log.retention.ms"].config_source) == ("1000", 3)
    assert settings(broker, BROKER, "1")["log.retention.ms"].value == "2000"


def test_loggers_are_told_with_their_levels(broker):
    logging.getLogger("ottla.testing.described")
    found = settings(broker, LOGGER, "1")
    assert found["ottla.testing.described"].value in {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
    assert found["root"].config_source == 6


def test_groups_and_client_metrics_have_defaults_without_being_known(broker):
    assert settings(broker, GROUP, "readers")["consumer.session.timeout.ms"].value == "45000"
    assert settings(broker, METRICS, "pushed")["interval.ms"].value == "300000"


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nothing", 3),
        (TOPIC, "not a name", 17),
        (BROKER, "2", 42),
        (BROKER, "two", 42),
        (LOGGER, "2", 42),
        (GROUP, "", 42),
        (METRICS, "", 42),
        (0, "x", 42),
        (99, "x", 42),
    ],
)
def test_what_cannot_be_described_is_told_so(broker, kind, name, code):
    result = describe(broker, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


@pytest.mark.parametrize(
    ("kind", "name", "code"), [(TOPIC, "orders", 29), (BROKER, "1", 31), (GROUP, "g", 30), (METRICS, "m", 31)]
)
def test_nobody_sees_or_changes_without_permission(broker, kind, name, code):
    broker.authorizer.deny(Operation.DESCRIBE_CONFIGS)
    broker.authorizer.deny(Operation.ALTER_CONFIGS)
    assert describe(broker, kind, name).error_code == code
    assert alter(broker, kind, name, []).error_code == code
    assert change(broker, kind, name).error_code == code


# --- alter


def test_altering_replaces_everything(broker):
    assert alter(broker, TOPIC, "orders", [("retention.ms", "1000")]).error_code == 0
    assert alter(broker, TOPIC, "orders", [("segment.ms", "5000")], version=0).error_code == 0
    assert broker.controller.configs_of(TOPIC, "orders") == {"segment.ms": "5000"}
    assert broker.configs.topic("orders").retention_ms == 86_400_000


def test_a_change_leaves_the_rest_alone(broker):
    change(broker, TOPIC, "orders", (SET, "retention.ms", "1000"))
    assert change(broker, TOPIC, "orders", (SET, "segment.ms", "5000"), version=0).error_code == 0
    assert broker.controller.configs_of(TOPIC, "orders") == {"retention.ms": "1000", "segment.ms": "5000"}
    change(broker, TOPIC, "orders", (DELETE, "retention.ms", None))
    assert broker.controller.configs_of(TOPIC, "orders") == {"segment.ms": "5000"}


def test_words_are_added_to_a_list_and_taken_from_it(broker):
    change(broker, TOPIC, "orders", (APPEND, "cleanup.policy", "compact"))
    assert broker.configs.topic("orders").cleanup_policy == ("delete", "compact")
    change(broker, TOPIC, "orders", (APPEND, "cleanup.policy", "compact,delete"))
    assert broker.configs.topic("orders").cleanup_policy == ("delete", "compact")
    change(broker, TOPIC, "orders", (SUBTRACT, "cleanup.policy", "delete"))
    assert broker.configs.topic("orders").cleanup_policy == ("compact",)


def test_adding_starts_from_the_resources_own_value_also_of_another_broker(broker):
    change(broker, BROKER, "2", (SET, "log.cleanup.policy", "compact"))
    assert change(broker, BROKER, "2", (APPEND, "log.cleanup.policy", "delete")).error_code == 0
    assert broker.controller.configs_of(BROKER, "2") == {"log.cleanup.policy": "compact,delete"}


def test_checking_only_stores_nothing(broker):
    assert alter(broker, TOPIC, "orders", [("retention.ms", "1")], validate_only=True).error_code == 0
    assert change(broker, TOPIC, "orders", (SET, "retention.ms", "x"), validate_only=True).error_code == 40
    assert broker.controller.stored == {}


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (BROKER, "", "log.retention.ms", "1000"),
        (BROKER, "1", "log.retention.ms", "1000"),
        (GROUP, "readers", "consumer.session.timeout.ms", "50000"),
        (METRICS, "pushed", "interval.ms", "1000"),
    ],
)
def test_other_resources_change_too(broker, kind, name, key, value):
    assert change(broker, kind, name, (SET, key, value)).error_code == 0
    assert settings(broker, kind, name)[key].value == value
    assert alter(broker, kind, name, []).error_code == 0
    assert broker.controller.configs_of(kind, name) == {}


@pytest.mark.parametrize(
    ("changes", "code", "names"),
    [
        ([(SET, "retention.ms", "soon")], 40, "retention.ms"),
        ([(SET, "no.such.key", "1")], 40, "no.such.key"),
        ([(APPEND, "no.such.key", "1")], 40, "no.such.key"),
        ([(APPEND, "retention.ms", "1")], 40, "retention.ms"),
        ([(SET, "retention.ms", None)], 42, "retention.ms"),
        ([(SET, "retention.ms", "1"), (DELETE, "retention.ms", None)], 42, "retention.ms"),
        ([(7, "retention.ms", "1")], 42, "retention.ms"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_by_name(broker, changes, code, names):
    result = change(broker, TOPIC, "orders", *changes)
    assert result.error_code == code
    assert names in result.error_message
    assert broker.controller.stored == {}


@pytest.mark.parametrize(
    ("values", "code"),
    [([("retention.ms", None)], 42), ([("retention.ms", "1")] * 2, 42), ([("x", "1")], 40)],
)
def test_altering_takes_no_nulls_no_doubles_and_nothing_unknown(broker, values, code):
    assert alter(broker, TOPIC, "orders", values).error_code == code


def test_one_resource_that_fails_does_not_harm_the_others(broker):
    resources = [
        AlterConfigsRequest.Resource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[AlterConfigsRequest.Resource.Setting(name="retention.ms", value="1000")],
        )
        for name in ("orders", "nothing", "refunds")
    ]
    response = ask(broker, "AlterConfigs", 1, resources=resources, validate_only=False)
    assert [each.error_code for each in response.responses] == [0, 3, 0]
    response = ask(broker, "AlterConfigs", 1, resources=[resources[0]] * 2, validate_only=False)
    assert [each.error_code for each in response.responses] == [42, 42]


def test_levels_of_loggers_change_at_once_and_only_incrementally(broker):
    logger = logging.getLogger("ottla.testing.changed")
    assert change(broker, LOGGER, "1", (SET, logger.name, "ERROR"), validate_only=True).error_code == 0
    assert logger.level == logging.NOTSET
    assert change(broker, LOGGER, "1", (SET, logger.name, "ERROR")).error_code == 0
    assert logger.level == logging.ERROR
    assert change(broker, LOGGER, "1", (DELETE, logger.name, None)).error_code == 0
    assert logger.level == logging.NOTSET
    assert change(broker, LOGGER, "1", (APPEND, logger.name, "INFO")).error_code == 42
    assert change(broker, LOGGER, "2", (SET, logger.name, "INFO")).error_code == 42
    assert alter(broker, LOGGER, "1", [(logger.name, "INFO")]).error_code == 42


# --- list


def listed(broker, version, *types):
    fields = {"resource_types": list(types)} if version else {}
    response = ask(broker, "ListConfigResources", version, **fields)
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_version_0_lists_client_metrics_only(broker):
    change(broker, METRICS, "pushed", (SET, "interval.ms", "1000"))
    assert listed(broker, 0) == [(METRICS, "pushed")]


def test_resources_are_listed_by_type(broker):
    change(broker, GROUP, "readers", (SET, "consumer.session.timeout.ms", "50000"))
    assert listed(broker, 1, TOPIC) == [(TOPIC, "orders"), (TOPIC, "refunds")]
    assert listed(broker, 1, GROUP, BROKER) == [(GROUP, "readers"), (BROKER, "1"), (BROKER, "2")]
    assert {kind for kind, _ in listed(broker, 1)} == {TOPIC, BROKER, LOGGER, GROUP}


def test_types_that_have_no_resources_are_refused(broker):
    assert refusal(broker, "ListConfigResources", 1, resource_types=[99]) == 35
    broker.authorizer.deny(Operation.DESCRIBE_CONFIGS)
    assert refusal(broker, "ListConfigResources", 1, resource_types=[]) == 31
