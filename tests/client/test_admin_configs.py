"""Settings, brokers and log directories through the admin client, against both servers."""

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import ConfigResource as TheirResource

from ottla.client.admin.blocking import Admin
from ottla.client.admin.config_values import (
    AlterConfigOp,
    AlterConfigOpType,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
)
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.errors import PartialFailure, UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from tests.interop.brokers import eventually


@pytest.fixture
def admin(server):
    with Admin(bootstrap_servers=server) as client:
        yield client


@pytest.fixture
def node_id(admin):
    (broker,) = admin.describe_cluster().brokers
    return broker.node_id


def is_apache(admin):
    return "metadata.version" in admin.describe_features().supported_features


def value_of(admin, resource, name):
    found = admin.describe_configs([resource])[resource].get(name)
    return None if found is None else found.value


def test_settings_are_described_with_where_they_come_from(admin, server, new_topic):
    topic = ConfigResource.topic(new_topic(retention_ms=5000))
    found = admin.describe_configs([topic], include_synonyms=True, include_documentation=True)[topic]
    retention = found["retention.ms"]
    assert (retention.value, retention.source) == ("5000", ConfigSource.TOPIC_CONFIG)
    assert retention.type is ConfigType.LONG and not retention.is_default and retention.documentation
    assert retention.synonyms[0].name == "retention.ms"
    assert found["cleanup.policy"].is_default and found["cleanup.policy"].value == "delete"
    theirs = AdminClient({"bootstrap.servers": server, "log_level": 0})
    (answer,) = theirs.describe_configs([TheirResource(TheirResource.Type.TOPIC, topic.name)]).values()
    assert {key: each.value for key, each in answer.result(20).items()} == {
        key: each.value for key, each in found.items()
    }
    few = admin.describe_configs([topic], config_names=["retention.ms"])[topic]
    assert list(few) == ["retention.ms"] and few["retention.ms"].documentation is None


def test_single_settings_are_changed_and_lists_grow_and_shrink(admin, new_topic):
    topic = ConfigResource.topic(new_topic(retention_ms=5000))

    def becomes(name, wanted):
        """A broker of Apache Kafka hears of a change a moment after the one who made it."""
        return eventually(lambda: value_of(admin, topic, name) == wanted)

    admin.incremental_alter_configs({topic: {"flush.ms": 7}}, validate_only=True)
    admin.incremental_alter_configs({topic: {"flush.messages": 7, "retention.ms": None}})
    assert becomes("flush.messages", "7") and becomes("retention.ms", "604800000")
    assert value_of(admin, topic, "flush.ms") != "7", "that was only validated"
    change = AlterConfigOp("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    admin.incremental_alter_configs({topic: [change]})
    assert becomes("cleanup.policy", "delete,compact")
    change = AlterConfigOp("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    admin.incremental_alter_configs({topic: [change]})
    assert becomes("cleanup.policy", "compact")
    admin.alter_configs({topic: {"retention.ms": 6000}})
    assert becomes("retention.ms", "6000") and becomes("cleanup.policy", "delete")


def test_of_many_resources_each_has_its_result(admin, name, new_topic):
    good, missing = ConfigResource.topic(new_topic()), ConfigResource.topic(name)
    with pytest.raises(PartialFailure) as failed:
        admin.incremental_alter_configs({good: {"flush.ms": 7}, missing: {"flush.ms": 7}})
    assert failed.value.results[good] is None
    assert failed.value.results[missing].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(PartialFailure, match=name):
        admin.describe_configs([good, missing])
    with pytest.raises(PartialFailure, match=r"flush\.ms") as failed:
        admin.incremental_alter_configs({good: {"flush.ms": "soon"}})
    assert failed.value.code is ErrorCode.INVALID_CONFIG


def test_a_broker_is_asked_itself(admin, node_id):
    broker, everyone = ConfigResource.broker(node_id), ConfigResource.broker()
    admin.incremental_alter_configs({everyone: {"log.cleaner.backoff.ms": 12_345}})
    names = ["log.cleaner.backoff.ms", "node.id"]

    def source():
        return admin.describe_configs([broker], config_names=names)[broker][names[0]].source

    assert eventually(lambda: source() is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    found = admin.describe_configs([broker, everyone], config_names=names)
    assert found[broker]["node.id"].is_read_only
    assert found[everyone]["log.cleaner.backoff.ms"].value == "12345"
    admin.incremental_alter_configs({everyone: {"log.cleaner.backoff.ms": None}})
    with pytest.raises(PartialFailure) as failed:
        admin.describe_configs([broker, ConfigResource.broker(4711)])
    assert failed.value.results[ConfigResource.broker(4711)].code is ErrorCode.BROKER_NOT_AVAILABLE
    with pytest.raises(KafkaError, match="id of a broker"):
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "first")])


