"""The settings of a topic are Kafka's: all of them, with its defaults and its broker-wide twins."""

import pytest

from ottla.core.errors import ConfigError
from ottla.storage.config import TopicConfig

KAFKA_4 = {
    # key: (default as DescribeConfigs shows it, the broker key behind it)
    "cleanup.policy": ("delete", "log.cleanup.policy"),
    "compression.gzip.level": ("-1", "compression.gzip.level"),
    "compression.lz4.level": ("9", "compression.lz4.level"),
    "compression.type": ("producer", "compression.type"),
    "compression.zstd.level": ("3", "compression.zstd.level"),
    "delete.retention.ms": ("86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": ("60000", "log.segment.delete.delay.ms"),
    "flush.messages": ("9223372036854775807", "log.flush.interval.messages"),
    "flush.ms": ("9223372036854775807", "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": ("", None),
    "index.interval.bytes": ("4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": ("", None),
    "local.retention.bytes": ("-2", "log.local.retention.bytes"),
    "local.retention.ms": ("-2", "log.local.retention.ms"),
    "max.compaction.lag.ms": ("9223372036854775807", "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": ("1048588", "message.max.bytes"),
    "message.timestamp.after.max.ms": ("3600000", "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": ("9223372036854775807", "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": ("CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("1", "min.insync.replicas"),
    "preallocate": ("false", "log.preallocate"),
    "remote.copy.lag.bytes": ("0", None),
    "remote.copy.lag.ms": ("0", None),
    "remote.log.copy.disable": ("false", None),
    "remote.log.delete.on.disable": ("false", None),
    "remote.storage.enable": ("false", None),
    "retention.bytes": ("-1", "log.retention.bytes"),
    "retention.ms": ("604800000", "log.retention.ms"),
    "segment.bytes": ("1073741824", "log.segment.bytes"),
    "segment.index.bytes": ("10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": ("0", "log.roll.jitter.ms"),
    "segment.ms": ("604800000", "log.roll.ms"),
    "unclean.leader.election.enable": ("false", "unclean.leader.election.enable"),
}
OURS = {"producer.id.expiration.ms"}


def test_every_topic_key_of_kafka_is_known_and_no_other_but_ours():
    assert TopicConfig.keys.keys() - OURS == KAFKA_4.keys()


@pytest.mark.parametrize("name", KAFKA_4)
def test_a_key_has_kafkas_default_and_twin(name):
    key = TopicConfig.keys[name]
    assert (key.write(key.default), key.broker_key) == KAFKA_4[name]


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"compression.gzip.level": "0"}, "compression.gzip.level is '0'"),
        ({"compression.lz4.level": "18"}, "compression.lz4.level is '18'"),
        ({"compression.type": "none"}, "compression.type is 'none'"),
        ({"min.insync.replicas": "0"}, "min.insync.replicas is '0'"),
        ({"min.cleanable.dirty.ratio": "1.1"}, "min.cleanable.dirty.ratio is '1.1'"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}, "is above max.compaction.lag.ms"),
        ({"remote.storage.enable": "true"}, "there is no remote storage here"),
        ({"leader.replication.throttled.replicas": "0:1,x"}, "pairs of partition:broker"),
    ],
)
def test_what_kafka_refuses_is_refused(values, sentence):
    with pytest.raises(ConfigError, match=sentence):
        TopicConfig(values)


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1,12:3"])
def test_throttled_replicas_are_all_none_or_pairs(text):
    config = TopicConfig({"follower.replication.throttled.replicas": text})
    assert ",".join(config.follower_replication_throttled_replicas) == text
