"""`ottla config diff` shows what differs, and nothing else."""

from ottla.cli.config_diff import defaults, differences
from ottla.client.admin.config_values import ConfigEntry, ConfigSource, ConfigSynonym
from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_two_topics_are_compared(ottla, asked, topic):
    other = asked.create(f"{topic}-b")
    assert ottla("config", "diff", "topic", topic, other).rows == []
    ottla("config", "set", "topic", other, "retention.ms=1d")
    ran = ottla("config", "diff", "topic", topic, other, "--json")
    assert (ran.code, ran.json["left"], ran.json["right"]) == (0, topic, other)
    assert ran.json["differences"] == [
        {
            "key": "retention.ms",
            "left": "604800000",
            "right": "86400000",
            "left_source": "default",
            "right_source": "topic",
        }
    ]


def test_one_topic_is_compared_with_its_defaults(ottla, topic):
    ran = ottla("config", "diff", "topic", topic)
    assert (ran.rows, ran.err) == ([], f"ottla: topic {topic} has the default everywhere\n")
    ottla("config", "set", "topic", topic, "retention.ms=1d")
    assert ottla("config", "diff", "topic", topic).rows == [
        {"key": "retention.ms", topic: "86400000", "default": "604800000"}
    ]


def test_a_broker_differs_from_its_defaults_by_its_file(ottla):
    keys = [row["key"] for row in ottla("config", "diff", "broker", "1").rows]
    assert "log.dirs" in keys


def test_three_are_too_many(ottla, topic):
    assert ottla("config", "diff", "topic", topic, topic, topic).code == 2
    assert ottla("config", "diff", "broker-default", "1").code == 2
    assert ottla("config", "diff", "topic", topic, "nowhere").code == 4


def test_secrets_are_compared_without_being_told():
    def entry(source):
        return {"password": ConfigEntry("password", None, source, is_sensitive=True)}

    default, own = entry(ConfigSource.DEFAULT_CONFIG), entry(ConfigSource.STATIC_BROKER_CONFIG)
    assert differences(default, default) == []
    (row,) = differences(own, default)
    assert (row["left"], row["right"], row["left_source"]) == ("[hidden]", "[hidden]", "static broker")


def test_the_default_is_the_last_of_the_synonyms():
    entry = ConfigEntry(
        "k",
        "1",
        ConfigSource.TOPIC_CONFIG,
        synonyms=(
            ConfigSynonym("k", "1", ConfigSource.TOPIC_CONFIG),
            ConfigSynonym("log.k", "2", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("log.k", "3", ConfigSource.DEFAULT_CONFIG),
        ),
    )
    assert defaults({"k": entry})["k"].value == "3"
    assert defaults({"k": entry._replace(synonyms=())})["k"].value is None
