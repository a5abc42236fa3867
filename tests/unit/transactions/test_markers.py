"""Orders to write markers: until all are carried out, the transaction is not complete; then it is, once."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.transactions.shard import RETRY_MS
from ottla.transactions.states import State
from tests.unit.transactions.stage import Stage


@pytest.fixture
def stage():
    return Stage()


def test_markers_of_another_transaction_or_coordinator_complete_nothing(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    stage.end("t", owner, commit=True)
    (order,) = stage.orders
    for other in (
        order._replace(producer=owner),
        order._replace(coordinator_epoch=9),
        order._replace(transactional_id="unknown"),
    ):
        stage.mark(other)
        assert stage.of("t").state is State.PREPARE_COMMIT
    stage.mark(order)
    stage.mark(order)
    assert [step.state for step in stage.written()[-2:]] == [State.PREPARE_COMMIT, State.COMPLETE_COMMIT]


def test_if_completion_cannot_be_written_markers_are_ordered_again(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    stage.end("t", owner, commit=True)
    orders = list(stage.orders)
    stage.refuse_with = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    stage.mark_all()
    assert stage.of("t").state is State.PREPARE_COMMIT
    stage.refuse_with = None
    stage.advance(RETRY_MS)
    assert stage.orders == orders
    stage.mark_all()
    assert stage.of("t").state is State.COMPLETE_COMMIT
    assert len(stage.shard.timers) == 0


@pytest.mark.parametrize("is_compacted", [True, False])
def test_after_a_restart_markers_are_ordered_again_by_the_new_coordinator(stage, is_compacted):
    owner = stage.own("t")
    stage.add("t", owner, "a-0", "a-1")
    stage.end("t", owner, commit=True)
    stage.mark(stage.orders[0], "a-0")
    old = stage.orders[0]
    stage.restart(compacted=is_compacted)
    assert stage.orders == [old._replace(coordinator_epoch=1)], "which have it already, nobody remembers"
    stage.mark(old)
    assert stage.of("t").state is State.PREPARE_COMMIT, "the old coordinator has no say"
    stage.mark_all()
    assert stage.of("t").state is State.COMPLETE_COMMIT
