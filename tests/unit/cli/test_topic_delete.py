"""`ottla topic delete` says what would go, and asks before it goes."""

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def names(ottla):
    return {row["topic"] for row in ottla("topic", "ls", "--json").json["topics"]}


def test_without_a_terminal_and_without_yes_nothing_goes(ottla, asked, topic):
    asked.produce(topic, 5)
    ran = ottla("topic", "delete", topic)
    assert ran.code == 2
    assert f"{topic} would go: 2 partitions, 5 records, " in ran.err
    assert "this is not a terminal, so nobody can be asked: say --yes" in ran.err
    assert topic in names(ottla)


def test_somebody_is_asked(ottla, topic):
    ran = ottla("topic", "delete", topic, says="n\n")
    assert (ran.code, topic in names(ottla)) == (1, True)
    assert "Delete 1 topic? [y/N]" in ran.err
    ran = ottla("topic", "delete", topic, says="y\n")
    assert (ran.code, topic in names(ottla)) == (0, False)


def test_yes_asks_nobody(ottla, asked, topic):
    asked.produce(topic, 3, partition=1)
    ran = ottla("topic", "delete", topic, "--yes", "--json")
    (row,) = ran.json["topics"]
    assert (row["topic"], row["partitions"], row["records"], row["deleted"]) == (topic, 2, 3, True)
    assert row["bytes"] > 0
    assert topic not in names(ottla)


def test_a_dry_run_only_shows(ottla, topic):
    ran = ottla("topic", "delete", topic, "--dry-run")
    assert (ran.code, ran.rows[0]["topic"]) == (0, topic)
    assert "nothing was deleted" in ran.err
    assert topic in names(ottla)


def test_patterns_are_patterns_only_on_demand(ottla, asked, topic):
    asked.create(f"{topic}-a")
    asked.create(f"{topic}-b")
    ran = ottla("topic", "delete", f"{topic}-.*", "--yes")
    assert ran.code == 4
    ran = ottla("topic", "delete", f"{topic}-.*", "--regex", "--yes")
    assert [row["topic"] for row in ran.rows] == [f"{topic}-a", f"{topic}-b"]
    assert topic in names(ottla), "a pattern matches as a whole"
    assert ottla("topic", "delete", f"{topic}-.*", "--regex", "--yes").code == 4
    assert ottla("topic", "delete", "(", "--regex", "--yes").code == 2


def test_a_pattern_never_means_the_clusters_own_topics(ottla, asked, topic):
    asked.commit(f"g-{topic}", topic, 0)
    rows = ottla("topic", "delete", ".*", "--regex", "--dry-run").rows
    assert "__consumer_offsets" not in [row["topic"] for row in rows]


def test_one_that_is_not_there_is_partly_or_well(ottla, asked, topic):
    other = asked.create(f"{topic}-other")
    ran = ottla("topic", "delete", topic, "nothing-like-it", "--yes")
    assert (ran.code, ran.err) == (3, "ottla: there is no topic 'nothing-like-it'\n")
    assert ottla("topic", "delete", other, "nothing-like-it", "--yes", "--if-exists").code == 0
    assert ottla("topic", "delete", "nothing-like-it", "--yes", "--if-exists").code == 0
    assert ottla("topic", "delete", "nothing-like-it", "--yes").code == 4
