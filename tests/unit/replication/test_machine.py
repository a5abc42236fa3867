"""What every machine and its host rely on."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.machine import LATER, answer_of, fail
from tests.unit.groups.hosting import Slip


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_an_error_of_the_log_is_told_in_the_words_of_coordinators(said, told):
    assert answer_of(KafkaError(said)).code == told


def test_everybody_who_waits_gets_an_error_of_their_own():
    """One that is raised in several places would collect the tracebacks of all."""
    slips = [Slip(), Slip()]
    answers = fail(slips, KafkaError(ErrorCode.NOT_COORDINATOR, "it moved"))
    assert [answer.ticket for answer in answers] == slips
    assert {answer.reply.code for answer in answers} == {ErrorCode.NOT_COORDINATOR}
    assert answers[0].reply is not answers[1].reply


def test_what_comes_later_says_so():
    assert repr(LATER) == "LATER"
