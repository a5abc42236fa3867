"""`ottla topic delete-records` shows what would go, and deletes it with --apply."""

import pytest

from tests.unit.cli.nouns import asked, broker, ottla, topic
from tests.unit.cli.states import now_ms

__all__ = ["asked", "broker", "ottla", "topic"]
HOUR_MS = 3_600_000


def starts(ottla, topic):
    (told,) = ottla("topic", "describe", topic, "--json").json["topics"]
    return [each["start_offset"] for each in told["partitions"]]


def test_it_is_a_dry_run_unless_it_is_applied(ottla, asked, topic):
    asked.produce(topic, 10)
    ran = ottla("topic", "delete-records", topic, "--before", "end")
    assert ran.code == 0
    assert [(row["partition"], row["before"], row["records"]) for row in ran.rows] == [
        ("0", "10", "10"),
        ("1", "0", "0"),
    ]
    assert ran.err == "ottla: nothing was deleted: --apply deletes 10 records\n"
    assert starts(ottla, topic) == [0, 0]
    ran = ottla("topic", "delete-records", topic, "--before", "end", "--apply", "--json")
    assert ran.json["dry_run"] is False
    assert [row["start_offset"] for row in ran.json["partitions"]] == [10, 0]
    assert starts(ottla, topic) == [10, 0]


def test_some_partitions_up_to_an_offset(ottla, asked, topic):
    asked.produce(topic, 10)
    asked.produce(topic, 10, partition=1)
    assert ottla("topic", "delete-records", f"{topic}:1", "--before", "4", "--yes").code == 0
    assert starts(ottla, topic) == [0, 4]


def test_a_time_is_the_first_record_that_is_not_older(ottla, asked, topic):
    asked.produce(topic, 3, timestamp=now_ms() - 2 * HOUR_MS)
    asked.produce(topic, 4, timestamp=now_ms() - 1000)
    assert ottla("topic", "delete-records", topic, "--before", "@-1h", "--apply").code == 0
    assert starts(ottla, topic) == [3, 0]


def test_an_offset_that_is_not_there_yet_fails_for_its_partition(ottla, asked, topic):
    asked.produce(topic, 5)
    ran = ottla("topic", "delete-records", topic, "--before", "3", "--apply")
    assert ran.code == 3
    assert ran.err == f"ottla: {topic}:1 ends at 0: there is no offset 3 yet\n"
    assert starts(ottla, topic) == [3, 0]
    assert ottla("topic", "delete-records", topic, "--before", "99").code == 1


def test_a_compacted_topic_refuses(ottla, asked, topic):
    asked.produce(topic, 5)
    ottla("topic", "alter", topic, "--set", "cleanup.policy=compact")
    ran = ottla("topic", "delete-records", f"{topic}:0", "--before", "3", "--apply")
    assert (ran.code, "POLICY_VIOLATION" in ran.err) == (1, True)


def test_unknown_topics_and_partitions_are_not_found(ottla, topic):
    assert ottla("topic", "delete-records", "nowhere", "--before", "end").code == 4
    ran = ottla("topic", "delete-records", f"{topic}:7", "--before", "end")
    assert (ran.code, ran.err) == (4, f"ottla: {topic} has no partition 7: they are numbered 0 to 1\n")


def test_all_but_the_last_ones_may_go(ottla, asked, topic):
    asked.produce(topic, 7)
    rows = ottla("topic", "delete-records", topic, "--before=-5").rows
    assert [(row["partition"], row["before"], row["records"]) for row in rows] == [
        ("0", "2", "2"),
        ("1", "0", "0"),
    ]


@pytest.mark.parametrize("place", ["soon", "-", "@yesterday", "@-1x", str(2**63)])
def test_what_is_no_place_is_a_usage_error(ottla, topic, place):
    assert ottla("topic", "delete-records", topic, f"--before={place}").code == 2


@pytest.mark.parametrize("name", ["a:b", "a:", "a:1,", "b b"])
def test_what_names_no_partitions_is_a_usage_error(ottla, name):
    assert ottla("topic", "delete-records", name, "--before", "end").code == 2
