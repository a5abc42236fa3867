import gc
from typing import Any

import pytest

from ottla.core.config import (
    Bytes,
    Config,
    Duration,
    Key,
    Password,
    Scope,
    Setting,
    Source,
    WireType,
    at_least,
    between,
    list_of,
    one_of,
)
from ottla.core.errors import ConfigError

HOUR_MS = 3_600_000


class TopicConfig(Config):
    segment_bytes = Key(
        "segment.bytes",
        Bytes,
        1 << 30,
        between(14, 2**31 - 1),
        broker_key="log.segment.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc="Roll at this size.",
    )
    retention_ms = Key(
        "retention.ms",
        Duration,
        168 * HOUR_MS,
        at_least(-1),
        broker_key="log.retention.ms",
        broker_fallbacks={"log.retention.minutes": 60_000, "log.retention.hours": HOUR_MS},
        scope=Scope.CLUSTER_WIDE,
        doc="Delete after this.",
    )
    cleanup_policy = Key(
        "cleanup.policy", one_of("delete", "compact", many=True), ("delete",), doc="How to clean."
    )


class SessionConfig(Config):
    session_ms_min = Key("session.ms.min", Duration, 6000, scope=Scope.PER_BROKER, doc="Least.")
    session_ms_max = Key("session.ms.max", Duration, 9000, scope=Scope.CLUSTER_WIDE, doc="Most.")

    def check(self) -> None:
        if self.session_ms_min > self.session_ms_max:
            raise ConfigError("session.ms.min is above session.ms.max")


class BrokerConfig(SessionConfig, topics=TopicConfig):
    node_id = Key("node.id", int, -1, at_least(-1), aliases=["broker.id"], doc="Which broker this is.")
    rack = Key("rack", str, None, doc="Where it stands.")
    key_password = Key("key.password", Password, None, doc="Opens the key.")
    token = Key("token", str, None, at_least("m"), sensitive=True, doc="Lets in.")  # type: ignore[arg-type]


def refused(values: dict[str, object], kind: type[Config] = BrokerConfig) -> str:
    with pytest.raises(ConfigError) as raised:
        kind(values)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return str(raised.value)


def test_an_attribute_is_the_value_on_an_instance_and_the_key_on_the_class() -> None:
    assert TopicConfig().segment_bytes == 1 << 30
    assert TopicConfig.segment_bytes.name == "segment.bytes"
    assert repr(TopicConfig.segment_bytes) == "<Key segment.bytes>"


def test_values_are_read_from_text_or_taken_as_they_are() -> None:
    config = TopicConfig({"segment.bytes": "1 MiB", "cleanup.policy": ["compact"]})
    assert (config.segment_bytes, config.cleanup_policy) == (1 << 20, ("compact",))
    assert config["segment.bytes"] == 1 << 20


def test_settings_cannot_be_assigned() -> None:
    config = TopicConfig()
    with pytest.raises(AttributeError, match="update"):
        config.segment_bytes = 5  # type: ignore[assignment]
    assert config.segment_bytes == 1 << 30


def test_a_bad_value_gets_one_sentence_with_key_value_and_what_is_accepted() -> None:
    assert refused({"segment.bytes": "big"}, TopicConfig) == (
        "segment.bytes is 'big', but must be a number of bytes, such as 1048576 or 1 MiB, "
        "between 14 and 2147483647"
    )
    assert refused({"segment.bytes": 3}, TopicConfig).startswith("segment.bytes is 3, but must be ")
    assert refused({"broker.id": "x"}).startswith("broker.id is 'x', but must be a whole number")
    assert len(refused({"node.id": "x" * 10_000})) < 200


def test_an_unknown_key_is_named_with_the_nearest_known_one_but_without_its_value() -> None:
    assert refused({"segment.byte": 1}, TopicConfig) == (
        "segment.byte is not a known setting; did you mean segment.bytes?"
    )
    assert refused({"key.passwort": "s3cret"}) == (
        "key.passwort is not a known setting; did you mean key.password?"
    )
    assert refused({"zzz": 1}) == "zzz is not a known setting"


def test_a_required_key_must_be_set() -> None:
    class Needy(Config):
        directory = Key("directory", str, doc="Where.")

    assert refused({}, Needy) == "directory must be set: text"
    assert Needy({"directory": "/x"}).directory == "/x"
    with pytest.raises(ConfigError, match="must be set"):
        Needy({"directory": None})


def test_an_alias_is_read_but_never_shown_and_not_beside_the_name_itself() -> None:
    config = BrokerConfig({"broker.id": "3"})
    assert config.node_id == 3
    assert config.describe("broker.id").name == "node.id"
    assert refused({"broker.id": 1, "node.id": 1}) == (
        "broker.id and node.id are the same setting: write only one of them"
    )


