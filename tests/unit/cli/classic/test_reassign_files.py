"""The files of `kafka-reassign-partitions`: what can be read, what is refused, and what is written."""

import json

import pytest

from ottla.cli.classic.java import Illegal
from ottla.cli.classic.reassign_files import read_brokers, read_plan, read_topics, written
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.core.ids import TopicPartition

ROW = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]}


def test_a_plan_names_replicas_and_directories():
    plan = read_plan(json.dumps({"version": 1, "partitions": [ROW]}), is_checked=True)
    assert plan.parts == {TopicPartition("t", 0): (1, 2)}
    assert plan.dirs == {TopicPartitionReplica("t", 0, 2): "/d"}


def test_what_is_written_can_be_read_again():
    plan = read_plan(json.dumps({"partitions": [ROW]}), is_checked=True)
    text = written(plan.parts, plan.dirs)
    assert text == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/d"]}]}'
    )
    assert read_plan(text, is_checked=True) == plan


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "Expected JSON object, received []"),
        ({}, "Partition reassignment list cannot be empty"),
        ({"version": 3}, "Not supported version field value 3"),
        ({"partitions": [{**ROW, "replicas": []}]}, "Size of replicas list [] is different"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}, "replica list cannot be empty"),
        ({"partitions": [ROW, ROW]}, "contains duplicate topic partitions: t-0"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2, 1]}]},
            "may not contain duplicate entries: t-0 contains multiple entries for 1",
        ),
        ({"partitions": [{"topic": "t"}]}, "No such field exists: `partition`"),
        ({"partitions": [{**ROW, "replicas": ["a"]}]}, 'Expected `Integer` value, received "a"'),
    ],
)
def test_a_plan_that_makes_no_sense_is_not_executed(document, sentence):
    with pytest.raises(Illegal) as refused:
        read_plan(json.dumps(document), is_checked=True)
    assert sentence in str(refused.value)


def test_what_is_only_looked_at_need_not_make_sense():
    assert read_plan('{"partitions": []}', is_checked=False).parts == {}
    for text in ("", "{"):
        with pytest.raises(Illegal):
            read_plan(text, is_checked=False)


def test_topics_and_brokers_are_named_once():
    assert read_topics('{"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}]}') == ["a", "b"]
    assert read_brokers("2,1") == [2, 1]
    for read, text in (
        (read_topics, '{"topics": [{"topic": "a"}, {"topic": "a"}]}'),
        (read_topics, "{"),
        (read_brokers, "1,1"),
        (read_brokers, "1,b"),
    ):
        with pytest.raises(Illegal):
            read(text)
