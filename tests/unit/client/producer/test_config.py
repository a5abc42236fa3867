"""Settings of producers: what contradicts what, and the words of Kafka 0.8 and 0.9."""

import inspect

import pytest

from ottla.client import AsyncProducer, Producer
from ottla.client.producer.config import OLD, ProducerConfig, producer_config
from ottla.core.errors import ConfigError
from ottla.records.compression import Codec

MEANINGS = [
    ("producer_type", "sync", "send_waits", True),
    ("producer_type", "async", "send_waits", False),
    ("request_required_acks", 1, "acks", 1),
    ("request.required.acks", "-1", "acks", -1),
    ("queue_buffering_max_ms", 50, "linger_ms", 50),
    ("queue_buffering_max_messages", 7, "buffer_max_records", 7),
    ("batch_num_messages", 9, "batch_max_records", 9),
    ("timeout_ms", 1234, "request_timeout_ms", 1234),
    ("metadata_fetch_timeout_ms", 99, "max_block_ms", 99),
    ("queue_enqueue_timeout_ms", 0, "buffer_full", "drop"),
    ("queue_enqueue_timeout_ms", -1, "max_block_ms", -1),
    ("queue_enqueue_timeout_ms", 20, "max_block_ms", 20),
    ("block_on_buffer_full", True, "max_block_ms", -1),
    ("block_on_buffer_full", "false", "buffer_full", "raise"),
]


@pytest.mark.parametrize(("old", "value", "modern", "meaning"), MEANINGS)
def test_old_settings_mean_something_and_say_what_to_use_instead(old, value, modern, meaning):
    key = old.replace("_", ".")
    with pytest.warns(DeprecationWarning, match=f"^{key} is a setting of Kafka 0.8 and 0.9: use ") as caught:
        config = producer_config({old: value})
    assert getattr(config, modern) == meaning
    assert OLD[key].modern in str(caught[0].message)
    assert len(caught) == 1


def test_every_old_setting_is_tried():
    assert {old.replace("_", ".") for old, *_ in MEANINGS} == set(OLD)


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_the_warning_points_at_the_line_that_must_change(kind):
    with pytest.warns(DeprecationWarning) as caught:
        line = inspect.currentframe().f_lineno + 1
        producer = kind(queue_buffering_max_ms=5)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    if kind is Producer:
        producer.close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"producer_type": "both"}, "producer.type is 'both', but must be sync or async"),
        ({"block_on_buffer_full": "maybe"}, "block.on.buffer.full is 'maybe'"),
        ({"queue_enqueue_timeout_ms": "soon"}, "max.block.ms"),
    ],
)
def test_old_settings_are_checked_too(settings, sentence):
    with pytest.warns(DeprecationWarning), pytest.raises(ConfigError, match=sentence):
        producer_config(settings)


def test_a_setting_of_today_wins():
    with pytest.warns(DeprecationWarning):
        assert producer_config({"queue_buffering_max_ms": 5, "linger_ms": 7}).linger_ms == 7


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"acks": "0"}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}]
)
def test_what_contradicts_idempotence_switches_it_off_unless_it_was_asked_for(settings):
    assert not producer_config(settings).enable_idempotence
    assert not producer_config({**settings, "transactional_id": None}).enable_idempotence
    for asked in ({"enable_idempotence": True}, {"transactional_id": "me"}):
        with pytest.raises(ConfigError, match=r"enable\.idempotence is true: "):
            producer_config({**settings, **asked})
    assert producer_config({}).enable_idempotence


def test_contradictions_are_sentences():
    for settings, sentence in (
        ({"transactional_id": "me", "enable_idempotence": False}, "enable.idempotence must be true"),
        ({"delivery_timeout_ms": 100}, "delivery.timeout.ms must be at least"),
        ({"acks": 2}, "acks is 2"),
        ({"acks": True}, "acks"),
        ({"linger": 2}, "perhaps linger_ms is meant"),
        ({"compression_type": "rar"}, "compression.type"),
        ({"linger_ms": 1, "linger.ms": 2}, "written twice"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            producer_config(settings)


def test_deliveries_take_as_long_as_the_other_limits_want_unless_one_was_asked_for():
    usual_ms = ProducerConfig.keys["delivery.timeout.ms"].default
    assert producer_config({}).delivery_timeout_ms == usual_ms
    assert producer_config({"request_timeout_ms": 200_000, "linger_ms": 5}).delivery_timeout_ms == 200_005
    assert producer_config({"delivery_timeout_ms": None}).delivery_timeout_ms == usual_ms


def test_levels_belong_to_codecs():
    config = producer_config(
        {"compression_type": "zstd", "compression_zstd_level": 7, "compression_gzip_level": 2}
    )
    assert (config.codec, config.level) == (Codec.ZSTD, 7)
    assert producer_config({"compression_type": "snappy"}).level is None
