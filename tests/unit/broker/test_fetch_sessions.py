import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.fetch_sessions import EPOCH_MAX, EVICTABLE_AFTER_MS, FetchContext, FetchSessions
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse

NOW = 1_700_000_000_000
ORDERS, REFUNDS = uuid.UUID(int=7001), uuid.UUID(int=7002)


def request(wants=(), *, session=(0, -1), forget=(), replica_id=-1):
    """`wants` and `forget` are (topic name or id, partition) pairs, or triples with a fetch offset."""
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchRequest.Topic(
                **named(topic),
                partitions=[
                    FetchRequest.Topic.Partition(
                        partition=index, fetch_offset=offset[0] if offset else 0, partition_max_bytes=1024
                    )
                ],
            )
            for topic, index, *offset in wants
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(**named(topic), partitions=[index]) for topic, index in forget
        ],
    )


def named(topic):
    return {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}


def answers(context, *, error=0, high_watermark=5, log_start_offset=0, **given):
    """An answer to each partition; `given` are those with records, by partition as in p1=b"..."."""
    return [
        FetchResponse.Topic.Partition(
            partition_index=part.partition,
            error_code=error,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
            records=given.get(f"p{part.partition}", b""),
        )
        for _, _, part in context.partitions
    ]


def told(response):
    return [
        (topic.topic or topic.topic_id, part.partition_index)
        for topic in response.responses
        for part in topic.partitions
    ]


def wanted(context):
    return [(name or topic_id, part.partition) for name, topic_id, part in context.partitions]


def open_session(sessions, wants, *, version=12, now_ms=NOW, replica_id=-1):
    context = sessions.resolve(request(wants, session=(0, 0), replica_id=replica_id), version, now_ms)
    return context.answer(answers(context)).session_id


def test_a_fetch_without_a_session_reads_what_it_names_and_leaves_nothing_behind():
    sessions = FetchSessions(10)
    context = sessions.resolve(request([("orders", 0), ("orders", 1), ("refunds", 0)]), 11, NOW)
    response = context.answer(answers(context))
    assert told(response) == [("orders", 0), ("orders", 1), ("refunds", 0)]
    assert [topic.topic for topic in response.responses] == ["orders", "refunds"]
    assert (response.session_id, response.error_code, len(sessions)) == (0, 0, 0)


def test_the_first_fetch_of_a_session_is_answered_in_full():
    sessions = FetchSessions(10)
    context = sessions.resolve(request([("orders", 0), ("orders", 1)], session=(0, 0)), 11, NOW)
    response = context.answer(answers(context))
    assert told(response) == [("orders", 0), ("orders", 1)]
    assert response.session_id > 0
    assert (len(sessions), sessions.partition_count) == (1, 2)


def test_a_session_reads_what_was_named_before_and_answers_only_what_is_new():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0), ("orders", 1), ("orders", 2)])
    context = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    assert wanted(context) == [("orders", 0), ("orders", 1), ("orders", 2)]
    response = context.answer(answers(context, p1=b"batch"))
    assert told(response) == [("orders", 1)]
    assert response.session_id == opened


def test_nothing_new_is_an_empty_answer():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    context = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    assert told(context.answer(answers(context))) == []


@pytest.mark.parametrize("moved", [{"high_watermark": 6}, {"log_start_offset": 3}])
def test_a_mark_that_moved_is_told_once(moved):
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    first = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    assert told(first.answer(answers(first, **moved))) == [("orders", 0)]
    second = sessions.resolve(request(session=(opened, 2)), 12, NOW)
    assert told(second.answer(answers(second, **moved))) == []


def test_an_error_is_told_every_time_and_so_is_its_end():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    for epoch in (1, 2):
        context = sessions.resolve(request(session=(opened, epoch)), 12, NOW)
        response = context.answer(answers(context, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert told(response) == [("orders", 0)]
    context = sessions.resolve(request(session=(opened, 3)), 12, NOW)
    assert told(context.answer(answers(context))) == [("orders", 0)]


@pytest.mark.parametrize(
    "hint",
    [
        {"preferred_read_replica": 2},
        {"diverging_epoch": FetchResponse.Topic.Partition.EpochEndOffset(epoch=1, end_offset=3)},
    ],
)
def test_a_hint_for_the_reader_is_told_though_no_mark_moved(hint):
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    context = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    (answer,) = answers(context)
    for name, value in hint.items():
        setattr(answer, name, value)
    assert told(context.answer([answer])) == [("orders", 0)]


def test_what_was_answered_is_read_last_the_next_time():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0), ("orders", 1), ("orders", 2)])
    context = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    context.answer(answers(context, p0=b"batch", p1=b"batch"))
    context = sessions.resolve(request(session=(opened, 2)), 12, NOW)
    assert wanted(context) == [("orders", 2), ("orders", 0), ("orders", 1)]


