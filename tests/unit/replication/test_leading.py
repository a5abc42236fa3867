"""Who is in sync, who is proposed, and what is committed meanwhile."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import BrokerLife
from tests.unit.replication.replicas import LAG_MS, ask, fetch, put, replica, state


class Circle:
    """Broker 1 leads, 2 and 3 follow. Time is what the test says."""

    def __init__(self, isr=(1, 2, 3), **settings):
        self.one, self.two, self.three = (replica(id, **settings) for id in (1, 2, 3))
        self.tell(state(1, 0, 0, isr))

    def tell(self, told, now_ms=0):
        for each in (self.one, self.two, self.three):
            each.follow_orders(told, now_ms)

    def propose(self, now_ms):
        proposal = self.one.propose(now_ms)
        return None if proposal is None else tuple(life.broker for life in proposal.isr)

    @property
    def mark(self):
        return self.one.high_watermark.value


def catch_up(follower, leader, now_ms):
    for _ in range(4):
        fetch(follower, leader, now_ms)


# --- falling behind -------------------------------------------------------------------------------------------------


def test_a_follower_that_is_behind_for_too_long_is_proposed_out():
    circle = Circle()
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, LAG_MS)
    assert circle.propose(LAG_MS) is None, "just in time"
    assert circle.propose(LAG_MS + 1) == (1, 2)


def test_one_that_has_everything_stays_however_long_it_has_not_asked():
    circle = Circle()
    catch_up(circle.two, circle.one, 0)
    catch_up(circle.three, circle.one, 0)
    assert circle.propose(99 * LAG_MS) is None


def test_one_that_keeps_up_with_a_busy_leader_is_in_sync_though_it_never_has_everything():
    circle = Circle(isr=(1, 2))
    for now_ms in range(0, 10 * LAG_MS, LAG_MS // 2):
        put(circle.one, b"x")
        fetch(circle.two, circle.one, now_ms)
        assert circle.propose(now_ms) is None


def test_one_that_asks_often_but_falls_further_behind_is_out_of_sync():
    circle = Circle(isr=(1, 2))
    proposed = []
    for now_ms in range(0, 3 * LAG_MS, LAG_MS // 4):
        put(circle.one, b"x", b"y", b"z")
        question = circle.two.question()._replace(fetch_offset=0, last_fetched_epoch=-1)
        ask(circle.one, 2, question, now_ms)
        proposed.append(circle.propose(now_ms))
    assert (1,) in proposed


def test_there_is_one_proposal_at_a_time():
    circle = Circle()
    put(circle.one, b"a")
    assert circle.propose(2 * LAG_MS) == (1,)
    assert circle.propose(3 * LAG_MS) is None


# --- until the controller agrees --------------------------------------------------------------------------------------


def test_a_leader_alone_commits_nothing_before_the_controller_has_agreed():
    circle = Circle()
    put(circle.one, b"a")
    proposal = circle.one.propose(2 * LAG_MS)
    assert circle.mark == 0
    circle.one.answered(proposal, state(1, 0, 1, isr=(1,)), 2 * LAG_MS)
    assert (circle.mark, circle.one.isr) == (1, {1})


def test_whoever_is_proposed_is_waited_for_already():
    circle = Circle(isr=(1, 2))
    catch_up(circle.two, circle.one, 0)
    catch_up(circle.three, circle.one, 0)
    assert circle.propose(0) == (1, 2, 3)
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.mark == 0, "broker 3 may be in sync by now, as the controller sees it"
    catch_up(circle.three, circle.one, 0)
    assert circle.mark == 1


def test_when_nobody_knows_what_came_of_it_the_union_stays_and_the_same_is_asked_again():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    circle.one.answered(proposal, None, 0)
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.mark == 0
    assert circle.one.propose(0) is proposal


def test_a_leader_that_did_not_know_its_own_life_yet_keeps_the_union_and_asks_again():
    """It may have been done in the former life, and its answer lost: nobody knows."""
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    circle.one.answered(proposal, KafkaError(ErrorCode.STALE_BROKER_EPOCH), 0)
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.mark == 0
    assert circle.one.propose(0) is proposal


@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_newer_state_that_has_not_reached_us_yet_keeps_the_union_and_stops_the_asking(code):
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    circle.one.answered(proposal, KafkaError(code), 0)
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.mark == 0
    assert circle.propose(0) is None
    circle.one.follow_orders(state(1, 0, 1, isr=(1, 2, 3)), 0)
    assert circle.mark == 0
    catch_up(circle.three, circle.one, 0)
    assert circle.mark == 1


def test_a_replica_that_the_controller_does_not_want_is_not_waited_for_and_asked_for_again_later():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    circle.one.answered(circle.one.propose(0), KafkaError(ErrorCode.INELIGIBLE_REPLICA), 0)
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.mark == 1
    catch_up(circle.three, circle.one, 1)
    assert not circle.one.someone_may_join(1)
    assert circle.propose(1) is None
    assert circle.one.someone_may_join(LAG_MS)
    assert circle.propose(LAG_MS) == (1, 2, 3)


def test_a_replica_that_was_refused_is_asked_for_at_once_in_its_next_life():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    circle.one.answered(circle.one.propose(0), KafkaError(ErrorCode.INELIGIBLE_REPLICA), 0)
    circle.one.follower_fetch(BrokerLife(3, 203), circle.three.question(), 1)
    assert circle.one.someone_may_join(1)
    assert circle.one.propose(1).isr[-1] == BrokerLife(3, 203)


def test_a_replica_that_was_refused_is_not_asked_for_at_once_though_a_newer_state_came_first():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    circle.one.follow_orders(state(1, 0, 1, isr=(1, 2)), 0)
    circle.one.answered(proposal, KafkaError(ErrorCode.INELIGIBLE_REPLICA), 0)
    assert circle.propose(0) is None
    assert circle.propose(LAG_MS) == (1, 2, 3)


def test_the_same_orders_again_settle_nothing():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    circle.one.propose(0)
    circle.one.follow_orders(state(1, 0, 0, isr=(1, 2)), 0)
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.mark == 0


def test_an_answer_to_a_proposal_of_an_earlier_reign_is_old_news():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    circle.tell(state(1, 4, 4, isr=(1, 2)))
    circle.one.answered(proposal, state(1, 0, 1, isr=(1, 2, 3)), 0)
    assert circle.one.isr == {1, 2}
    circle.tell(state(2, 5, 5, isr=(1, 2)))
    circle.one.answered(proposal, None, 0)
    assert circle.one.propose(0) is None


def test_a_state_that_says_that_somebody_else_leads_stops_the_asking():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    circle.one.answered(proposal, state(2, 1, 1, isr=(2,)), 0)
    assert circle.one.is_leader, "the controller tells us itself"
    assert circle.propose(0) is None


# --- joining ---------------------------------------------------------------------------------------------------------


def test_a_follower_joins_when_it_has_everything_committed_and_everything_from_before_this_reign():
    circle = Circle()
    put(circle.one, b"a", b"b")
    catch_up(circle.two, circle.one, 0)
    catch_up(circle.three, circle.one, 0)
    circle.tell(state(2, 1, 1, isr=(2,)))
    leader, follower = circle.two, circle.three
    leader.log.high_watermark = 0  # a new leader may know of an old one only
    question = follower.question()._replace(fetch_offset=1)
    ask(leader, 3, question, 0)
    assert not leader.someone_may_join(0), "it may lack what was committed before this reign"
    fetch(follower, leader, 0)
    assert leader.someone_may_join(0)
    assert [life.broker for life in leader.propose(0).isr] == [2, 3]


def test_one_that_does_not_ask_any_more_keeps_nobody_else_out():
    """It may have everything and be dead: the controller would refuse it, and with it whoever is proposed beside it."""
    circle = Circle(isr=(1,))
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    catch_up(circle.three, circle.one, LAG_MS + 1)
    assert circle.propose(LAG_MS + 1) == (1, 3)


def test_one_that_the_controller_does_not_want_keeps_nobody_else_out():
    circle = Circle(isr=(1,))
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    catch_up(circle.three, circle.one, 0)
    proposal = circle.one.propose(0)
    assert [life.broker for life in proposal.isr] == [1, 2], "one at a time"
    circle.one.answered(proposal, KafkaError(ErrorCode.INELIGIBLE_REPLICA, "2 is not alive"), 0)
    assert circle.propose(0) == (1, 3)


def test_a_leader_speaks_for_the_life_it_has_now():
    """The controller may hear of a registration, and have its orders followed, before the broker hears of it."""
    circle = Circle(isr=(1,))
    circle.one.broker_epoch = 777
    put(circle.one, b"a")
    catch_up(circle.two, circle.one, 0)
    assert circle.one.propose(0).isr[0] == BrokerLife(1, 777)


def test_a_slow_follower_does_not_flap():
    """It reaches the high watermark, which waits for nobody, but it never keeps up: it stays out."""
    circle = Circle(isr=(1, 2))
    for now_ms in range(0, 5 * LAG_MS, 100):
        put(circle.one, b"x")
        question = circle.three.question()._replace(fetch_offset=circle.mark, last_fetched_epoch=-1)
        put(circle.one, b"y")
        ask(circle.one, 3, question, now_ms)
        assert circle.mark == 0 or not circle.one.someone_may_join(now_ms)


def test_a_proposal_names_the_lives_that_were_heard():
    circle = Circle(isr=(1, 2))
    catch_up(circle.three, circle.one, 0)
    assert circle.one.propose(0).isr == (BrokerLife(1, 101), BrokerLife(2, -1), BrokerLife(3, 103))


def test_a_fetch_of_a_former_life_says_nothing():
    circle = Circle()
    question = circle.two.question()
    circle.one.follower_fetch(BrokerLife(2, 200), question, 0)
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        circle.one.follower_fetch(BrokerLife(2, 199), question, 0)


# --- too few ---------------------------------------------------------------------------------------------------------


def test_with_too_few_in_sync_nothing_is_committed_and_who_waits_is_told():
    circle = Circle(min_insync_replicas=2)
    put(circle.one, b"a", acks=-1)
    told = []
    circle.one.high_watermark.on_reach(1, lambda error: told.append(error.code))
    circle.one.follow_orders(state(1, 0, 1, isr=(1,)), 0)
    assert told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert circle.mark == 0, "those that left may be elected, with what they have"
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        put(circle.one, b"b", acks=-1)
    put(circle.one, b"c", acks=1)
    assert circle.mark == 0
    catch_up(circle.two, circle.one, 0)
    circle.one.follow_orders(state(1, 0, 2, isr=(1, 2)), 0)
    assert circle.mark == 2


def test_while_somebody_is_eligible_nothing_is_committed_whatever_the_topic_asks_for():
    """The controller may have heard of a larger min.insync.replicas before we have."""
    circle = Circle(min_insync_replicas=1)
    put(circle.one, b"a")
    circle.one.follow_orders(state(1, 0, 1, isr=(1,))._replace(elr=(2,)), 0)
    assert circle.mark == 0
    circle.one.follow_orders(state(1, 0, 2, isr=(1,)), 0)
    assert circle.mark == 1
