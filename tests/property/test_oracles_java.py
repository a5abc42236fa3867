"""Our codec against Apache Kafka's: the same bytes, the same values, for every version of 3.9 and 4.3."""

import pytest

from ottla.protocol.apis import PRIVATE
from ottla.protocol.messages.cluster_metadata import KINDS
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.oracles import java_codec, kafka_python_codec, kio_codec
from tests.oracles.java_codec import Question
from tests.oracles.kafka_json import as_json, schema_text
from tests.oracles.messages import (
    add_unknown_tags,
    api_classes,
    from_bytes,
    message_classes,
    random_messages,
    to_bytes,
)

# KIP-932 in its first form: Kafka 3.9 has the classes, no released broker offers them.
EARLY_ACCESS = {"ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"}


@pytest.fixture(scope="module")
def oracle():
    java_codec.prepare()


@pytest.fixture(scope="module")
def verdicts(oracle):
    """Per Kafka: our message, what was asked, and the answer, where there was one."""
    messages = [
        (message, Question(cls, version, to_bytes(message, version)))
        for cls in message_classes()
        for version in cls.versions
        for message in random_messages(cls, version)
    ]
    found = {}
    for kafka in java_codec.KAFKAS:
        answers = java_codec.ask(kafka, [question for _, question in messages])
        found[kafka] = [
            (message, question, answer)
            for (message, question), answer in zip(messages, answers, strict=True)
            if answer is not None
        ]
    return found


@pytest.mark.parametrize("kafka", java_codec.KAFKAS)
def test_kafka_writes_and_reads_the_same(verdicts, kafka):
    for message, question, answer in verdicts[kafka]:
        name = f"{question.cls.__name__} v{question.version}"
        assert answer.data.hex() == question.data.hex(), name
        assert answer.values == as_json(message, question.version), name


@pytest.mark.parametrize("kafka", java_codec.KAFKAS)
def test_kafka_gives_apis_and_records_the_same_numbers(verdicts, kafka):
    record_types = {**CONSUMER_OFFSETS, -1: TRANSACTION_STATE[0]}.values()
    numbers = {cls: row.number for row in record_types for cls in (row.value, row.key)}
    numbers |= {cls: number for number, cls in KINDS.items()}
    for _, question, answer in verdicts[kafka]:
        key = question.cls.api_key
        assert answer.key == (numbers.get(question.cls, -1) if key is None else key), question.cls.__name__


@pytest.mark.parametrize("kafka", java_codec.KAFKAS)
def test_kafka_has_the_same_fields_types_nulls_and_tags(oracle, kafka):
    questions = [(cls, version) for cls in message_classes() for version in cls.versions]
    for (cls, version), theirs in zip(questions, java_codec.schemas(kafka, questions), strict=True):
        if theirs != "unknown":
            ours = schema_text(cls, version)
            if kafka == "3.9":  # it does not say which structs may be null
                ours, theirs = ours.replace("}?", "}"), theirs.replace("}?", "}")
            assert ours == theirs, f"{cls.__name__} v{version}"


def test_kafka_and_we_keep_the_same_unknown_tags(oracle):
    questions = [
        Question(cls, version, to_bytes(add_unknown_tags(random_messages(cls, version)[1], version), version))
        for cls in message_classes()
        for version in cls.versions
        if version in cls.flexible
    ]
    for question, answer in zip(questions, java_codec.ask("4.3", questions), strict=True):
        if answer is not None:
            assert answer.data.hex() == question.data.hex(), f"{question.cls.__name__} v{question.version}"
            again = from_bytes(question.cls, question.data, question.version)
            assert to_bytes(again, question.version) == question.data


def test_every_message_of_kafka_and_version_is_verified_by_an_independent_codec(verdicts):
    verified = {(each.cls, each.version) for verdict in verdicts.values() for _, each, _ in verdict}
    for cls in message_classes():
        for version in cls.versions:
            if kio_codec.entity_class(cls, version) or kafka_python_codec.container_class(cls, version):
                verified.add((cls, version))
    ours = {cls for api in PRIVATE.values() for cls in (api.request, api.response)}
    declared = {(cls, version) for cls in message_classes() if cls not in ours for version in cls.versions}
    assert declared == verified


def test_no_version_of_an_api_that_kafka_speaks_is_missing(oracle):
    """One version above and below ours both Kafkas know nothing, apart from what was left out on purpose."""
    beyond = [
        Question(cls, version, b"")
        for cls in api_classes()
        for version in (cls.versions.first - 1, cls.versions.last + 1)
        if version >= 0
    ]
    for kafka in java_codec.KAFKAS:
        for question in java_codec.known(kafka, beyond):
            name = question.cls.__name__.removesuffix("Request").removesuffix("Response")
            assert name in EARLY_ACCESS and question.version == 0, (
                f"Kafka {kafka} speaks {name} v{question.version}"
            )
