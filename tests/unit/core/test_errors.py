"""The error table against the codes that Kafka's own Java client knows (error_codes.txt)."""

import copy
import pickle
from pathlib import Path

import pytest

from ottla.core.errors import (
    AuthorizationError,
    Category,
    ErrorCode,
    FencedError,
    KafkaError,
    OttlaError,
    RetriableError,
    StaleMetadataError,
)

KNOWN = [line.split() for line in Path(__file__).with_name("error_codes.txt").read_text().splitlines()]


def test_every_code_name_and_retriability_is_kafkas() -> None:
    ours = [[str(code.value), code.name, "retriable" if code.retriable else "final"] for code in ErrorCode]
    assert ours == KNOWN


def test_the_table_runs_from_minus_one_to_the_last_code_of_kafka_4_3_without_a_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 134))


def test_every_meaning_is_one_sentence_of_its_own() -> None:
    meanings = [code.meaning for code in ErrorCode]
    assert len(set(meanings)) == len(meanings)
    assert all(meaning.endswith(".") and "\n" not in meaning for meaning in meanings)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, KafkaError),
        (ErrorCode.NOT_ENOUGH_REPLICAS, RetriableError),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, StaleMetadataError),
        (ErrorCode.NOT_COORDINATOR, StaleMetadataError),
        (ErrorCode.NOT_CONTROLLER, StaleMetadataError),
        (ErrorCode.FENCED_LEADER_EPOCH, StaleMetadataError),
        (ErrorCode.PRODUCER_FENCED, FencedError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
    ],
)
def test_of_chooses_the_class_from_the_table(code: ErrorCode, expected: type[KafkaError]) -> None:
    error = KafkaError.of(code, "orders-0")
    assert type(error) is expected
    assert (error.code, error.detail) == (code, "orders-0")


def test_a_retriable_error_is_exactly_what_the_table_calls_retriable() -> None:
    for code in ErrorCode:
        assert isinstance(KafkaError.of(code), RetriableError) == code.retriable


def test_every_authorization_failure_is_an_authorization_error() -> None:
    denied = {code for code in ErrorCode if code.category is Category.DENIED}
    assert denied == {code for code in ErrorCode if "AUTHORIZATION" in code.name}


def test_a_code_from_the_future_becomes_unknown_server_error_and_is_named() -> None:
    error = KafkaError.of(30_000, "what is this")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert str(error) == "UNKNOWN_SERVER_ERROR: error code 30000: what is this"
    assert KafkaError.of(30_000).detail == "error code 30000"


def test_the_message_names_the_code_and_the_thing() -> None:
    detailed = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "orders-0 moved to broker 2")
    assert str(detailed) == "NOT_LEADER_OR_FOLLOWER: orders-0 moved to broker 2"
    assert str(KafkaError(ErrorCode.NOT_CONTROLLER)) == "NOT_CONTROLLER"
    assert isinstance(detailed, OttlaError)


def test_an_error_survives_copying_and_travelling_between_processes() -> None:
    error = KafkaError.of(ErrorCode.PRODUCER_FENCED, "txn-1")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert (type(twin), twin.code, twin.detail) == (FencedError, error.code, "txn-1")
