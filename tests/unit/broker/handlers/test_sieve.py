"""What a request says about topics, split into what is known at once and what a coordinator must judge."""

import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.call import Call
from ottla.broker.handlers.sieve import Sieve
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offsets import OffsetDeleteRequest, OffsetDeleteResponse
from tests.unit.broker.handlers.fakes import Connection, broker_with, topic

Topic = OffsetDeleteRequest.Topic
Answer = OffsetDeleteResponse.Topic.Partition


def sieve(*asked):
    """(name, partitions) of a broker that has "tea", with two partitions, and "gin", which is not to be read."""
    broker = broker_with(topic("tea", 2), topic("gin"))
    broker.authorizer.deny(Operation.READ, "gin")
    topics = [
        Topic(name=name, partitions=[Topic.Partition(partition_index=each) for each in at])
        for name, at in asked
    ]
    return Sieve(broker, Call(Connection(), 47, 0, 1, "test"), topics)


def places(topics):
    return [(each.name, part.partition_index) for each in topics for part in each.partitions]


def answered(sieve):
    return [
        (asked.name, each.partition_index, ErrorCode(each.error_code))
        for asked, answers in sieve.answers(Answer)
        for each in answers
    ]


def judged(*codes):
    """What a coordinator says, all of it about one topic."""
    rows = [Answer(partition_index=0, error_code=code) for code in codes]
    return OffsetDeleteResponse(
        error_code=0, topics=[OffsetDeleteResponse.Topic(name="tea", partitions=rows)]
    )


def test_only_what_is_open_goes_to_the_coordinator():
    sifted = sieve(("gin", [0]), ("tea", [1, 5]), ("nowhere", [0]), ("tea", [0]))
    assert places(sifted.accepted) == [("tea", 1), ("tea", 0)]
    sifted.fill(judged(ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE))
    assert answered(sifted) == [
        ("gin", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("tea", 1, ErrorCode.NONE),
        ("tea", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("tea", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ]
    assert [(each.name, part.partition_index) for each, part in sifted.succeeded()] == [("tea", 1)]


def test_a_partition_named_twice_is_answered_twice():
    sifted = sieve(("tea", [0, 0]))
    sifted.fill(judged(ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE))
    assert answered(sifted) == [
        ("tea", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("tea", 0, ErrorCode.NONE),
    ]


def test_an_error_of_everything_is_raised():
    error = KafkaError(ErrorCode.ILLEGAL_GENERATION, "long ago")
    with pytest.raises(KafkaError) as raised:
        sieve(("tea", [0, 1])).fail(error)
    assert raised.value is error


def test_an_error_of_the_coordinator_leaves_what_was_known_before():
    sifted = sieve(("tea", [0]), ("nowhere", [0]))
    sifted.fail(KafkaError(ErrorCode.ILLEGAL_GENERATION, "long ago"))
    assert answered(sifted) == [
        ("tea", 0, ErrorCode.ILLEGAL_GENERATION),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