def test_sensitive_values_are_in_no_message_and_no_repr() -> None:
    config = BrokerConfig({"key.password": "s3cret", "token": "zebra", "rack": "r1"})
    assert repr(config) == "<BrokerConfig rack=r1 key.password=[hidden] token=[hidden]>"
    assert config.key_password == Password("s3cret")
    assert refused({"token": "abc-s3cret"}) == "token is [hidden], but must be text, at least m"
    for name in ("key.password", "token"):
        entry = config.describe(name)
        assert (entry.sensitive, entry.value) == (True, None)
        assert [setting.value for setting in entry.synonyms] == [None]


def test_settings_that_contradict_each_other_are_refused_together() -> None:
    assert refused({"session.ms.min": 9001}) == "session.ms.min is above session.ms.max"
    config = BrokerConfig()
    with pytest.raises(ConfigError, match="above"):
        config.update({"session.ms.max": 1})
    config.update({"session.ms.max": 1, "session.ms.min": 1})
    assert config.session_ms_max == 1


def test_a_topic_falls_back_to_its_broker_then_to_the_default() -> None:
    broker = BrokerConfig({"log.segment.bytes": "2 MiB"})
    topic = TopicConfig({}, broker=broker)
    assert topic.segment_bytes == 2 << 20
    assert topic.retention_ms == 168 * HOUR_MS
    assert TopicConfig({"segment.bytes": 99}, broker=broker).segment_bytes == 99


def test_a_broker_key_in_hours_counts_only_while_the_finer_ones_are_unset() -> None:
    hours: dict[str, object] = {"log.retention.hours": "2"}
    assert TopicConfig(broker=BrokerConfig(hours)).retention_ms == 2 * HOUR_MS
    minutes = hours | {"log.retention.minutes": "3"}
    assert TopicConfig(broker=BrokerConfig(minutes)).retention_ms == 180_000
    assert TopicConfig(broker=BrokerConfig(minutes | {"log.retention.ms": 5})).retention_ms == 5
    assert TopicConfig(broker=BrokerConfig({"log.retention.hours": -1})).retention_ms == -1


def test_the_finer_key_of_the_broker_shows_what_the_coarser_one_says() -> None:
    config = BrokerConfig({"log.retention.hours": "2"})
    assert config["log.retention.ms"] == 2 * HOUR_MS
    assert config.describe("log.retention.ms").source is Source.FILE
    config.update({"log.retention.minutes": 1})
    assert config["log.retention.ms"] == 60_000


def test_a_key_falls_back_to_another_of_the_same_config() -> None:
    class Places(Config):
        paths = Key("paths", list_of(str), ("here",), fallbacks={"path": 1}, doc="Where.")
        path = Key("path", list_of(str), None, doc="Where, the old name.")

    assert (Places().paths, Places({"path": "a"}).paths) == (("here",), ("a",))
    assert Places({"path": "a", "paths": "b,c"}).paths == ("b", "c")


def test_a_twin_that_the_broker_declares_itself_is_not_derived() -> None:
    class Own(Config, topics=TopicConfig):
        log_retention_hours = Key("log.retention.hours", int, 7, doc="Ours.")

    assert Own().log_retention_hours == 7
    assert TopicConfig(broker=Own({"log.retention.hours": 2})).retention_ms == 2 * HOUR_MS


@pytest.mark.parametrize("bad", ["-2", "24h", str(2**62)])
def test_a_broker_key_in_hours_is_judged_by_the_checks_of_the_topic_key(bad: str) -> None:
    assert refused({"log.retention.hours": bad}).startswith(f"log.retention.hours is '{bad}', but must be")


def test_a_broker_twin_is_judged_like_its_topic_key() -> None:
    assert refused({"log.segment.bytes": 3}).startswith("log.segment.bytes is 3, but must be")
    assert BrokerConfig.keys["log.segment.bytes"].default == 1 << 30


def test_a_change_of_the_broker_reaches_its_topics() -> None:
    broker = BrokerConfig()
    plain, own = TopicConfig(broker=broker), TopicConfig({"segment.bytes": 50}, broker=broker)
    seen: list[Any] = []
    plain.on_change(TopicConfig.segment_bytes, seen.append)
    own.on_change(TopicConfig.segment_bytes, seen.append)
    broker.update({"log.segment.bytes": 100}, Source.ALL_BROKERS)
    assert (plain.segment_bytes, own.segment_bytes, seen) == (100, 50, [100])
    broker.update({"log.segment.bytes": 200}, Source.BROKER)
    broker.update({"log.segment.bytes": None}, Source.BROKER)
    assert (plain.segment_bytes, seen) == (100, [100, 200, 100])


def test_a_broker_forgets_topics_that_are_gone() -> None:
    broker = BrokerConfig()
    topic = TopicConfig(broker=broker)
    assert len(broker._topics) == 1
    del topic
    gc.collect()
    assert len(broker._topics) == 0


