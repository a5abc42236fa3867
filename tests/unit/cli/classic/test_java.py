"""Orders, numbers and sentences as Java has them."""

import pytest

from ottla.cli.classic.java import (
    Illegal,
    double_text,
    exception_text,
    hash_ordered,
    integer,
    java_hash,
    message_of,
)
from ottla.client.errors import NetworkError, PartialFailure
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.core.ids import TopicPartition


def test_strings_numbers_and_partitions_have_javas_hash():
    assert java_hash("") == 0
    assert java_hash("t1") == 116 * 31 + 49
    assert java_hash("polygenelubricants") == 0x80000000
    assert java_hash(7) == 7
    assert java_hash(TopicPartition("t1", 0)) == 31 * 31 + java_hash("t1")


def test_keys_come_in_the_order_of_a_hash_map_that_was_made_with_a_size():
    assert hash_ordered(["t.2_x", "t1", "t4"], 3) == ["t4", "t.2_x", "t1"]
    assert hash_ordered([], 0) == []


def test_keys_come_in_the_order_of_a_hash_map_that_grew():
    partitions = [TopicPartition("t1", number) for number in range(4)]
    assert hash_ordered(partitions) == partitions[::-1]
    assert hash_ordered(range(40, 0, -1)) == list(range(1, 41))


def test_keys_with_a_hash_of_their_own_are_ordered_by_it():
    assert hash_ordered(["a", "b", "c"], 3, {"a": 2, "b": 1, "c": 0}.__getitem__) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3.0"),
        (50.5, "50.5"),
        (12345678.0, "1.2345678E7"),
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1.5e300, "1.5E300"),
        (0.0, "0.0"),
        (-2.0, "-2.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value, text):
    assert double_text(value) == text


@pytest.mark.parametrize("text", ["", "a", "1.5", " 1", "1_0"])
def test_what_is_no_integer_is_refused_in_javas_words(text):
    with pytest.raises(Illegal, match=f'^For input string: "{text}"$'):
        integer(text)


def test_the_sentence_of_the_broker_is_told_without_what_it_is_about():
    error = KafkaError.of(ErrorCode.INVALID_CONFIG, "topic t: it cannot be")
    assert message_of(error, "topic t") == "it cannot be"
    told = exception_text(PartialFailure("the creation", {"t": error}), "topic t")
    assert told == "org.apache.kafka.common.errors.InvalidConfigurationException: it cannot be"


def test_an_error_without_a_sentence_has_the_one_that_javas_clients_know():
    error = KafkaError.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-0")
    assert exception_text(error, "t-0") == (
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
        " This server does not host this topic-partition."
    )


def test_other_errors_are_told_as_they_are():
    assert message_of(NetworkError("nobody is there")) == "nobody is there"
    assert message_of(Illegal("that makes no sense")) == "that makes no sense"
    assert message_of(ConfigError("a bad url")) == "Failed to create new KafkaAdminClient\na bad url"
    assert message_of(FileNotFoundError(2, "No such file", "x.properties")).splitlines()[0] == "x.properties"
