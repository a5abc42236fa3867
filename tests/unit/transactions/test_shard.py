"""The coordinator as its host sees it: requests in, records and orders out."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.coordinator_records import TransactionLogKey, TransactionLogValue
from ottla.replication.machine import Entry, Producer
from ottla.transactions.markers import WriteMarkers
from ottla.transactions.shard import RETRY_MS
from ottla.transactions.states import State
from ottla.transactions.transaction import LAST_EPOCH, NoProducerIds
from tests.unit.transactions.stage import (
    FIRST_PRODUCER_ID,
    START,
    Stage,
    TransactionSettings,
    partitions,
)

HOUR_MS = 3_600_000


@pytest.fixture
def stage():
    return Stage()


def code_of(stage, call, *arguments, **named):
    """The code of the error, and a check that nothing was written."""
    before = list(stage.log)
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **named)
    assert stage.log == before, "what is refused writes nothing"
    assert stage.orders == []
    return caught.value.code


def exhausted(stage, transactional_id="t"):
    """An owner with the last epoch."""
    owner = stage.own(transactional_id)
    at_the_end = stage.of(transactional_id)._replace(producer_epoch=LAST_EPOCH)
    stage.log.append(at_the_end.to_entry())
    stage.shard.apply(stage.log[-1], None)
    return Producer(owner.id, LAST_EPOCH)


# --- adding ------------------------------------------------------------------------------------------------------


def test_the_first_partitions_begin_a_transaction(stage):
    owner = stage.own("t", timeout_ms=5000)
    stage.advance(100)
    stage.add("t", owner, "a-0", "a-1")
    transaction = stage.of("t")
    assert transaction.state is State.ONGOING
    assert transaction.partitions == set(partitions("a-0", "a-1"))
    assert transaction.start_ms == START.wall_ms + 100
    assert transaction.client_version == 2


def test_partitions_that_are_there_already_are_not_written_again(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0", "a-1")
    written = len(stage.log)
    stage.add("t", owner, "a-1")
    assert len(stage.log) == written
    stage.add("t", owner, "a-1", "b-0")
    assert stage.of("t").partitions == set(partitions("a-0", "a-1", "b-0"))


def test_more_partitions_do_not_give_more_time(stage):
    owner = stage.own("t", timeout_ms=1000)
    stage.add("t", owner, "a-0")
    stage.advance(999)
    stage.add("t", owner, "b-0")
    assert stage.of("t").start_ms == START.wall_ms
    stage.advance(1)
    assert stage.of("t").state is State.PREPARE_ABORT


@pytest.mark.parametrize(("version", "code"), [(5, 90), (2, 90), (1, 47), (0, 47)])
def test_a_replaced_producer_adds_nothing(stage, version, code):
    old = stage.own("t")
    stage.own("t")
    assert code_of(stage, stage.add, "t", old, "a-0", version=version) == code


def test_strangers_add_nothing(stage):
    owner = stage.own("t")
    assert code_of(stage, stage.add, "t", Producer(owner.id + 1, 0), "a-0") == 49
    assert code_of(stage, stage.add, "unknown", owner, "a-0") == 49
    assert code_of(stage, stage.add, "", owner, "a-0") == 42


def test_while_markers_are_written_nothing_joins(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    after = stage.end("t", owner, commit=True)
    stage.orders.clear()
    assert code_of(stage, stage.add, "t", after, "a-0") == 51


def test_after_the_end_adding_begins_the_next_transaction(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    owner = stage.end("t", owner, commit=True)
    stage.mark_all()
    stage.advance(50)
    stage.add("t", owner, "b-0")
    assert stage.of("t").state is State.ONGOING
    assert stage.of("t").partitions == set(partitions("b-0"))
    assert stage.of("t").start_ms == START.wall_ms + 50


def test_an_append_that_fails_changes_nothing_and_the_asker_learns_why(stage):
    owner = stage.own("t")
    stage.refuse_with = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert code_of(stage, stage.add, "t", owner, "a-0") == 19
    assert stage.of("t").state is State.EMPTY
    stage.advance(HOUR_MS)
    assert stage.of("t").state is State.EMPTY, "nor does its timer do anything"


# --- verifying ---------------------------------------------------------------------------------------------------


def test_a_leader_learns_which_partitions_are_part_of_the_transaction(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0", version=3)
    inside, outside = partitions("a-0", "a-1")
    verify = stage.shard.verify_partitions
    assert verify("t", owner, [inside, outside]) == {inside: 0, outside: 120}
    assert verify("t", Producer(owner.id, 7), [inside]) == {inside: 90}
    assert verify("t", Producer(1, 0), [inside]) == {inside: 49}
    assert verify("unknown", owner, [inside]) == {inside: 49}
    assert verify("", owner, [inside]) == {inside: 42}
    stage.end("t", owner, commit=True, version=4)
    assert verify("t", owner, [inside]) == {inside: 51}


# --- ending ------------------------------------------------------------------------------------------------------


def test_a_commit_orders_markers_with_the_raised_epoch_and_completes_when_all_are_written(stage):
    stage.leader_epoch = 7
    stage.restart()
    owner = stage.own("t")
    stage.add("t", owner, "b-0", "a-1")
    assert stage.end("t", owner, commit=True) == Producer(owner.id, 1)
    assert stage.orders == [
        WriteMarkers("t", Producer(owner.id, 1), True, tuple(partitions("a-1", "b-0")), 8, 2)
    ]
    stage.mark(stage.orders[0], "a-1")
    assert stage.of("t").state is State.PREPARE_COMMIT
    assert [topic.topic for topic in stage.shard.describe("t").topics] == ["b"]
    stage.mark(stage.orders[0], "b-0")
    assert stage.of("t").state is State.COMPLETE_COMMIT
    assert stage.of("t").partitions == frozenset()


def test_for_an_older_client_the_epoch_stays(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0", version=3)
    assert stage.end("t", owner, commit=False, version=4) == owner
    assert stage.orders == [WriteMarkers("t", owner, False, tuple(partitions("a-0")), 0, 0)]
    stage.mark_all()
    assert stage.of("t").state is State.COMPLETE_ABORT
    assert stage.of("t").producer == owner


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_comes_again_gets_the_same_answer(stage, version, commit):
    owner = stage.own("t")
    stage.add("t", owner, "a-0", version=version - 1)
    after = stage.end("t", owner, commit=commit, version=version)
    orders, stage.orders = stage.orders, []
    assert code_of(stage, stage.end, "t", owner, commit=commit, version=version) == 51
    assert code_of(stage, stage.end, "t", owner, commit=not commit, version=version) == 51
    stage.mark(orders[0])
    written = len(stage.log)
    assert stage.end("t", owner, commit=commit, version=version) == after
    assert len(stage.log) == written
    assert code_of(stage, stage.end, "t", owner, commit=not commit, version=version) == 48


def test_an_end_that_comes_late_does_not_touch_the_next_transaction(stage):
    old = stage.own("t")
    stage.add("t", old, "a-0")
    owner = stage.end("t", old, commit=True)
    stage.mark_all()
    stage.add("t", owner, "a-0")
    for commit in (True, False):
        assert code_of(stage, stage.end, "t", old, commit=commit) == 90
    assert stage.of("t").state is State.ONGOING


def test_an_empty_transaction_can_be_aborted_and_raises_the_epoch(stage):
    owner = stage.own("t")
    after = stage.end("t", owner, commit=False)
    assert after == Producer(owner.id, owner.epoch + 1)
    assert stage.orders == []
    assert [step.state for step in stage.written()[-2:]] == [State.PREPARE_ABORT, State.COMPLETE_ABORT]
    assert stage.of("t").start_ms == START.wall_ms
    assert stage.end("t", owner, commit=False) == after, "a repetition"
    assert stage.end("t", after, commit=False) == Producer(owner.id, 2), "and the next one"


def test_an_empty_transaction_cannot_be_committed(stage):
    owner = stage.own("t")
    assert code_of(stage, stage.end, "t", owner, commit=True) == 48
    owner = stage.end("t", owner, commit=False)
    assert code_of(stage, stage.end, "t", owner, commit=True) == 48


def test_an_older_client_ends_no_empty_transaction_at_all(stage):
    owner = stage.own("t")
    for commit in (True, False):
        assert code_of(stage, stage.end, "t", owner, commit=commit, version=4) == 48


@pytest.mark.parametrize(("version", "code"), [(5, 90), (4, 90), (2, 90), (1, 47)])
def test_a_replaced_producer_ends_nothing(stage, version, code):
    old = stage.own("t")
    stage.own("t")
    assert code_of(stage, stage.end, "t", old, commit=True, version=version) == code


def test_strangers_end_nothing(stage):
    owner = stage.own("t")
    stage.add("t", owner, "a-0")
    for version in (4, 5):
        assert code_of(stage, stage.end, "t", Producer(5, 0), commit=True, version=version) == 49
        assert code_of(stage, stage.end, "unknown", owner, commit=True, version=version) == 49
        assert code_of(stage, stage.end, "", owner, commit=True, version=version) == 42


def test_at_the_last_epoch_the_end_brings_a_new_producer_id(stage):
    owner = exhausted(stage)
    stage.add("t", owner, "a-0")
    after = stage.end("t", owner, commit=True)
    assert after == Producer(FIRST_PRODUCER_ID + 1, 0)
    orders, stage.orders = stage.orders, []
    assert orders[0].producer == Producer(owner.id, 32767), "markers belong to the old one"
    assert code_of(stage, stage.add, "t", after, "b-0") == 51, "the client knows its new id early"
    assert code_of(stage, stage.end, "t", after, commit=False) == 51
    stage.mark(orders[0])
    assert stage.end("t", owner, commit=True) == after, "a repetition"
    stage.add("t", after, "b-0")
    assert stage.of("t").producer == after


def test_an_older_client_keeps_its_last_epoch(stage):
    owner = exhausted(stage)
    stage.add("t", owner, "a-0", version=3)
    assert stage.end("t", owner, commit=True, version=4) == owner


def test_without_producer_ids_nothing_is_changed(stage):
    owner = exhausted(stage)
    stage.add("t", owner, "a-0")
    stage.has_producer_ids = False
    before = list(stage.log)
    for decide in (lambda: stage.end("t", owner, commit=True), lambda: stage.init("new")):
        with pytest.raises(NoProducerIds):
            decide()
    assert stage.log == before and stage.orders == []
    stage.has_producer_ids = True
    assert stage.end("t", owner, commit=True).epoch == 0


# --- time --------------------------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_with_a_raised_epoch(stage):
    owner = stage.own("t", timeout_ms=1000)
    stage.add("t", owner, "a-0")
    stage.advance(999)
    assert stage.of("t").state is State.ONGOING
    stage.advance(1)
    (order,) = stage.orders
    assert order.producer == Producer(owner.id, owner.epoch + 1) and not order.is_commit
    stage.mark_all()
    assert stage.of("t").state is State.COMPLETE_ABORT
    assert code_of(stage, stage.add, "t", owner, "b-0") == 90
    assert code_of(stage, stage.end, "t", owner, commit=True) == 48
    assert stage.own("t", owner) == Producer(owner.id, owner.epoch + 1), "it was late, not replaced"


def test_a_transaction_in_time_is_left_alone(stage):
    owner = stage.own("t", timeout_ms=1000)
    stage.add("t", owner, "a-0", version=3)
    stage.end("t", owner, commit=True, version=4)
    stage.mark_all()
    stage.advance(900)
    stage.add("t", owner, "a-0", version=3)
    stage.advance(999)
    assert stage.of("t").state is State.ONGOING, "the alarm of the one before is off"
    stage.advance(1)
    assert stage.of("t").state is State.PREPARE_ABORT


def test_if_a_timeout_cannot_be_written_it_is_tried_again(stage):
    owner = stage.own("t", timeout_ms=1000)
    stage.add("t", owner, "a-0")
    stage.refuse_with = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    stage.advance(1000)
    assert stage.of("t").state is State.ONGOING
    stage.refuse_with = None
    stage.advance(RETRY_MS)
    assert stage.of("t").state is State.PREPARE_ABORT
    assert stage.of("t").producer_epoch == owner.epoch + 1


@pytest.mark.parametrize("step_ms", [0, 500, -HOUR_MS, HOUR_MS])
def test_after_a_restart_an_open_transaction_has_what_is_left_of_its_time(stage, step_ms):
    owner = stage.own("t", timeout_ms=1000)
    stage.add("t", owner, "a-0")
    stage.advance(400)
    stage.clock.step_wall(step_ms)
    stage.restart()
    left_ms = min(max(600 - step_ms, 0), 1000)
    if left_ms:
        stage.advance(left_ms - 1)
        assert stage.of("t").state is State.ONGOING
        stage.advance(1)
    assert stage.of("t").state is State.PREPARE_ABORT


def test_an_empty_transaction_that_another_broker_left_half_aborted_is_completed(stage):
    owner = stage.own("t")
    prepared = stage.of("t").prepared(False, 2, -1, START.wall_ms)
    stage.log.append(prepared.to_entry())
    stage.restart()
    assert stage.of("t").state is State.COMPLETE_ABORT
    assert stage.of("t").producer == Producer(owner.id, 1)


def test_ids_that_are_not_used_are_forgotten():
    stage = Stage(TransactionSettings(transactional_id_expiration_ms=1000))
    stage.own("idle")
    busy = stage.own("busy")
    stage.add("busy", busy, "a-0")
    stage.advance(999)
    stage.carry_out(stage.shard.decide_expire(stage.now))
    assert set(stage.shard.transactions) == {"idle", "busy"}
    stage.own("young")
    stage.advance(1)
    stage.carry_out(stage.shard.decide_expire(stage.now))
    assert set(stage.shard.transactions) == {"busy", "young"}
    assert stage.log[-1] == Entry(TransactionLogKey(transactional_id="idle"))
    assert stage.replayed().transactions == stage.shard.transactions
    assert stage.own("idle") == Producer(FIRST_PRODUCER_ID + 3, 0), "and start anew"


# --- looking -----------------------------------------------------------------------------------------------------


def test_describe_says_what_is_known(stage):
    owner = stage.own("t", timeout_ms=1234)
    stage.add("t", owner, "a-1", "a-0", "b-0")
    answer = stage.shard.describe("t")
    assert (answer.error_code, answer.transaction_state) == (0, "Ongoing")
    assert (answer.producer_id, answer.producer_epoch) == owner
    assert (answer.transaction_timeout_ms, answer.transaction_start_time_ms) == (1234, START.wall_ms)
    assert [(topic.topic, topic.partitions) for topic in answer.topics] == [("a", [0, 1]), ("b", [0])]
    assert stage.shard.describe("unknown").error_code == 105
    assert stage.shard.describe("").error_code == 42


def test_list_filters(stage):
    stage.own("idle")
    owner = stage.own("open")
    stage.add("open", owner, "a-0")
    stage.advance(500)

    def ids(states=(), producer_ids=(), duration_ms=-1, pattern=None):
        found = stage.shard.list(states, producer_ids, duration_ms, pattern, stage.now)
        return {line.transactional_id for line in found}

    assert ids() == {"idle", "open"}
    assert ids(states=["Ongoing"]) == {"open"}
    assert ids(producer_ids=[owner.id]) == {"open"}
    assert ids(states=["Ongoing"], duration_ms=500) == set()
    assert ids(states=["Ongoing"], duration_ms=499) == {"open"}
    assert ids(pattern="o.*") == {"open"}


# --- replay ------------------------------------------------------------------------------------------------------


def record(**changes):
    values = {
        "producer_id": 5,
        "producer_epoch": 1,
        "transaction_timeout_ms": 1000,
        "transaction_status": 1,
        "transaction_partitions": None,
        "transaction_last_update_timestamp_ms": 0,
        "transaction_start_timestamp_ms": 0,
    }
    return Entry(TransactionLogKey(transactional_id="t"), TransactionLogValue(**values | changes))


@pytest.mark.parametrize(
    "entry",
    [
        record(transaction_status=99),
        record(transaction_status=6),
        record(transaction_status=7),
        record(producer_id=-1),
        record(producer_epoch=-1),
        Entry(TransactionLogKey(transactional_id="unknown")),
        Entry("somebody else's key", "and value"),
        Entry(TransactionLogKey(transactional_id="t"), "no value of ours"),
    ],
)
def test_records_that_make_no_sense_are_passed_over(stage, entry):
    stage.own("t")
    before = dict(stage.shard.transactions)
    stage.shard.apply(entry, None)
    assert stage.shard.transactions == before


@pytest.mark.parametrize("timeout_ms", [-(1 << 31), 0, (1 << 31) - 1])
@pytest.mark.parametrize("start_ms", [-(1 << 63), -1, (1 << 63) - 1])
def test_a_record_with_absurd_times_or_epochs_can_still_be_ended(stage, timeout_ms, start_ms):
    stage.log.append(
        record(
            producer_epoch=32767,
            transaction_timeout_ms=timeout_ms,
            transaction_start_timestamp_ms=start_ms,
        )
    )
    stage.restart()
    stage.advance(max(timeout_ms, 0))
    assert stage.of("t").state is State.COMPLETE_ABORT
    assert stage.own("t") == Producer(FIRST_PRODUCER_ID, 0)


def test_nobody_waits_when_leadership_goes(stage):
    stage.own("t")
    assert list(stage.shard.retire()) == []
