"""A follower asks, and lets its log become the leader's: with real logs, and messages that are plain calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import FetchAnswer, FetchQuestion
from ottla.replication.following import Outcome
from ottla.replication.state import NO_LEADER
from ottla.storage.epochs import EpochEnd
from ottla.testing.disk import SimDisk
from tests.unit.replication.replicas import ask, content, fetch, put, replica, state
from tests.unit.storage.helpers import NOW, batch


def pair(**settings):
    """Broker 1 leads in epoch 0, broker 2 follows."""
    leader, follower = replica(1, **settings), replica(2, **settings)
    for each in (leader, follower):
        each.follow_orders(state(1, 0, 0))
    return leader, follower


def swap(leader, follower, epoch):
    """The follower leads now, in `epoch`, and the other follows."""
    for each in (leader, follower):
        each.follow_orders(state(follower.broker_id, epoch, epoch))
    return follower, leader


def test_a_follower_has_caught_up_when_it_has_what_is_committed():
    leader, follower = pair()
    third = replica(3)
    third.follow_orders(state(1, 0, 0))
    put(leader, b"a", b"b")
    assert not follower.is_caught_up and not leader.is_caught_up
    for each in (follower, third, follower, third):
        fetch(each, leader)
    assert leader.high_watermark.value == 2 and follower.is_caught_up
    follower.follow_orders(state(3, 1, 1))
    assert not follower.is_caught_up, "the new leader has not said yet"


# --- asking -------------------------------------------------------------------------------------------------------


def test_a_leader_asks_nobody():
    leader, _ = pair()
    assert leader.question() is None


def test_without_a_leader_there_is_nobody_to_ask():
    _, follower = pair()
    follower.follow_orders(state(NO_LEADER, 1, 1))
    assert follower.question() is None


def test_a_replica_without_orders_asks_nobody():
    assert replica(1).question() is None


def test_the_question_says_where_the_log_ends_and_in_which_epoch():
    leader, follower = pair()
    assert follower.question() == FetchQuestion(0, -1, 0, 0)
    put(leader, b"a", b"b")
    fetch(follower, leader)
    assert follower.question() == FetchQuestion(2, 0, 0, 0)


# --- answers ------------------------------------------------------------------------------------------------------


def test_what_is_fetched_is_appended_and_the_high_watermark_follows_one_fetch_later():
    leader, follower = pair()
    put(leader, b"a")
    assert fetch(follower, leader) is Outcome.APPENDED
    assert (follower.log_end.value, follower.high_watermark.value) == (1, 0)
    leader.follow_orders(state(1, 0, 1, isr=(1, 2)))
    assert fetch(follower, leader) is Outcome.NOTHING
    assert (follower.high_watermark.value, leader.high_watermark.value) == (1, 1)


def test_who_waits_at_a_follower_is_told_when_records_come_and_when_they_are_committed():
    leader, follower = pair()
    leader.follow_orders(state(1, 0, 1, isr=(1, 2)))
    told = []
    follower.log_end.on_reach(1, lambda error: told.append("there"))
    follower.high_watermark.on_reach(1, lambda error: told.append("committed"))
    put(leader, b"a")
    fetch(follower, leader)
    assert told == ["there"]
    fetch(follower, leader)
    assert told == ["there", "committed"]


def test_the_same_answer_twice_is_applied_once():
    leader, follower = pair()
    put(leader, b"a")
    question = follower.question()
    answer = ask(leader, 2, question)
    assert follower.answer(question, answer, 0) is Outcome.APPENDED
    assert follower.answer(question, answer, 0) is Outcome.STALE
    assert follower.log.end_offset == 1


def test_an_answer_of_an_earlier_leader_epoch_is_dropped():
    leader, follower = pair()
    put(leader, b"a")
    question = follower.question()
    answer = ask(leader, 2, question)
    follower.follow_orders(state(3, 1, 1))
    assert follower.answer(question, answer, 0) is Outcome.STALE
    assert follower.log.end_offset == 0


def test_a_late_answer_that_tells_of_parted_logs_does_not_cut_one_that_has_met_its_leader_since():
    leader, follower = pair()
    put(leader, b"a")
    fetch(follower, leader)
    put(leader, b"b")
    leader, follower = swap(leader, follower, 1)
    put(leader, b"c")
    question = follower.question()
    late = ask(leader, 1, question)
    assert late.diverging == EpochEnd(0, 1)
    assert follower.answer(question, late, 0) is Outcome.TRUNCATED
    fetch(follower, leader)
    assert content(follower) == content(leader)
    assert follower.answer(question, late, 0) is Outcome.STALE
    assert content(follower) == content(leader)


def test_an_answer_that_comes_when_we_lead_ourselves_is_dropped():
    leader, follower = pair()
    put(leader, b"a")
    question = follower.question()
    answer = ask(leader, 2, question)
    swap(leader, follower, 1)
    assert follower.answer(question, answer, 0) is Outcome.STALE
    assert follower.out_of_range(question, 5, 9) is Outcome.STALE


def test_a_refusal_changes_nothing():
    _, follower = pair()
    question = follower.question()
    assert follower.answer(question, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH), 0) is Outcome.REFUSED
    assert follower.question() == question


# --- logs that part -------------------------------------------------------------------------------------------------


def test_a_follower_that_comes_back_keeps_what_lies_above_its_high_watermark():
    """It may be committed: the high watermark that it knows of is one fetch old (KIP-101)."""
    disk = SimDisk()
    leader, follower = replica(1), replica(2, disk)
    for each in (leader, follower):
        each.follow_orders(state(1, 0, 0, isr=(1, 2)))
    put(leader, b"a", b"b")
    fetch(follower, leader)
    ask(leader, 2, follower.question())  # now both records are committed, but the answer is lost
    assert leader.high_watermark.value == 2
    again = replica(2, disk)
    assert (again.log.end_offset, again.high_watermark.value) == (2, 0)
    again.follow_orders(state(1, 0, 1, isr=(1, 2)))
    again.follow_orders(state(2, 1, 2, isr=(2,)))
    assert content(again) == [(0, b"a"), (0, b"b")]


def test_what_only_a_dead_leader_had_goes_when_it_comes_back():
    leader, follower = pair()
    put(leader, b"a")
    fetch(follower, leader)
    put(leader, b"lost", b"lost too")
    leader, follower = swap(leader, follower, 1)
    put(leader, b"b")
    assert fetch(follower, leader) is Outcome.TRUNCATED
    fetch(follower, leader)
    assert content(follower) == content(leader) == [(0, b"a"), (1, b"b")]
    assert follower.log_end.value == 2


def test_fast_elections_are_untangled_epoch_by_epoch():
    """Neither knows the other's last epoch: each round brings them one epoch closer (KIP-279)."""
    one, two = pair()
    put(one, b"a")
    fetch(two, one)
    one.follow_orders(state(1, 1, 1))
    put(one, b"only one")
    two.follow_orders(state(2, 2, 2))
    put(two, b"only two")
    one.follow_orders(state(1, 3, 3))
    put(one, b"only one again")
    two.follow_orders(state(2, 4, 4))
    one.follow_orders(state(2, 4, 4))
    outcomes = [fetch(one, two) for _ in range(4)]
    assert outcomes == [Outcome.TRUNCATED, Outcome.TRUNCATED, Outcome.APPENDED, Outcome.NOTHING]
    assert content(one) == content(two) == [(0, b"a"), (2, b"only two")]


