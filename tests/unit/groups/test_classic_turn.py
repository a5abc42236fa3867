"""A decision in the making."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_turn import Turn, join_refusal
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


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_no_protocol_is_null_since_that_can_be_said(version, name):
    assert join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, "me", version).protocol_name == name
