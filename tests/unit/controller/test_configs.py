"""Settings: where they are stored and how they change."""

import pytest

from ottla.controller import configs
from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.controller.decision import ConfigChange
from ottla.core.errors import ErrorCode, KafkaError
from ottla.metadata.store import Create, Delete, Set
from tests.unit.controller.helpers import carried_out, cluster, with_topic

TOPIC = ConfigResource(ResourceType.TOPIC, "t")


@pytest.fixture
def context():
    context = cluster(0)
    with_topic(context, NewTopic("t", configs={"a": "1", "b": "2"}))
    return context


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (TOPIC, "/config/topics/t"),
        (ConfigResource(ResourceType.BROKER, "0"), "/config/brokers/0"),
        (ConfigResource(ResourceType.BROKER, ""), "/config/brokers/<default>"),
        (ConfigResource(ResourceType.GROUP, "a/b"), "/config/groups/a%2Fb"),
        (ConfigResource(ResourceType.CLIENT_METRICS, "m"), "/config/client-metrics/m"),
    ],
)
def test_every_resource_has_its_place_and_is_found_there(resource, path):
    assert configs.path_of(resource) == path
    assert configs.resource_at(resource.type, path.rpartition("/")[2]) == resource


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResource(ResourceType.TOPIC, "nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResource(ResourceType.TOPIC, ""), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER, "zero"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER, "²"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER_LOGGER, "0"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.UNKNOWN, "x"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_does_not_exist_has_no_settings(context, resource, code):
    with pytest.raises(KafkaError) as refusal:
        configs.check_resource(context, resource)
    assert refusal.value.code is code


def test_settings_change_one_by_one_or_altogether(context):
    values = {"b": None, "c": "3"}
    assert configs.altered(context, TOPIC, values, replace=False) == {"a": "1", "c": "3"}
    assert configs.altered(context, TOPIC, values, replace=True) == {"c": "3"}


def test_a_change_is_written_against_the_version_that_was_read(context):
    decision = carried_out(context, configs.alter(context, TOPIC, {"a": "9"}))
    assert [(type(w), w.version) for w in decision.writes] == [(Set, 0)]
    assert decision.effects == [ConfigChange(TOPIC, {"a": "9"})]
    assert [w.version for w in configs.alter(context, TOPIC, {}).writes] == [1]


def test_the_first_settings_of_a_resource_make_its_node(context):
    decision = configs.alter(context, ConfigResource(ResourceType.BROKER, ""), {"a": "1"})
    assert isinstance(decision.writes[0], Create)


def test_settings_that_stay_the_same_are_no_change(context):
    assert configs.alter(context, TOPIC, {"b": "2", "a": "1"}).writes == []


def test_settings_of_topics_that_never_came_to_be_are_dropped(context):
    orphan, group = ConfigResource(ResourceType.TOPIC, "never"), ConfigResource(ResourceType.GROUP, "g")
    for resource in (orphan, group):
        carried_out(context, configs.store(context, resource, {"a": "1"}))
    decision = carried_out(context, configs.drop_orphans(context))
    assert decision.writes == [Delete("/config/topics/never", 0)]
    assert decision.effects == [ConfigChange(orphan, None)]
    assert context.configs.keys() == {TOPIC, group}
