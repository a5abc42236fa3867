"""EndTxn against each state, by the version of the client: who may, who did already, who is told why not."""

import pytest

from ottla.core.errors import KafkaError
from ottla.replication.machine import Producer
from ottla.transactions.ending import Verdict, judge, version_of
from ottla.transactions.states import State
from ottla.transactions.transaction import LAST_EPOCH, Transaction

OWN, BEFORE, OLD, FUTURE, OTHER = (
    Producer(1, 5),
    Producer(1, 4),
    Producer(1, 3),
    Producer(1, 6),
    Producer(2, 5),
)
COMMIT, ABORT = True, False
S = State


def transaction(state, client_version, **changes):
    return Transaction("t", 1, 5, 1000, state, frozenset(), 0, client_version=client_version)._replace(
        **changes
    )


def outcome(transaction, producer, is_commit, api_version):
    try:
        return judge(transaction, producer, is_commit, api_version)
    except KafkaError as error:
        return int(error.code)


@pytest.mark.parametrize(
    ("state", "producer", "commit", "abort"),
    [
        (S.EMPTY, OWN, 48, 48),
        (S.EMPTY, BEFORE, 90, 90),
        (S.EMPTY, OTHER, 49, 49),
        (S.ONGOING, OWN, Verdict.END, Verdict.END),
        (S.ONGOING, BEFORE, 90, 90),
        (S.ONGOING, FUTURE, 90, 90),
        (S.ONGOING, OTHER, 49, 49),
        (S.PREPARE_COMMIT, OWN, 51, 51),
        (S.PREPARE_COMMIT, BEFORE, 90, 90),
        (S.PREPARE_COMMIT, OTHER, 49, 49),
        (S.PREPARE_ABORT, OWN, 51, 51),
        (S.COMPLETE_COMMIT, OWN, Verdict.DONE, 48),
        (S.COMPLETE_COMMIT, BEFORE, 90, 90),
        (S.COMPLETE_ABORT, OWN, 48, Verdict.DONE),
        (S.COMPLETE_ABORT, FUTURE, 90, 90),
    ],
)
@pytest.mark.parametrize("client_version", [0, 2])
def test_an_older_client(state, producer, commit, abort, client_version):
    before = transaction(state, client_version)
    assert outcome(before, producer, COMMIT, 4) == commit
    assert outcome(before, producer, ABORT, 4) == abort
    if commit == 90:
        assert outcome(before, producer, COMMIT, 1) == 47, "versions 0 and 1 know no PRODUCER_FENCED"


@pytest.mark.parametrize(
    ("state", "producer", "commit", "abort"),
    [
        (S.EMPTY, OWN, 48, Verdict.END_EMPTY),
        (S.EMPTY, BEFORE, 90, 90),
        (S.EMPTY, OTHER, 49, 49),
        (S.ONGOING, OWN, Verdict.END, Verdict.END),
        (S.ONGOING, BEFORE, 90, 90),
        (S.ONGOING, FUTURE, 90, 90),
        (S.ONGOING, OTHER, 49, 49),
        (S.PREPARE_COMMIT, BEFORE, 51, 51),
        (S.PREPARE_COMMIT, OTHER, 51, 51),
        (S.PREPARE_ABORT, BEFORE, 51, 51),
        (S.COMPLETE_COMMIT, OWN, 48, Verdict.END_EMPTY),
        (S.COMPLETE_COMMIT, BEFORE, Verdict.DONE, 48),
        (S.COMPLETE_COMMIT, OLD, 90, 90),
        (S.COMPLETE_COMMIT, FUTURE, 90, 90),
        (S.COMPLETE_COMMIT, OTHER, 49, 49),
        (S.COMPLETE_ABORT, OWN, 48, Verdict.END_EMPTY),
        (S.COMPLETE_ABORT, BEFORE, 48, Verdict.DONE),
        (S.COMPLETE_ABORT, OLD, 90, 90),
    ],
)
def test_a_client_of_transaction_version_2(state, producer, commit, abort):
    before = transaction(state, 2)
    assert outcome(before, producer, COMMIT, 5) == commit
    assert outcome(before, producer, ABORT, 5) == abort


def test_a_repetition_across_producer_ids_is_known_by_the_last_epoch_of_the_one_before():
    rotated = transaction(S.COMPLETE_COMMIT, 2, producer_epoch=0, previous_producer_id=9)
    assert outcome(rotated, Producer(9, LAST_EPOCH), COMMIT, 5) is Verdict.DONE
    assert outcome(rotated, Producer(9, LAST_EPOCH), ABORT, 5) == 48
    assert outcome(rotated, Producer(9, LAST_EPOCH - 1), COMMIT, 5) == 49
    assert outcome(rotated, Producer(8, LAST_EPOCH), COMMIT, 5) == 49


def test_after_an_end_that_raised_no_epoch_the_epoch_before_is_nobodys():
    assert outcome(transaction(S.COMPLETE_COMMIT, 0), BEFORE, COMMIT, 5) == 90


def test_the_epoch_of_the_coordinator_itself_is_given_to_nobody():
    fenced = transaction(S.COMPLETE_ABORT, 2, producer_epoch=LAST_EPOCH + 1)
    assert outcome(fenced, Producer(1, LAST_EPOCH), ABORT, 5) == 90


def test_the_version_of_end_txn_tells_the_transaction_version():
    assert [version_of(number) for number in range(6)] == [0, 0, 0, 0, 0, 2]
