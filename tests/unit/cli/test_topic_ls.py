"""`ottla topic ls` lists topics, quickly."""

import subprocess
import sys

import pytest

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_topics_are_listed_with_their_partitions(ottla, topic):
    row = next(row for row in ottla("topic", "ls").rows if row["topic"] == topic)
    assert row == {"topic": topic, "partitions": "2", "replicas": "1"}


def test_list_is_another_word_for_it(ottla, topic):
    assert ottla("topic", "list").out == ottla("topic", "ls").out


def test_wide_shows_more_columns(ottla, topic):
    row = ottla("topic", "ls", topic, "--wide").rows[0]
    assert (row["under_replicated"], row["offline"], row["internal"]) == ("0", "0", "false")
    assert len(row["topic_id"]) == 22


def test_the_clusters_own_topics_are_shown_on_demand_only(ottla, asked, topic):
    asked.commit(f"g-{topic}", topic, 0)
    names = [row["topic"] for row in ottla("topic", "ls", "--json").json["topics"]]
    assert "__consumer_offsets" not in names
    rows = ottla("topic", "ls", "--internal", "--json").json["topics"]
    assert {row["topic"]: row["internal"] for row in rows}["__consumer_offsets"] is True
    assert ottla("topic", "ls", "__consumer_offsets").rows, "whoever names one means it"


def test_patterns_choose(ottla, asked, topic):
    other = asked.create(f"{topic}-payments")
    assert [row["topic"] for row in ottla("topic", "ls", f"{topic}-*").rows] == [other]
    ran = ottla("topic", "ls", "nothing-*")
    assert (ran.code, ran.rows) == (0, [])


def test_sizes_are_those_on_the_disk(ottla, asked, topic):
    asked.produce(topic, 10)
    (row,) = ottla("topic", "ls", topic, "--sizes", "--json").json["topics"]
    assert row["bytes"] > 100
    (row,) = ottla("topic", "ls", topic, "--json").json["topics"]
    assert row["bytes"] is None


def test_a_list_does_not_load_what_it_does_not_need():
    code = "import sys, ottla.cli.topic_ls; print([m for m in sys.modules if m in sys.argv])"
    unneeded = ["rich", "rich.console", "ottla.client.admin.topics", "ottla.client.producer.config"]
    ran = subprocess.run([sys.executable, "-c", code, *unneeded], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [["topic", "ls"], ["topic", "describe", "x"]])
def test_nobody_there_is_exit_code_6(capsys, command):
    from ottla.cli.main import main

    assert main([*command, "-b", "127.0.0.1:1", "--timeout", "1"]) == 6
    assert "127.0.0.1:1" in capsys.readouterr().err
