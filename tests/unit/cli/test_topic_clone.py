"""`ottla topic clone` makes a topic like another one, with its records if that is wanted."""

import pytest

from ottla.client import Producer
from tests.unit.cli.nouns import asked, broker, ottla, topic
from tests.unit.cli.states import now_ms

__all__ = ["asked", "broker", "ottla", "topic"]


def stored(broker, topic):
    return [(each.partition, *each[2:]) for each in broker.records(topic)]


def test_partitions_and_settings_are_the_same(ottla, asked, topic):
    asked.produce(topic, 3)
    ottla("topic", "alter", topic, "--set", "retention.ms=1d", "--set", "flush.ms=7s")
    told = ottla("topic", "clone", topic, f"{topic}-b", "-c", "flush.ms=8s", "--json").json
    assert told == {
        "source": topic,
        "target": f"{topic}-b",
        "dry_run": False,
        "partitions": 2,
        "replicas": 1,
        "configs": {"flush.ms": "8000", "retention.ms": "86400000"},
        "records": None,
    }
    (made,) = ottla("topic", "describe", f"{topic}-b", "--json").json["topics"]
    assert made["configs"] == told["configs"]
    assert [each["end_offset"] for each in made["partitions"]] == [0, 0]


def test_records_keep_key_headers_timestamp_and_partition(ottla, broker, topic):
    then = now_ms() - 86_400_000
    with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
        for number in range(500):
            producer.send(
                topic,
                value=None if number % 7 == 0 else b"v%d" % number,
                key=b"k%d" % number if number % 2 else None,
                headers=[("n", b"%d" % number), ("empty", None)],
                partition=number % 2,
                timestamp_ms=then + number,
            )
        producer.flush()
    told = ottla("topic", "clone", topic, f"{topic}-b", "--records", "--json").json
    assert told["records"] == 500
    assert stored(broker, f"{topic}-b") == stored(broker, topic)


def test_what_was_aborted_is_not_copied_and_what_is_open_is_said(ottla, asked, broker, topic):
    owner, _ = asked.begin(f"lost-{topic}", topic, 2)
    asked.end(f"lost-{topic}", owner, commit=False)
    owner, _ = asked.begin(f"kept-{topic}", topic, 3)
    asked.end(f"kept-{topic}", owner)
    asked.produce(topic, 1)
    owner, _ = asked.begin(f"open-{topic}", topic, 4)
    ran = ottla("topic", "clone", topic, f"{topic}-b", "--records", "--json")
    assert ran.json["records"] == 4
    assert "4 offsets behind open transactions will not be copied" in ran.err
    assert len(broker.records(f"{topic}-b")) == 4
    asked.end(f"open-{topic}", owner)


def test_timestamps_stay_though_the_topic_takes_those_of_the_broker(ottla, asked, broker, topic):
    asked.produce(topic, 2, timestamp=now_ms() - 3_600_000)
    ottla("topic", "alter", topic, "--set", "message.timestamp.type=LogAppendTime")
    ottla("topic", "clone", topic, f"{topic}-b", "--records")
    assert stored(broker, f"{topic}-b") == stored(broker, topic)
    (made,) = ottla("topic", "describe", f"{topic}-b", "--json").json["topics"]
    assert made["configs"] == {"message.timestamp.type": "LogAppendTime"}


def test_a_log_that_does_not_start_at_0_is_copied_from_its_start(ottla, asked, topic):
    asked.produce(topic, 10)
    ottla("topic", "delete-records", topic, "--before", "end", "--apply")
    asked.produce(topic, 2)
    assert ottla("topic", "clone", topic, f"{topic}-b", "--records", "--json").json["records"] == 2


def test_a_dry_run_makes_nothing(ottla, topic):
    assert (
        ottla("topic", "clone", topic, f"{topic}-b", "--dry-run", "--records", "--json").json["dry_run"]
        is True
    )
    assert ottla("topic", "describe", f"{topic}-b").code == 4


@pytest.mark.parametrize(("words", "code"), [(["nowhere", "x"], 4), (["a", "a"], 2), (["a", "b b"], 2)])
def test_what_cannot_be_cloned(ottla, words, code):
    assert ottla("topic", "clone", *words).code == code


def test_nothing_is_cloned_over_a_topic_that_is_there(ottla, asked, topic):
    other = asked.create(f"{topic}-b")
    ran = ottla("topic", "clone", topic, other)
    assert (ran.code, "TOPIC_ALREADY_EXISTS" in ran.err) == (1, True)