def test_a_session_follows_what_its_reader_adds_changes_and_forgets():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0), ("orders", 1)])
    change = request(
        [("orders", 1, 44), ("refunds", 0)], session=(opened, 1), forget=[("orders", 0), ("x", 9)]
    )
    context = sessions.resolve(change, 12, NOW)
    assert wanted(context) == [("orders", 1), ("refunds", 0)]
    assert context.partitions[0][2].fetch_offset == 44
    assert sessions.partition_count == 2


def test_a_session_without_partitions_is_closed():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    context = sessions.resolve(request(session=(opened, 1), forget=[("orders", 0)]), 12, NOW)
    assert context.answer([]).session_id == 0
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_a_full_fetch_closes_the_session_it_names():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    context = sessions.resolve(request([("orders", 0)], session=(opened, -1)), 12, NOW)
    assert context.answer(answers(context)).session_id == 0
    assert len(sessions) == 0


def error_of(context: FetchContext) -> ErrorCode:
    response = context.answer([])
    assert response.responses == []
    assert response.error_code == context.error
    return context.error


def test_a_session_that_is_not_known_is_refused():
    assert error_of(FetchSessions(10).resolve(request(session=(4711, 1)), 12, NOW)) == 70


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_a_fetch_that_is_not_the_next_of_its_session_is_refused(epoch):
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    assert error_of(sessions.resolve(request(session=(opened, epoch)), 12, NOW)) == 71


def test_names_and_ids_do_not_mix_in_a_session():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)], version=12)
    assert error_of(sessions.resolve(request(session=(opened, 1)), 13, NOW)) == 106
    opened = open_session(sessions, [(ORDERS, 0)], version=13)
    assert error_of(sessions.resolve(request(session=(opened, 1)), 12, NOW)) == 106


def test_ids_are_remembered_known_or_not():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [(ORDERS, 0), (REFUNDS, 0)], version=13)
    context = sessions.resolve(request([(uuid.UUID(int=ORDERS.int), 0, 9)], session=(opened, 1)), 13, NOW)
    assert wanted(context) == [(ORDERS, 0), (REFUNDS, 0)]
    assert context.partitions[0][2].fetch_offset == 9
    response = context.answer(answers(context, error=ErrorCode.UNKNOWN_TOPIC_ID))
    assert told(response) == [(ORDERS, 0), (REFUNDS, 0)]


def test_partitions_of_a_topic_share_its_entry_even_if_they_were_named_in_different_requests():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [(ORDERS, 0)], version=13)
    context = sessions.resolve(request([(uuid.UUID(int=ORDERS.int), 1)], session=(opened, 1)), 13, NOW)
    response = context.answer(answers(context, p0=b"batch"))
    assert [len(topic.partitions) for topic in response.responses] == [2]


def test_a_fetch_that_was_overtaken_by_the_next_one_is_told_to_start_over():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    slow = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    fast = sessions.resolve(request(session=(opened, 2)), 12, NOW)
    response = slow.answer(answers(slow, p0=b"batch"))
    assert (response.error_code, response.responses) == (71, [])
    assert told(fast.answer(answers(fast, p0=b"batch"))) == [("orders", 0)]


@pytest.mark.parametrize(
    "change", [{"forget": [("orders", 0)]}, {"wants": [("refunds", n) for n in range(9)]}]
)
def test_so_is_one_whose_session_the_next_one_ended(change):
    sessions = FetchSessions(10, partitions_max=5)
    opened = open_session(sessions, [("orders", 0)])
    slow = sessions.resolve(request(session=(opened, 1)), 12, NOW)
    sessions.resolve(request(session=(opened, 2), **change), 12, NOW)
    assert len(sessions) == 0
    response = slow.answer(answers(slow, p0=b"batch"))
    assert (response.error_code, response.responses) == (71, [])


def test_epochs_start_over_at_one():
    sessions = FetchSessions(10)
    opened = open_session(sessions, [("orders", 0)])
    sessions._sessions[opened].epoch = EPOCH_MAX
    assert sessions.resolve(request(session=(opened, EPOCH_MAX)), 12, NOW).error == 0
    assert sessions.resolve(request(session=(opened, 1)), 12, NOW).error == 0