def test_loggers_groups_and_client_metrics_have_settings(admin, node_id, name):
    loggers = ConfigResource.broker_logger(node_id)
    logger = next(each for each in admin.describe_configs([loggers])[loggers] if each != "root")
    admin.incremental_alter_configs({loggers: {logger: "DEBUG"}})
    assert value_of(admin, loggers, logger) == "DEBUG"
    admin.incremental_alter_configs({loggers: {logger: None}})
    group = ConfigResource.group(name)
    admin.incremental_alter_configs({group: {"consumer.session.timeout.ms": 50_000}})
    assert eventually(lambda: value_of(admin, group, "consumer.session.timeout.ms") == "50000")
    setting = admin.describe_configs([group])[group]["consumer.session.timeout.ms"]
    assert setting.source is ConfigSource.GROUP_CONFIG
    metrics = ConfigResource.client_metrics(name)
    admin.incremental_alter_configs({metrics: {"interval.ms": 60_000}})
    assert eventually(lambda: value_of(admin, metrics, "interval.ms") == "60000")
    everything = admin.list_config_resources()
    assert {group, metrics, ConfigResource.broker(node_id)} <= set(everything)
    assert metrics in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])
    assert not {each.resource_type for each in admin.list_config_resources([ConfigResourceType.TOPIC])} - {
        ConfigResourceType.TOPIC
    }


def test_the_cluster_is_described_as_librdkafka_sees_it(admin, server):
    found = admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
    librdkafka = AdminClient({"bootstrap.servers": server, "log_level": 0})
    theirs = librdkafka.describe_cluster().result(20)
    assert found.cluster_id == theirs.cluster_id
    assert found.controller == found.brokers[0] and found.controller.node_id == theirs.controller.id
    assert f"{found.brokers[0].host}:{found.brokers[0].port}" == server and not found.brokers[0].is_fenced
    assert found.authorized_operations
    assert admin.describe_cluster().authorized_operations is None


def test_log_directories_are_described_and_replicas_moved_within_them(admin, node_id, new_topic):
    topic = new_topic(partitions=2)
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    ((path, directory),) = admin.describe_log_dirs()[node_id].items()
    assert directory.error is None and directory.total_bytes > directory.usable_bytes > 0
    assert eventually(lambda: both <= admin.describe_log_dirs()[node_id][path].replicas.keys())
    one = admin.describe_log_dirs([node_id], partitions=[TopicPartition(topic, 1)])[node_id][path]
    assert one.replicas.keys() == {TopicPartition(topic, 1)}
    assert one.replicas[TopicPartition(topic, 1)] == (0, 0, False)
    with pytest.raises(PartialFailure) as failed:
        admin.describe_log_dirs([node_id, 4711])
    assert failed.value.results[4711].code is ErrorCode.BROKER_NOT_AVAILABLE
    here = TopicPartitionReplica(topic, 0, node_id)
    admin.alter_replica_log_dirs({here: path})
    with pytest.raises(PartialFailure, match=topic) as failed:
        admin.alter_replica_log_dirs({here: "/no/such/directory"})
    assert failed.value.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_features_are_described_and_updated_where_that_is_offered(admin):
    found = admin.describe_features()
    assert found.finalized_features["group.version"] == 1
    levels = found.supported_features["group.version"]
    assert levels.min_version <= 1 <= levels.max_version
    if not is_apache(admin):
        with pytest.raises(UnsupportedVersionError, match="does not offer UpdateFeatures"):
            admin.update_features({"group.version": 1}, validate_only=True)
        return
    admin.update_features({"group.version": 1}, validate_only=True)
    with pytest.raises(KafkaError, match="1000"):
        admin.update_features({"group.version": 1000})


def test_what_only_kraft_has_is_refused_in_a_sentence_elsewhere(admin, node_id):
    if not is_apache(admin):
        with pytest.raises(UnsupportedVersionError, match="does not offer DescribeQuorum"):
            admin.describe_metadata_quorum()
        with pytest.raises(UnsupportedVersionError, match="does not offer UnregisterBroker"):
            admin.unregister_broker(4711)
        return
    quorum = admin.describe_metadata_quorum()
    assert quorum.leader_id == node_id and [each.replica_id for each in quorum.voters] == [node_id]
    assert quorum.high_watermark > 0 and quorum.voters[0].log_end_offset >= quorum.high_watermark
    with pytest.raises(KafkaError, match="4711") as error:
        admin.unregister_broker(4711)
    assert error.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
