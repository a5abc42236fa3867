"""InitProducerId for transactional ids: who gets which id and epoch, and who is told to go away."""

import pytest

from ottla.core.errors import KafkaError
from ottla.replication.machine import Producer
from ottla.transactions.states import State
from ottla.transactions.transaction import LAST_EPOCH
from tests.unit.transactions.stage import FIRST_PRODUCER_ID, START, Stage

FIRST, SECOND = FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1


@pytest.fixture
def stage():
    return Stage()


def refused(stage, *arguments, **named):
    """The code with which it is refused; nothing may change."""
    before = dict(stage.shard.transactions), len(stage.log), list(stage.orders)
    with pytest.raises(KafkaError) as caught:
        stage.init(*arguments, **named)
    assert (dict(stage.shard.transactions), len(stage.log), list(stage.orders)) == before
    return caught.value.code


def set_epoch(stage, epoch, **changes):
    stage.log.append(stage.of("t")._replace(producer_epoch=epoch, **changes).to_entry())
    stage.shard.apply(stage.log[-1], None)


# --- requests that make no sense -----------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 31), 900_001, (1 << 31) - 1])
def test_an_absurd_timeout_is_refused(stage, timeout_ms):
    assert refused(stage, "t", timeout_ms=timeout_ms) == 50


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_timeouts_up_to_the_limit_are_fine(stage, timeout_ms):
    stage.own("t", timeout_ms=timeout_ms)
    assert stage.of("t").timeout_ms == timeout_ms


@pytest.mark.parametrize("transactional_id", ["", None])
def test_an_empty_id_is_refused(stage, transactional_id):
    assert refused(stage, transactional_id) == 42


@pytest.mark.parametrize("expected", [(5, -1), (-1, 5)])
def test_half_a_producer_is_refused(stage, expected):
    assert refused(stage, "t", expected) == 42


def test_two_phase_commit_is_refused_as_kafka_does_where_it_is_off(stage):
    assert refused(stage, "t", version=6, enable2_pc=True) == 53
    assert refused(stage, "t", version=6, enable2_pc=True, timeout_ms=(1 << 31) - 1) == 53
    assert refused(stage, "t", version=6, keep_prepared_txn=True) == 35


# --- owners --------------------------------------------------------------------------------------------------------


def test_a_new_id_gets_a_producer_id_and_epoch_0(stage):
    assert stage.own("t") == Producer(FIRST, 0)
    assert stage.own("u") == Producer(SECOND, 0)
    (step, _) = stage.written()
    assert (step.state, step.last_update_ms, step.start_ms) == (State.EMPTY, START.wall_ms, -1)


def test_whoever_comes_next_gets_the_next_epoch(stage):
    stage.own("t", timeout_ms=1000)
    assert stage.own("t", timeout_ms=2000) == Producer(FIRST, 1)
    assert stage.of("t").timeout_ms == 2000, "and the timeout it asks for"


@pytest.mark.parametrize("commit", [True, False])
def test_also_after_a_transaction(stage, commit):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    stage.end("t", owner, commit=commit)
    assert refused(stage, "t") == 51, "not while its markers are written"
    stage.mark_all()
    assert stage.own("t") == Producer(FIRST, 2)
    assert stage.of("t").state is State.EMPTY and stage.of("t").start_ms == -1


def test_an_open_transaction_is_aborted_first_with_an_epoch_that_nobody_gets(stage):
    old = stage.own("t")
    stage.add("t", old, "a-0")
    response = stage.init("t")
    assert (response.error_code, response.producer_id, response.producer_epoch) == (51, -1, -1)
    (order,) = stage.orders
    assert order.producer == Producer(FIRST, 1) and not order.is_commit
    assert refused(stage, "t") == 51
    stage.mark_all()
    assert stage.own("t") == Producer(FIRST, 2)
    assert refused(stage, "t", old) == 90


# --- going on after an error (KIP-360) -----------------------------------------------------------------------------


