"""`ottla topic add-partitions` lets topics grow, after a warning."""

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def count(ottla, topic):
    return len(ottla("topic", "describe", topic, "--json").json["topics"][0]["partitions"])


def test_a_topic_grows_after_a_warning(ottla, topic):
    ran = ottla("topic", "add-partitions", topic, "5", "--yes", "--json")
    assert ran.json == {"topic": topic, "partitions_before": 2, "partitions": 5, "dry_run": False}
    assert "new records of a key may land in another partition" in ran.err
    assert count(ottla, topic) == 5


def test_without_a_terminal_and_without_yes_nothing_grows(ottla, topic):
    ran = ottla("topic", "add-partitions", topic, "3")
    assert (ran.code, count(ottla, topic)) == (2, 2)
    assert "say --yes" in ran.err


def test_somebody_is_asked(ottla, topic):
    assert ottla("topic", "add-partitions", topic, "3", says="n\n").code == 1
    assert count(ottla, topic) == 2
    assert ottla("topic", "add-partitions", topic, "3", says="y\n").code == 0
    assert count(ottla, topic) == 3


def test_a_dry_run_only_asks_the_broker(ottla, topic):
    assert ottla("topic", "add-partitions", topic, "3", "--dry-run", "--json").json["dry_run"] is True
    assert ottla("topic", "add-partitions", topic, "3", "--dry-run", "--assignment", "9").code == 1
    assert count(ottla, topic) == 2


def test_a_topic_does_not_shrink(ottla, topic):
    for total in ("1", "2"):
        ran = ottla("topic", "add-partitions", topic, total, "--yes")
        assert (ran.code, ran.err) == (1, f"ottla: {topic} has 2 partitions: it can only get more of them\n")


def test_an_assignment_is_for_the_new_ones(ottla, topic):
    assert ottla("topic", "add-partitions", topic, "4", "--assignment", "1", "--yes").code == 2
    assert ottla("topic", "add-partitions", topic, "4", "--assignment", "1,1", "--yes").code == 0
    assert count(ottla, topic) == 4


def test_an_unknown_topic_is_not_found(ottla):
    assert ottla("topic", "add-partitions", "nowhere", "4", "--yes").code == 4
