"""Keys that are read for the sake of Kafka's files."""

from ottla.broker.config import BrokerConfig
from ottla.broker.config_cleaner import CleanerConfig
from ottla.broker.config_coordinators import CoordinatorConfig
from ottla.broker.config_ignored import IgnoredConfig
from ottla.broker.config_replication import ReplicationConfig
from ottla.core.config import Scope
from ottla.storage.config import TopicConfig


def test_each_gives_the_reason_why_it_has_no_effect():
    for key in IgnoredConfig.keys.values():
        assert key.doc.startswith("Accepted, without effect: "), key.name


def test_none_is_declared_a_second_time_where_it_would_be_obeyed():
    obeyed = {
        key.name
        for kind in (BrokerConfig, CleanerConfig, CoordinatorConfig, ReplicationConfig)
        for key in vars(kind).values()
        if hasattr(key, "doc")
    }
    twins = {twin.name for key in TopicConfig.keys.values() for twin in key.broker_twins()}
    assert IgnoredConfig.keys.keys() & (obeyed | twins) == set()


def test_those_that_kafka_changes_at_run_time_can_be_changed_here():
    assert IgnoredConfig.keys["num.io.threads"].scope is Scope.CLUSTER_WIDE
    config = BrokerConfig()
    config.update({"num.io.threads": "4"})
    assert config["num.io.threads"] == 4
