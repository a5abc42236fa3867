"""Every error code has a decided meaning for a batch."""

import pytest

from ottla.client.errors import KafkaTimeoutError, NetworkError, ProtocolMismatch
from ottla.client.producer.verdict import Verdict, is_number_free, is_refusal, judge
from ottla.core.errors import ErrorCode, KafkaError

USUAL = {
    "count": 5,
    "has_sequence": True,
    "is_first_unresolved": True,
    "is_transactional": False,
    "may_retry": True,
}


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code(code):
    verdict = judge(code, **USUAL)
    if code.name in ("NONE", "DUPLICATE_SEQUENCE_NUMBER"):
        assert verdict is Verdict.WRITTEN
    elif code.name in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
        assert verdict is Verdict.SPLIT
        assert judge(code, **USUAL | {"count": 1}) is Verdict.FAIL
    elif code.name in ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"):
        assert verdict is Verdict.RENUMBER
        assert judge(code, **USUAL | {"is_first_unresolved": False}) is Verdict.RETRY
        assert judge(code, **USUAL | {"is_transactional": True}) is Verdict.FAIL
    elif code.name == "INVALID_PRODUCER_EPOCH":
        assert verdict is Verdict.RENUMBER
        assert judge(code, **USUAL | {"is_transactional": True}) is Verdict.FAIL
    else:
        assert verdict is (Verdict.RETRY if code.retriable else Verdict.FAIL)


@pytest.mark.parametrize("code", ErrorCode)
def test_without_numbers_nobody_is_renumbered_and_without_retries_nothing_is_tried_again(code):
    assert judge(code, **USUAL | {"has_sequence": False}) is not Verdict.RENUMBER
    last = judge(code, **USUAL | {"may_retry": False})
    assert last in (Verdict.WRITTEN, Verdict.SPLIT, Verdict.FAIL)


def test_a_number_is_free_only_where_a_broker_has_refused_the_first_attempt():
    refused = KafkaError.of(ErrorCode.INVALID_RECORD)
    assert is_number_free(refused, 1)
    assert not is_number_free(refused, 2)
    for error in (
        KafkaError.of(ErrorCode.UNKNOWN_SERVER_ERROR),
        KafkaError.of(ErrorCode.REQUEST_TIMED_OUT),
        KafkaError.of(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        KafkaError.of(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        NetworkError("lost"),
        KafkaTimeoutError("late"),
        ProtocolMismatch("garbage"),
        ValueError("ours"),
    ):
        assert not is_number_free(error, 1)


def test_what_may_have_been_written_is_not_cut():
    """The broker knows it as a whole: halves would look like a gap, be numbered anew, and be there twice."""
    assert judge(ErrorCode.MESSAGE_TOO_LARGE, **USUAL, is_written_perhaps=True) is Verdict.FAIL
    nobody = USUAL | {"has_sequence": False}
    assert judge(ErrorCode.MESSAGE_TOO_LARGE, **nobody, is_written_perhaps=True) is Verdict.SPLIT
    assert is_refusal(KafkaError.of(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert is_refusal(KafkaError.of(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert not is_refusal(NetworkError("lost"))