def test_an_update_applies_as_a_whole_or_not_at_all() -> None:
    config = TopicConfig({"retention.ms": 5})
    seen: list[Any] = []
    config.on_change(TopicConfig.segment_bytes, seen.append)
    for bad in ({"segment.bytes": 100, "retention.ms": "x"}, {"segment.bytes": 100, "nope": 1}):
        with pytest.raises(ConfigError):
            config.update(bad)
    assert (config.segment_bytes, config.retention_ms, seen) == (1 << 30, 5, [])
    config.update({"segment.bytes": 100, "retention.ms": None})
    assert (config.segment_bytes, config.retention_ms, seen) == (100, 168 * HOUR_MS, [100])


def test_a_broker_update_that_a_topic_cannot_follow_changes_nothing() -> None:
    class Strict(TopicConfig):
        def check(self) -> None:
            if self.segment_bytes < 50:
                raise ConfigError("segment.bytes is too small for this topic")

    broker = BrokerConfig()
    topic = Strict(broker=broker)
    with pytest.raises(ConfigError, match="too small"):
        broker.update({"log.segment.bytes": 20})
    assert broker["log.segment.bytes"] == topic.segment_bytes == 1 << 30


def test_a_dry_run_checks_and_changes_nothing() -> None:
    config = TopicConfig()
    config.update({"segment.bytes": 100}, dry_run=True)
    assert config.segment_bytes == 1 << 30
    with pytest.raises(ConfigError):
        config.update({"segment.bytes": 1}, dry_run=True)


def test_replacing_takes_back_what_is_not_mentioned() -> None:
    config = TopicConfig({"segment.bytes": 100, "retention.ms": 7})
    config.update({"retention.ms": 8}, replace=True)
    assert (config.segment_bytes, config.retention_ms) == (1 << 30, 8)


def test_watchers_hear_only_of_changes_and_can_stop_listening() -> None:
    config = TopicConfig()
    seen: list[Any] = []
    stop = config.on_change(TopicConfig.retention_ms, seen.append)
    config.update({"retention.ms": 168 * HOUR_MS})
    config.update({"retention.ms": 1})
    stop()
    config.update({"retention.ms": 2})
    assert seen == [1]


def test_a_key_changes_at_run_time_only_as_far_as_its_scope_allows() -> None:
    config = BrokerConfig()
    with pytest.raises(ConfigError, match=r"^node.id cannot change while the broker runs$"):
        config.update({"node.id": 5})
    with pytest.raises(ConfigError, match=r"^session.ms.min cannot change for all brokers"):
        config.update({"session.ms.min": 5}, Source.ALL_BROKERS)
    config.update({"session.ms.min": 5}, Source.BROKER)
    config.update({"session.ms.max": 8000}, Source.ALL_BROKERS)
    assert (config.session_ms_min, config.session_ms_max) == (5, 8000)


def test_an_entry_tells_where_every_value_came_from() -> None:
    broker = BrokerConfig({"log.segment.bytes": 100})
    broker.update({"log.segment.bytes": 200}, Source.ALL_BROKERS)
    entry = TopicConfig({"segment.bytes": "50"}, broker=broker).describe("segment.bytes")
    assert (entry.value, entry.source, entry.type) == ("50", Source.TOPIC, WireType.INT)
    assert (entry.read_only, entry.sensitive, entry.doc) == (False, False, "Roll at this size.")
    assert entry.synonyms == (
        Setting("segment.bytes", "50", Source.TOPIC),
        Setting("log.segment.bytes", "200", Source.ALL_BROKERS),
        Setting("log.segment.bytes", "100", Source.FILE),
        Setting("log.segment.bytes", str(1 << 30), Source.DEFAULT),
    )


def test_an_entry_that_nobody_set_comes_from_the_default() -> None:
    config = BrokerConfig()
    node, rack = config.describe("node.id"), config.describe("rack")
    assert (node.value, node.source, node.read_only) == ("-1", Source.DEFAULT, True)
    assert (rack.value, rack.source, rack.synonyms) == (None, Source.DEFAULT, ())
    assert config.describe("session.ms.max").read_only is False
    assert TopicConfig().describe("retention.ms").type is WireType.LONG


def test_keys_are_inherited_and_the_broker_twins_added() -> None:
    assert set(SessionConfig.keys) == {"session.ms.min", "session.ms.max"}
    assert set(BrokerConfig.keys) == {
        *("session.ms.min", "session.ms.max", "node.id", "rack", "key.password", "token"),
        *("log.segment.bytes", "log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    }


def test_a_key_declared_under_another_name_or_with_a_bad_default_is_a_bug() -> None:
    with pytest.raises((AssertionError, RuntimeError)):

        class Misnamed(Config):
            segment_size = Key("segment.bytes", int, 1, doc="")

    with pytest.raises(ConfigError):
        Key("a", int, 1, at_least(2), doc="")
