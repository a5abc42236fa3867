"""`ottla topic describe` shows partitions, offsets and settings."""

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_partitions_have_leaders_replicas_and_offsets(ottla, asked, topic):
    asked.produce(topic, 7, partition=1)
    (told,) = ottla("topic", "describe", topic, "--json").json["topics"]
    assert (told["topic"], told["internal"], told["configs"]) == (topic, False, {})
    first, second = told["partitions"]
    assert (first["partition"], first["leader"], first["replicas"], first["isr"]) == (0, 1, [1], [1])
    assert (first["start_offset"], first["end_offset"], first["offline"]) == (0, 0, [])
    assert (second["start_offset"], second["end_offset"]) == (0, 7)


def test_only_settings_that_were_set_are_shown(ottla, topic):
    ottla("topic", "alter", topic, "--set", "retention.ms=1h")
    ran = ottla("topic", "describe", topic)
    assert ran.out.endswith("setting\tvalue\nretention.ms\t3600000\n")


def test_a_name_that_is_nearly_right_is_guessed(ottla, asked):
    asked.create("shipments")
    ran = ottla("topic", "describe", "shipmnets")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == "ottla: there is no topic 'shipmnets'; did you mean 'shipments'?\n"


def test_one_of_two_is_partly(ottla, topic):
    ran = ottla("topic", "describe", topic, "nothing-like-it")
    assert ran.code == 3
    assert topic in ran.out
    assert ran.err == "ottla: there is no topic 'nothing-like-it'\n"