def test_with_all_slots_taken_a_newcomer_reads_without_a_session():
    sessions = FetchSessions(2)
    for _ in range(2):
        assert open_session(sessions, [("orders", 0)])
    context = sessions.resolve(request([("orders", 0), ("orders", 1)], session=(0, 0)), 12, NOW)
    response = context.answer(answers(context))
    assert (response.session_id, told(response)) == (0, [("orders", 0), ("orders", 1)])
    assert len(sessions) == 2


def test_a_session_that_nobody_uses_gives_way_to_anybody():
    sessions = FetchSessions(2)
    idle = open_session(sessions, [("orders", i) for i in range(9)])
    busy = open_session(sessions, [("orders", 0)])
    later = NOW + EVICTABLE_AFTER_MS + 1
    sessions.resolve(request(session=(busy, 1)), 12, later)
    assert open_session(sessions, [("orders", 0)], now_ms=later)
    assert sessions.resolve(request(session=(idle, 1)), 12, later).error == 70
    assert sessions.resolve(request(session=(busy, 2)), 12, later).error == 0
    assert sessions.evicted_count == 1


def test_an_old_session_gives_way_to_a_larger_one_only():
    sessions = FetchSessions(1)
    opened = open_session(sessions, [("orders", 0), ("orders", 1)])
    later = NOW + EVICTABLE_AFTER_MS + 1
    sessions.resolve(request(session=(opened, 1)), 12, later)
    assert not open_session(sessions, [("orders", 0), ("orders", 1)], now_ms=later)
    assert open_session(sessions, [("orders", 0), ("orders", 1), ("orders", 2)], now_ms=later)


def test_a_follower_takes_the_place_of_a_consumer_and_not_the_other_way_round():
    sessions = FetchSessions(1)
    open_session(sessions, [("orders", 0), ("orders", 1)])
    follower = open_session(sessions, [("orders", 0)], replica_id=2)
    assert follower
    later = NOW + EVICTABLE_AFTER_MS + 1
    sessions.resolve(request(session=(follower, 1)), 12, later)
    assert not open_session(sessions, [("orders", i) for i in range(5)], now_ms=later)


def test_the_partitions_of_all_sessions_are_bounded():
    sessions = FetchSessions(100, partitions_max=5)
    opened = open_session(sessions, [("orders", i) for i in range(3)])
    assert not open_session(sessions, [("orders", i) for i in range(3)])
    assert not open_session(sessions, [("orders", i) for i in range(6)])
    more = request([("refunds", i) for i in range(3)], session=(opened, 1))
    assert error_of(sessions.resolve(more, 12, NOW)) == 70
    assert sessions.partition_count == 0


def test_no_slots_means_no_sessions():
    assert open_session(FetchSessions(0), [("orders", 0)]) == 0


@given(st.lists(st.tuples(st.sampled_from("adfr"), st.integers(0, 4)), max_size=60), st.integers(0, 99))
def test_a_reader_that_follows_the_answers_knows_what_a_full_fetch_would_tell(steps, seed):
    """The reader keeps the last high watermark it was told of each partition; it is never behind the broker's."""
    chance = random.Random(seed)
    sessions = FetchSessions(3, generator=random.Random(seed))
    marks = dict.fromkeys(range(5), 0)
    reader = {0: -1}
    session = (0, 0)
    fresh = [("orders", 0)]
    for step, index in steps:
        forget = []
        if step == "a":
            fresh.append(("orders", index))
            reader.setdefault(index, -1)
        elif step == "d" and session[1] and index in reader and len(reader) > 1:
            forget = [("orders", index)]
            fresh = [pair for pair in fresh if pair[1] != index]
            del reader[index]
        elif step == "f":
            marks[index] += chance.randrange(3)
        wants = fresh if session[1] else [("orders", i) for i in reader]
        context = sessions.resolve(request(wants, session=session, forget=forget), 12, NOW)
        assert not context.error
        assert sorted(part.partition for _, _, part in context.partitions) == sorted(reader)
        response = context.answer(
            [
                FetchResponse.Topic.Partition(
                    partition_index=part.partition,
                    error_code=0,
                    high_watermark=marks[part.partition],
                    log_start_offset=0,
                    records=b"",
                )
                for _, _, part in context.partitions
            ]
        )
        for topic in response.responses:
            for part in topic.partitions:
                reader[part.partition_index] = part.high_watermark
        assert reader == {i: marks[i] for i in reader}
        session, fresh = (response.session_id, session[1] + 1), []
        assert sessions.partition_count == len(reader)
