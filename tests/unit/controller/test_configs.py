"""Settings: where they are stored and how they change."""

import pytest

from ottla.controller import brokers, configs
from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.controller.decision import BrokersChanged, ConfigChange, Decision, LeaderAndIsr, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.metadata.paths import CONFIG_CHANGES, PartitionStateNode
from ottla.metadata.store import ANY_VERSION, Create, Delete, Set
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import broker, carried_out, cluster, effects, look, present, with_topic

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


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
    assert [(type(w), w.path, w.version) for w in decision.writes] == [
        (Set, "/config/topics/t", 0), (Set, CONFIG_CHANGES, ANY_VERSION),
    ]  # fmt: skip
    assert decision.effects == [ConfigChange(TOPIC, {"a": "9"})]
    assert [w.version for w in configs.alter(context, TOPIC, {}).writes] == [1, ANY_VERSION]


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
    assert decision.writes == [Delete("/config/topics/never", 0), Set(CONFIG_CHANGES, b"topics/never")]
    assert decision.effects == [ConfigChange(orphan, None)]
    assert context.configs.keys() == {TOPIC, group}


# --- settings that leaders depend on


def bereaved(*alive):
    """Topics t and own have replicas on 1 and 0, `own` has its settings; then these brokers are left, step by step."""
    context = cluster(0, 1, 2, min_insync=2)
    own = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    for name, settings in (("t", {}), ("own", own)):
        with_topic(context, NewTopic(name, assignments={0: [1, 0]}, configs=settings))
    for brokers_left in alive:
        carried_out(context, brokers.change(context, brokers_left))
    return context


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS, ConfigResource(ResourceType.BROKER, "2")])
def test_a_change_of_min_insync_replicas_forgets_who_is_eligible_before_it_is_stored(resource):
    context = bereaved([broker(0), broker(2)])
    assert look(present(context)) == look(present(context, "own")) == (0, (0,), (1,), 1)
    decision = carried_out(context, configs.alter(context, resource, {"min.insync.replicas": "1"}))
    assert look(present(context)) == (0, (0,), (), 1)
    assert look(present(context, "own")) == (0, (0,), (1,), 1), "it has its own"
    assert [w.path for w in decision.writes] == [
        PartitionStateNode.path("t", 0), configs.path_of(resource), CONFIG_CHANGES,
    ]  # fmt: skip
    assert [type(e) for e in decision.effects] == [
        LeaderAndIsr, UpdateMetadata, UpdateMetadata, ConfigChange,
    ]  # fmt: skip


def test_where_nobody_leads_nothing_is_committed_and_the_eligible_stay_so():
    reborn = broker(0, epoch=2)  # it has lost its memory, and then 1 dies
    context = bereaved([broker(1), broker(2)], [reborn, broker(1), broker(2)], [reborn, broker(2)])
    carried_out(context, configs.alter(context, TOPIC, {"min.insync.replicas": "1"}))
    assert look(present(context)) == (NO_LEADER, (), (1,), 1), "whoever else leads lacks what it has"
    carried_out(context, brokers.change(context, [reborn, broker(1), broker(2)]))
    assert look(present(context)) == (1, (1,), (), 2)


def test_other_settings_leave_the_eligible_alone():
    context = bereaved([broker(0), broker(2)])
    assert len(configs.alter(context, TOPIC, {"retention.ms": "1"}).writes) == 2
    assert present(context).elr == (1,)


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS, ConfigResource(ResourceType.BROKER, "0")])
def test_allowing_unclean_leaders_elects_where_nobody_leads(resource):
    reborn = broker(0, epoch=2)  # it has lost its memory, and then 1 dies
    context = bereaved([broker(1), broker(2)], [reborn, broker(1), broker(2)], [reborn, broker(2)])
    assert look(present(context)) == (NO_LEADER, (), (1,), 1)
    decision = carried_out(
        context, configs.alter(context, resource, {"unclean.leader.election.enable": "TRUE"})
    )
    assert (look(present(context)), present(context).is_recovering) == ((0, (0,), (), 2), True)
    assert look(present(context, "own"))[0] == NO_LEADER
    assert [w.path for w in decision.writes[:2]] == [configs.path_of(resource), CONFIG_CHANGES]
    assert len(effects(decision, LeaderAndIsr)) == 1
    assert len(effects(decision, UpdateMetadata)) == 2


def test_both_at_once_are_one_write_for_each_partition():
    context = bereaved([broker(0), broker(2)], [broker(2)])
    assert look(present(context)) == (NO_LEADER, (), (1, 0), 2)
    carried_out(context, Decision(changes=[BrokersChanged((broker(1), broker(2)))]))
    both = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    decision = carried_out(context, configs.alter(context, TOPIC, both))
    assert [w.path for w in decision.writes] == [
        "/config/topics/t", CONFIG_CHANGES, PartitionStateNode.path("t", 0),
    ]  # fmt: skip
    assert look(present(context)) == (1, (1,), (), 3)
