"""Fetch sessions: after the first request only changes travel, and whatever goes wrong begins anew."""

import uuid

import pytest

from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.session import FetchSession, Wanted, all_have_ids
from ottla.core.errors import ErrorCode
from ottla.core.ids import NULL_ID, TopicPartition
from ottla.protocol.messages.fetch import FetchResponse

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID = uuid.UUID(int=1 << 64)
CONFIG = ConsumerConfig({"fetch.min.bytes": 7, "client.rack": "r", "isolation.level": "read_committed"})


def wanted(offset, *, topic_id=ID, life=1):
    return Wanted(offset, 2, 3, topic_id, life)


def answer(session_id=9, error_code=0):
    return FetchResponse(error_code=error_code, session_id=session_id, responses=[])


def asked(request):
    return [(row.partition, row.fetch_offset) for topic in request.topics for row in topic.partitions]


def test_the_first_request_asks_for_everything():
    request = FetchSession().request({A: wanted(1), B: wanted(2)}, 17, CONFIG)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.min_bytes, request.rack_id, request.isolation_level) == (7, "r", 1)
    assert asked(request) == [(0, 1), (1, 2)]
    row = request.topics[0].partitions[0]
    assert (row.current_leader_epoch, row.last_fetched_epoch) == (3, 2)


def test_the_next_ones_name_what_has_changed():
    session = FetchSession()
    session.request({A: wanted(1), B: wanted(2)}, 17, CONFIG)
    assert session.accept(answer())
    request = session.request({A: wanted(1), B: wanted(5)}, 17, CONFIG)
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert asked(request) == [(1, 5)] and request.forgotten_topics_data == []
    assert session.accept(answer())
    request = session.request({B: wanted(5)}, 17, CONFIG)
    assert request.session_epoch == 2 and asked(request) == []
    assert [(row.topic_id, row.partitions) for row in request.forgotten_topics_data] == [(ID, [0])]


def test_a_topic_that_was_made_anew_is_forgotten_under_its_old_id():
    session, other = FetchSession(), uuid.UUID(int=5)
    session.request({A: wanted(1)}, 17, CONFIG)
    session.accept(answer())
    request = session.request({A: wanted(0, topic_id=other)}, 17, CONFIG)
    assert [row.topic_id for row in request.forgotten_topics_data] == [ID]
    assert [row.topic_id for row in request.topics] == [other]


@pytest.mark.parametrize(
    "code, session_id",
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)],
)
def test_a_session_that_went_wrong_is_begun_again(code, session_id):
    session = FetchSession()
    session.request({A: wanted(1)}, 17, CONFIG)
    session.accept(answer())
    assert not session.accept(answer(error_code=code))
    request = session.request({A: wanted(1)}, 17, CONFIG)
    assert (request.session_id, request.session_epoch, asked(request)) == (session_id, 0, [(0, 1)])


def test_a_broker_without_room_for_sessions_is_asked_for_everything_each_time():
    session = FetchSession()
    for _ in range(2):
        request = session.request({A: wanted(1)}, 17, CONFIG)
        assert (request.session_epoch, asked(request)) == (0, [(0, 1)])
        assert session.accept(answer(session_id=0))
    assert session.goodbye() is None


def test_a_change_between_names_and_ids_begins_a_new_session():
    session = FetchSession()
    session.request({A: wanted(1)}, 17, CONFIG)
    session.accept(answer())
    request = session.request({A: wanted(1, topic_id=NULL_ID)}, 12, CONFIG)
    assert request.session_epoch == 0 and request.topics[0].topic == "t"
    assert not all_have_ids([wanted(1), wanted(1, topic_id=NULL_ID)])


def test_a_session_can_be_closed():
    session = FetchSession()
    session.request({A: wanted(1)}, 17, CONFIG)
    session.accept(answer())
    request = session.goodbye()
    assert request is not None and (request.session_id, request.session_epoch) == (9, -1)