def test_an_epoch_that_was_noted_but_never_written_does_not_stand_in_the_way():
    leader, follower = pair()
    put(leader, b"a", b"b")
    fetch(follower, leader)
    follower.log.truncate_to(1)
    follower.log.epochs.assign(1, 1)  # it led in epoch 1, and died before it wrote anything
    leader.follow_orders(state(1, 2, 2))
    follower.follow_orders(state(1, 2, 2))
    assert follower.question().last_fetched_epoch == 0
    assert fetch(follower, leader) is Outcome.APPENDED
    assert content(follower) == [(0, b"a"), (0, b"b")]


@given(st.data())
def test_two_logs_with_any_history_become_one_and_keep_what_they_shared(data):
    """Leaders 1 and 2 take turns; what each wrote reaches the other or not. In the end one of them follows."""
    one, two = replica(1), replica(2)
    epoch = 0
    for _ in range(data.draw(st.integers(1, 6))):
        leader, follower = data.draw(st.sampled_from([(one, two), (two, one)]))
        hears = data.draw(st.booleans())
        leader.follow_orders(state(leader.broker_id, epoch, epoch))
        if hears:
            follower.follow_orders(state(leader.broker_id, epoch, epoch))
        for number in range(data.draw(st.integers(0, 3))):
            put(leader, b"%d.%d" % (epoch, number))
        for _ in range(data.draw(st.integers(0, 4)) if hears else 0):
            fetch(follower, leader)
        epoch += 1
    shared = []
    for ours, theirs in zip(content(one), content(two), strict=False):
        if ours != theirs:
            break
        shared.append(ours)
    for each in (one, two):
        each.follow_orders(state(1, epoch, epoch))
    before = content(one)
    rounds = 0
    while fetch(two, one) is not Outcome.NOTHING:
        assert content(two)[: len(shared)] == shared, "what they shared was cut"
        rounds += 1
        assert rounds < 40, "they never agree"
    assert content(one) == content(two) == before


# --- beyond the leader's log ---------------------------------------------------------------------------------------