def test_an_owner_that_names_itself_gets_the_next_epoch(stage):
    owner = stage.own("t")
    assert stage.own("t", owner) == Producer(FIRST, 1)


def test_if_the_reply_was_lost_it_gets_the_same_again(stage):
    owner = stage.own("t")
    after = stage.own("t", owner)
    assert stage.own("t", owner) == stage.own("t", owner) == after
    assert stage.own("t", after) == Producer(FIRST, 2)


def test_once_it_went_on_a_repetition_is_refused(stage):
    owner = stage.own("t")
    after = stage.own("t", owner)
    stage.add("t", after, "a-0")
    assert refused(stage, "t", owner) == 90
    stage.end("t", after, commit=True, version=4)
    stage.mark_all()
    assert refused(stage, "t", owner) == 90


@pytest.mark.parametrize(("version", "code"), [(3, 47), (4, 90), (5, 90), (6, 90)])
def test_a_replaced_owner_is_refused(stage, version, code):
    old = stage.own("t")
    stage.own("t")
    assert refused(stage, "t", old, version=version) == code
    assert refused(stage, "t", (FIRST + 7, 1), version=version) == code
    assert refused(stage, "t", (FIRST, 2), version=version) == code


def test_a_replaced_owner_does_not_abort_what_its_successor_does(stage):
    old = stage.own("t")
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    assert refused(stage, "t", old) == 90
    assert stage.of("t").state is State.ONGOING


def test_an_owner_aborts_its_own_transaction(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    assert stage.init("t", owner).error_code == 51
    stage.mark_all()
    assert stage.own("t", owner) == Producer(FIRST, 1)


def test_whatever_an_owner_of_a_forgotten_id_says_it_starts_anew(stage):
    assert stage.own("t", (77, 5)) == Producer(FIRST, 0)


def test_after_a_commit_whose_reply_was_lost_its_producer_may_go_on(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    after = stage.end("t", owner, commit=True)
    stage.mark_all()
    assert stage.own("t", owner) == after
    assert stage.own("t", owner) == after


# --- when epochs run out -------------------------------------------------------------------------------------------


def test_after_the_last_epoch_there_is_a_new_producer_id(stage):
    stage.own("t")
    set_epoch(stage, LAST_EPOCH - 1)
    assert stage.own("t") == Producer(FIRST, LAST_EPOCH)
    assert stage.own("t") == Producer(SECOND, 0)
    assert stage.of("t").previous_producer_id == FIRST


def test_also_for_an_owner_that_goes_on(stage):
    stage.own("t")
    set_epoch(stage, LAST_EPOCH)
    last = Producer(FIRST, LAST_EPOCH)
    after = stage.own("t", last)
    assert after == Producer(SECOND, 0)
    assert stage.own("t", last) == stage.own("t", last) == after, "also if the reply was lost, even twice"
    assert stage.own("t", after) == Producer(SECOND, 1)
    assert refused(stage, "t", last) == 90


def test_only_the_last_epoch_of_the_id_before_may_go_on(stage):
    stage.own("t")
    set_epoch(stage, LAST_EPOCH)
    stage.own("t", (FIRST, LAST_EPOCH))
    assert refused(stage, "t", (FIRST, LAST_EPOCH - 1)) == 90


def test_a_transaction_of_the_last_epoch_can_still_be_fenced(stage):
    stage.own("t")
    set_epoch(stage, LAST_EPOCH)
    owner = Producer(FIRST, LAST_EPOCH)
    stage.add("t", owner, "a-0")
    assert stage.init("t").error_code == 51
    assert stage.orders[0].producer == Producer(FIRST, 32767)
    stage.mark_all()
    with pytest.raises(KafkaError) as caught:
        stage.end("t", owner, commit=False)
    assert caught.value.code == 90, "the coordinator's own epoch is given to nobody"
    assert stage.own("t", owner) == Producer(SECOND, 0)
