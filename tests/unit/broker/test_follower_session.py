"""Both ends of a fetch session, talking to each other without a network."""

import random
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.follower_session import EPOCH_MAX, Asked, FollowerSession
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.replication.exchange import FetchQuestion

VERSION = 18
ORDERS, VISITS = uuid.UUID(int=1), uuid.UUID(int=2)


def asked(offset=0, high_watermark=0):
    return Asked(FetchQuestion(offset, -1, 1, 0), high_watermark, 1000)


def filled(session):
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=2), max_wait_ms=0, min_bytes=1, topics=[]
    )
    return session.fill(request)


def named(request):
    return [(topic.topic_id, part.partition) for topic in request.topics for part in topic.partitions]


def forgotten(request):
    return [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]


class Leader:
    """The other end."""

    def __init__(self, slots=10):
        self.sessions = FetchSessions(slots, generator=random.Random(1))

    def answer(self, request):
        """The response, and the partitions that were read for it with their offsets."""
        context = self.sessions.resolve(request, VERSION, 0)
        read = {(topic_id, part.partition): part.fetch_offset for _, topic_id, part in context.partitions}
        answers = [
            FetchResponse.Topic.Partition(
                partition_index=part.partition, error_code=0, high_watermark=0, records=b""
            )
            for _, _, part in context.partitions
        ]
        return context.answer(answers), read


def exchange(session, leader):
    """One round trip; what the leader read."""
    response, read = leader.answer(filled(session))
    return read if session.answered(response) else None


def test_the_first_request_names_everything_the_next_only_what_changed():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    session.want((VISITS, 3), asked())
    first = filled(session)
    assert named(first) == [(ORDERS, 0), (VISITS, 3)]
    assert session.answered(leader.answer(first)[0])
    session.want((VISITS, 3), asked(offset=5))
    second = filled(session)
    assert named(second) == [(VISITS, 3)]
    response, read = leader.answer(second)
    assert session.answered(response)
    assert read == {(ORDERS, 0): 0, (VISITS, 3): 5}
    assert named(filled(session)) == []


def test_the_same_question_again_is_not_told_again():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    exchange(session, leader)
    session.want((ORDERS, 0), asked())
    assert named(filled(session)) == []


def test_what_is_not_wanted_any_more_is_forgotten_by_the_leader():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    session.want((ORDERS, 1), asked())
    exchange(session, leader)
    session.forget((ORDERS, 1))
    request = filled(session)
    assert forgotten(request) == [(ORDERS, 1)]
    response, read = leader.answer(request)
    assert read == {(ORDERS, 0): 0}
    assert session.answered(response) and forgotten(filled(session)) == []


def test_what_was_forgotten_and_is_wanted_again_is_not_forgotten():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    exchange(session, leader)
    session.forget((ORDERS, 0))
    session.want((ORDERS, 0), asked())
    request = filled(session)
    assert (named(request), forgotten(request)) == ([(ORDERS, 0)], [])


def test_an_answer_belongs_to_the_question_that_was_asked():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked(offset=3))
    assert session.asked((ORDERS, 0)) is None, "nobody has been asked yet"
    exchange(session, leader)
    assert session.asked((ORDERS, 0)) == asked(offset=3).question
    session.forget((ORDERS, 0))
    assert session.asked((ORDERS, 0)) is None


def test_a_leader_that_forgot_the_session_is_told_everything_again():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    exchange(session, leader)
    leader.sessions = FetchSessions(10)
    assert exchange(session, leader) is None
    assert exchange(session, leader) == {(ORDERS, 0): 0}


def test_an_answer_that_never_came_starts_the_session_over():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    exchange(session, leader)
    session.want((ORDERS, 0), asked(offset=7))
    leader.answer(filled(session))  # it is lost
    session.start_over()
    assert exchange(session, leader) == {(ORDERS, 0): 7}
    assert len(leader.sessions) == 1


def test_a_leader_without_sessions_is_told_everything_every_time():
    session, leader = FollowerSession(), Leader(slots=0)
    session.want((ORDERS, 0), asked())
    assert exchange(session, leader) == exchange(session, leader) == {(ORDERS, 0): 0}


def test_epochs_of_a_session_begin_again_at_one():
    session, leader = FollowerSession(), Leader()
    session.want((ORDERS, 0), asked())
    exchange(session, leader)
    session._epoch = EPOCH_MAX
    response = FetchResponse(error_code=0, session_id=session._id, responses=[])
    assert session.answered(response) and session._epoch == 1


places = st.tuples(st.sampled_from([ORDERS, VISITS]), st.integers(0, 2))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("want"), places, st.integers(0, 9)),
        st.tuples(st.just("forget"), places),
        st.tuples(st.sampled_from(["exchange", "lose the question", "lose the answer", "restart"])),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(steps)
def test_the_leader_reads_exactly_what_is_wanted_whatever_gets_lost(story):
    session, leader, wanted = FollowerSession(), Leader(), {}
    for step in story:
        match step:
            case "want", place, offset:
                session.want(place, asked(offset))
                wanted[place] = offset
            case "forget", place:
                session.forget(place)
                wanted.pop(place, None)
            case ("exchange",) if wanted:
                read = exchange(session, leader)
                assert read in (None, wanted)
            case ("lose the question",) if wanted:
                filled(session)
                session.start_over()
            case ("lose the answer",) if wanted:
                leader.answer(filled(session))
                session.start_over()
            case ("restart",):
                leader.sessions = FetchSessions(10)
    if wanted:
        first = exchange(session, leader)
        assert (exchange(session, leader) if first is None else first) == wanted
