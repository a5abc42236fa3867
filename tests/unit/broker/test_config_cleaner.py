"""The settings of the cleaner have Kafka's names and defaults."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.config_cleaner import CleanerConfig
from ottla.core.errors import ConfigError

KAFKA = {
    "log.cleaner.enable": (True, "BOOLEAN"),
    "log.cleaner.threads": (1, "INT"),
    "log.cleaner.backoff.ms": (15_000, "LONG"),
    "log.cleaner.dedupe.buffer.size": (134_217_728, "LONG"),
    "log.cleaner.io.buffer.size": (524_288, "INT"),
    "log.cleaner.io.buffer.load.factor": (0.9, "DOUBLE"),
    "log.cleaner.io.max.bytes.per.second": (1.7976931348623157e308, "DOUBLE"),
}


def test_defaults_and_types_are_those_of_kafka():
    config = CleanerConfig()
    assert {name: (config[name], config.describe(name).type.name) for name in KAFKA} == KAFKA


@pytest.mark.parametrize("name", KAFKA)
def test_all_can_change_while_the_broker_runs(name):
    config = BrokerConfig()
    config.update({name: str(config[name]).lower()})
    assert not config.describe(name).read_only


def test_the_largest_number_of_bytes_per_second_is_no_limit():
    assert CleanerConfig().cleaner_rate is None
    assert CleanerConfig({"log.cleaner.io.max.bytes.per.second": "1000000"}).cleaner_rate == 1e6


def test_every_thread_needs_a_megabyte_for_keys():
    with pytest.raises(ConfigError, match=r"log.cleaner.dedupe.buffer.size must be more than 1 MiB for each"):
        BrokerConfig({"log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.threads": "2"})
    BrokerConfig({"log.cleaner.dedupe.buffer.size": "2097153"})


@pytest.mark.parametrize(("backoff_ms", "seconds"), [(0, 0.1), (15_000, 15.0), (2**63 - 1, 86_400.0)])
def test_it_is_not_looked_for_work_all_the_time(backoff_ms, seconds):
    assert CleanerConfig({"log.cleaner.backoff.ms": backoff_ms}).cleaner_backoff_s == seconds
