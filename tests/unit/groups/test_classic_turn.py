"""A decision in the making."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_turn import Turn, join_refusal, refused_as
from ottla.protocol.messages.coordinator_records import GroupMetadataKey
from ottla.replication.machine import Answer, Entry
from tests.unit.groups.hosting import START, Slip


def test_nobody_is_told_nothing():
    turn = Turn(START)
    turn.tell(None, join_refusal(ErrorCode.UNKNOWN_MEMBER_ID))
    assert turn.decision(None).answers == []


def test_who_is_told_what_depends_on_whether_it_could_be_written():
    slip = Slip()
    turn = Turn(START, entries=[Entry(GroupMetadataKey(group="g"))])
    turn.tell(slip, join_refusal(ErrorCode.NONE))
    turn.instead = lambda error: [Answer(slip, join_refusal(error.code))]
    decision = turn.decision("reply")
    assert decision.answers[0].reply.error_code == ErrorCode.NONE
    refused = decision.if_refused(KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
    assert (refused.reply, refused.entries) == ("reply", ())
    assert refused.answers[0].reply.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_entries_without_a_way_back_are_our_mistake():
    with pytest.raises(AssertionError):
        Turn(START, entries=[Entry(GroupMetadataKey(group="g"))]).decision(None)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_members_are_told_what_it_means_for_them(said, told):
    assert refused_as(KafkaError(said)) == told


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_no_protocol_is_null_since_that_can_be_said(version, name):
    assert join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, "me", version).protocol_name == name