def test_who_asks_for_what_was_deleted_starts_where_the_leader_starts():
    leader, follower = replica(1), replica(2)
    leader.follow_orders(state(1, 0, 0, replicas=(1,), isr=(1,)))
    put(leader, b"a", b"b", b"c")
    leader.log.advance_log_start(2)
    for each in (leader, follower):
        each.follow_orders(state(1, 0, 1, isr=(1,)))
    question = follower.question()
    assert fetch(follower, leader) is Outcome.OUT_OF_RANGE
    assert follower.out_of_range(question, 2, 3) is Outcome.TRUNCATED
    assert (follower.log.log_start_offset, follower.log_end.value, follower.high_watermark.value) == (2, 2, 2)
    assert fetch(follower, leader) is Outcome.APPENDED
    assert content(follower) == [(0, b"c")]


def test_without_epochs_the_end_of_the_leader_is_all_there_is_to_go_by():
    _, follower = pair()
    question = follower.question()
    follower.log.restart_at(9)
    assert follower.out_of_range(question, 0, 4) is Outcome.STALE
    assert follower.out_of_range(follower.question(), 0, 4) is Outcome.TRUNCATED
    assert follower.log.end_offset == 4
    assert follower.out_of_range(follower.question(), 0, 4) is Outcome.NOTHING


def test_the_start_of_the_log_follows_the_leaders_as_far_as_that_is_committed():
    leader, follower = pair()
    put(leader, b"a", b"b")
    leader.follow_orders(state(1, 0, 1, isr=(1, 2)))
    for _ in range(3):
        fetch(follower, leader)
    leader.log.advance_log_start(1)
    fetch(follower, leader)
    assert follower.log.log_start_offset == 1


@pytest.mark.parametrize("epoch", [-1, 1])
def test_a_leader_answers_no_follower_of_another_epoch(epoch):
    leader, follower = pair()
    question = follower.question()._replace(current_leader_epoch=epoch)
    assert ask(leader, 2, question).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.follow_orders(state(1, 5, 5))
    assert ask(leader, 2, follower.question()).error is ErrorCode.FENCED_LEADER_EPOCH


# --- leaders that talk nonsense -------------------------------------------------------------------------------------


def _spoilt(*values, at=-1, **how):
    data = bytearray(batch(*values, **how))
    data[at] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "answer",
    [
        FetchAnswer(records=batch(b"x", base_offset=2, leader_epoch=6)),
        FetchAnswer(records=batch(b"x", base_offset=2, leader_epoch=3)),
        FetchAnswer(
            records=batch(b"x", base_offset=2, leader_epoch=5) + batch(b"y", base_offset=3, leader_epoch=4)
        ),
        FetchAnswer(records=batch(b"x", base_offset=1, leader_epoch=5)),
        FetchAnswer(records=_spoilt(b"x", base_offset=2, leader_epoch=5)),
        FetchAnswer(records=batch(b"x", base_offset=2, leader_epoch=5)[:-1]),
        FetchAnswer(records=bytes(200)),
        FetchAnswer(diverging=EpochEnd(4, -1)),
    ],
    ids=["newer", "older", "backwards", "doubled", "damaged", "cut", "nothing", "nowhere"],
)
def test_what_cannot_be_leaves_the_log_as_it_is(answer):
    """An epoch is covered by no checksum: once written down, all that comes later would look outdated."""
    leader, follower = pair()
    for each in (leader, follower):
        each.follow_orders(state(1, 4, 4))
    put(leader, b"a", b"b")
    fetch(follower, leader)
    follower.follow_orders(state(1, 5, 5))
    before = follower.question(), list(follower.log.epochs.entries), content(follower)
    with pytest.raises(KafkaError):
        follower.answer(follower.question(), answer, NOW)
    assert (follower.question(), list(follower.log.epochs.entries), content(follower)) == before


@pytest.mark.parametrize("found", [(-1, -1), (5, 1), (-2, 0)])
def test_a_range_that_no_log_has_is_not_followed(found):
    leader, follower = pair()
    put(leader, b"a", b"b")
    fetch(follower, leader)
    with pytest.raises(KafkaError):
        follower.out_of_range(follower.question(), *found)
    assert content(follower) == content(leader)


def test_who_cannot_follow_a_new_leader_does_not_go_on_with_the_old_one():
    leader, follower = pair()
    put(leader, b"a")
    fetch(follower, leader)
    question = follower.question()
    follower.log.epochs.assign(1, 1)  # it led for a moment, and wrote nothing
    follower.log.failure = OSError("the disk is gone")
    with pytest.raises(KafkaError):
        follower.follow_orders(state(3, 2, 2))
    assert follower.question() is None
    assert follower.answer(question, ask(leader, 2, question), NOW) is Outcome.STALE
