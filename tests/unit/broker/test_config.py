"""The broker's settings: Kafka's own files are read, what contradicts itself is refused."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.core.config import Source
from ottla.core.errors import ConfigError
from ottla.core.properties import parse_properties
from ottla.storage.config import TopicConfig

KAFKA_4 = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def refused(values: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig(values)
    return str(raised.value)


def test_a_broker_needs_no_settings():
    config = BrokerConfig()
    assert (config.node_id, config.log_dirs, config.num_partitions) == (1, ("ottla-data",), 1)
    assert config.auto_create_topics_enable
    assert config.listeners == ("PLAINTEXT://127.0.0.1:9092",)


def test_the_file_that_comes_with_kafka_is_accepted_as_it_is():
    config = BrokerConfig(parse_properties(KAFKA_4))
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.offsets_topic_replication_factor == 1


def test_the_old_name_of_the_node_id_is_understood():
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    assert refused({"broker.id": "-5"}).startswith("broker.id is '-5', but must be")


def test_log_dir_stands_in_for_log_dirs():
    assert BrokerConfig({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b, /c"}).log_dirs == ("/b", "/c")
    assert refused({"log.dirs": ""}).startswith("log.dirs is '', but must be")


def test_the_hours_of_retention_show_in_the_finer_key_too():
    config = BrokerConfig({"log.retention.hours": "2"})
    assert config.log_retention_ms == config["log.retention.ms"] == 7_200_000
    entry = config.describe("log.retention.ms")
    assert (entry.value, entry.source, entry.synonyms[0].name) == (
        "7200000",
        Source.FILE,
        "log.retention.hours",
    )
    assert TopicConfig(broker=config).retention_ms == 7_200_000
    config.update({"log.retention.ms": 5}, Source.ALL_BROKERS)
    assert config["log.retention.ms"] == TopicConfig(broker=config).retention_ms == 5


def test_how_often_to_look_for_unsynced_logs_stands_in_for_how_long_they_may_wait():
    config = BrokerConfig({"log.flush.scheduler.interval.ms": "1s"})
    assert config.log_flush_scheduler_interval_ms == 1000
    assert TopicConfig(broker=config).flush_ms == 1000
    assert BrokerConfig().log_flush_scheduler_interval_ms == 2**63 - 1


@pytest.mark.parametrize("name", ["min.insync.replicas", "compression.type", "message.max.bytes"])
def test_what_topics_fall_back_to_is_a_setting_of_the_broker(name):
    assert name in BrokerConfig.keys
    config = BrokerConfig({"min.insync.replicas": 2, "compression.type": "zstd", "message.max.bytes": 77})
    assert (config.min_insync_replicas, config.compression_type, config.message_max_bytes) == (2, "zstd", 77)
    topic = TopicConfig(broker=config)
    assert (topic.min_insync_replicas, topic.compression_type, topic.max_message_bytes) == (2, "zstd", 77)


def test_what_would_make_another_cluster_than_meant_is_refused():
    two_stores = {"zookeeper.connect": "localhost:2181", "metadata.store.connect": "localhost:1"}
    assert "one metadata store" in refused(two_stores)
    assert "no broker in it" in refused({"process.roles": "controller"})
    assert "several nodes" in refused({"controller.quorum.voters": "1@a:1,2@b:1"})


def test_bad_listeners_are_found_when_settings_are_read():
    assert "--advertise" in refused({"listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_limits_for_single_addresses():
    config = BrokerConfig({"max.connections.per.ip.overrides": "127.0.0.1:5, [::1]:7"})
    assert config.connections_per_ip == {"127.0.0.1": 5, "::1": 7}
    assert "address:count" in refused({"max.connections.per.ip.overrides": "127.0.0.1"})


def test_a_key_without_effect_says_so_and_is_checked_all_the_same():
    entry = BrokerConfig({"num.io.threads": "16"}).describe("num.io.threads")
    assert entry.value == "16"
    assert "without effect" in entry.doc
    assert refused({"num.io.threads": "many"}).startswith("num.io.threads is 'many'")


def test_session_timeouts_that_leave_no_room_are_refused():
    assert "above" in refused({"group.min.session.timeout.ms": 10, "group.max.session.timeout.ms": 9})


def test_every_key_has_a_sentence_about_it():
    assert [key.name for key in BrokerConfig.keys.values() if not key.doc.endswith(".")] == []
