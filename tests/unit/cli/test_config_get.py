"""`ottla config get` shows what is set, by whom, and nothing secret."""

import pytest

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_what_nobody_has_set_is_not_shown(ottla, topic):
    assert ottla("config", "get", "topic", topic).out == "key\tvalue\tsource\n"
    ottla("config", "set", "topic", topic, "retention.ms=1d")
    assert ottla("config", "get", "topic", topic).rows == [
        {"key": "retention.ms", "value": "86400000", "source": "topic"}
    ]


def test_a_setting_is_shown_by_name_though_it_is_the_default(ottla, topic):
    told = ottla("config", "get", "topic", topic, "cleanup.policy", "segment.bytes", "--json").json
    assert (told["entity"], told["name"]) == ("topic", topic)
    assert told["settings"][0] == {
        "key": "cleanup.policy",
        "value": "delete",
        "source": "default",
        "is_default": True,
        "type": "list",
        "read_only": False,
        "sensitive": False,
    }
    assert told["settings"][1]["key"] == "segment.bytes"


def test_all_of_them_are_more(ottla, topic):
    assert len(ottla("config", "get", "topic", topic, "--all").rows) > 20


def test_a_broker_says_what_its_file_and_its_administrators_set(ottla):
    ottla("config", "set", "broker", "1", "log.cleaner.threads=2")
    ottla("config", "set", "broker-default", "log.retention.ms=1d")
    sources = {row["key"]: row["source"] for row in ottla("config", "get", "broker", "1").rows}
    assert sources["log.dirs"] == "static broker"
    assert sources["log.cleaner.threads"] == "dynamic broker"
    assert sources["log.retention.ms"] == "dynamic default broker"
    told = ottla("config", "get", "broker-default", "--json").json
    assert (told["entity"], told["name"]) == ("broker-default", None)
    assert [row["value"] for row in told["settings"]] == ["86400000"]
    ottla("config", "unset", "broker", "1", "log.cleaner.threads")
    ottla("config", "unset", "broker-default", "log.retention.ms")


def test_groups_and_client_metrics_have_settings(ottla):
    ottla("config", "set", "group", "g", "consumer.session.timeout.ms=50s")
    assert ottla("config", "get", "group", "g").rows[0]["value"] == "50000"
    ottla("config", "set", "client-metrics", "m", "interval.ms=10s", "metrics=a.")
    assert [row["value"] for row in ottla("config", "get", "client-metrics", "m").rows] == ["10000", "a."]
    assert ottla("config", "get", "broker-logger", "1").rows


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["topic", "nowhere"], 4, "ottla: there is no topic 'nowhere'\n"),
        (["broker", "77"], 4, "ottla: there is no broker '77'\n"),
        (["broker", "one"], 2, "'one' is no broker"),
        (["nonsense", "x"], 2, "'nonsense' has no settings; there are: topic"),
        (["topik", "x"], 2, "did you mean 'topic'?"),
        (["topic"], 2, "its name is missing"),
        (["broker-default", "retention.msec"], 4, "there is no broker-default setting 'retention.msec'"),
    ],
)
def test_what_is_not_there_is_said(ottla, words, code, sentence):
    ran = ottla("config", "get", *words)
    assert (ran.code, ran.out) == (code, "")
    assert sentence.lower() in ran.err.lower()


def test_a_name_that_is_nearly_right_is_guessed(ottla, topic):
    ran = ottla("config", "get", "topic", topic, "retention.mz")
    assert ran.code == 4
    assert "did you mean 'retention.ms'" in ran.err
