"""`ottla topic create` and `alter` make topics as they are wanted, and say what became of each."""

import pytest

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_a_topic_is_made_with_partitions_and_settings(ottla):
    ran = ottla("topic", "create", "made", "-p", "3", "-r", "1", "-c", "retention.ms=2d", "--json")
    (row,) = ran.json["topics"]
    assert (row["topic"], row["outcome"], row["partitions"], row["replicas"]) == ("made", "created", 3, 1)
    assert row["configs"] == {"retention.ms": "172800000"}
    (told,) = ottla("topic", "describe", "made", "--json").json["topics"]
    assert (len(told["partitions"]), told["configs"]) == (3, {"retention.ms": "172800000"})
    assert told["topic_id"] == row["topic_id"]


def test_the_brokers_defaults_hold_otherwise(ottla):
    (row,) = ottla("topic", "create", "plain", "--json").json["topics"]
    assert (row["partitions"], row["replicas"]) == (1, 1)


def test_an_assignment_says_where_partitions_lie(ottla):
    (row,) = ottla("topic", "create", "placed", "--assignment", "1,1", "--json").json["topics"]
    assert (row["partitions"], row["replicas"]) == (2, 1)
    assert ottla("topic", "create", "nowhere", "--assignment", "77").code == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1:1", "partition 0 would have two replicas on one broker"),
        ("1,1:2", "equally many replicas"),
        ("one", "write the ids of brokers"),
        ("", "write the ids of brokers"),
    ],
)
def test_an_assignment_without_sense_is_refused(ottla, text, sentence):
    ran = ottla("topic", "create", "never", "--assignment", text)
    assert ran.code == 2
    assert sentence in ran.err


def test_an_assignment_and_numbers_contradict_each_other(ottla):
    assert ottla("topic", "create", "never", "--assignment", "1", "-p", "2").code == 2


def test_a_topic_that_is_there_is_refused_or_well(ottla, topic):
    ran = ottla("topic", "create", topic)
    assert ran.code == 1
    assert "TOPIC_ALREADY_EXISTS" in ran.err
    (row,) = ottla("topic", "create", topic, "--if-not-exists", "--json").json["topics"]
    assert row["outcome"] == "exists"


def test_one_of_two_is_partly(ottla, topic):
    ran = ottla("topic", "create", topic, f"{topic}-new")
    assert ran.code == 3
    assert [row["topic"] for row in ran.rows] == [f"{topic}-new"]
    ran = ottla("topic", "create", topic, f"{topic}-newer", "--if-not-exists")
    assert (ran.code, [row["outcome"] for row in ran.rows]) == (0, ["exists", "created"])


def test_a_dry_run_makes_nothing(ottla):
    ran = ottla("topic", "create", "imagined", "--dry-run", "--json")
    assert ran.json["dry_run"] is True
    assert ran.json["topics"][0]["outcome"] == "possible"
    assert ottla("topic", "describe", "imagined").code == 4
    assert ottla("topic", "create", "imagined", "--dry-run", "-c", "retention.ms=x").code == 1


@pytest.mark.parametrize("words", [["bad name"], ["ok", "-c", "retention.ms"], ["ok", "-p", "0"], []])
def test_what_makes_no_sense_is_a_usage_error(ottla, words):
    assert ottla("topic", "create", *words).code == 2


# --- alter ------------------------------------------------------------------------------------------------------------


def test_settings_are_shown_before_and_after(ottla, topic):
    ran = ottla(
        "topic", "alter", topic, "--set", "segment.bytes=64MiB", "--set", "cleanup.policy=compact", "--json"
    )
    assert ran.json["entity"] == "topic"
    sized, policy = ran.json["changes"]
    assert (sized["before"], sized["sent"], sized["after"]) == ("1073741824", "67108864", "67108864")
    assert (policy["before"], policy["after"]) == ("delete", "compact")
    (back,) = ottla("topic", "alter", topic, "--unset", "segment.bytes", "--json").json["changes"]
    assert (back["operation"], back["sent"], back["after"]) == ("unset", None, "1073741824")


def test_a_dry_run_alters_nothing(ottla, topic):
    (row,) = ottla("topic", "alter", topic, "--set", "retention.ms=1h", "--dry-run", "--json").json["changes"]
    assert (row["sent"], row["after"]) == ("3600000", None)
    assert ottla("topic", "describe", topic, "--json").json["topics"][0]["configs"] == {}


def test_a_value_that_cannot_be_is_refused_by_the_broker(ottla, topic):
    ran = ottla("topic", "alter", topic, "--set", "retention.ms=soon")
    assert ran.code == 1
    assert "retention.ms" in ran.err
    assert ottla("topic", "alter", topic, "--set", "no.such.key=1").code == 1


def test_nothing_to_alter_twice_or_nowhere(ottla, topic):
    assert ottla("topic", "alter", topic).code == 2
    assert ottla("topic", "alter", topic, "--set", "flush.ms=1", "--unset", "flush.ms").code == 2
    assert ottla("topic", "alter", "nowhere", "--set", "flush.ms=1").code == 4
