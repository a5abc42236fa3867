"""The table of states."""

import pytest

from ottla.transactions.states import BY_LABEL, PREDECESSORS, State

S = State
ALLOWED = {
    "Empty": "Empty CompleteCommit CompleteAbort",
    "Ongoing": "Empty Ongoing CompleteCommit CompleteAbort",
    "PrepareCommit": "Ongoing",
    "PrepareAbort": "Empty Ongoing CompleteCommit CompleteAbort PrepareEpochFence",
    "CompleteCommit": "PrepareCommit",
    "CompleteAbort": "PrepareAbort",
    "Dead": "Empty CompleteCommit CompleteAbort",
    "PrepareEpochFence": "Ongoing",
}


def test_numbers_are_those_of_kafkas_records():
    assert [state.label for state in sorted(State)] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert BY_LABEL["PrepareEpochFence"] == 7


@pytest.mark.parametrize("state", State, ids=lambda state: state.label)
def test_each_state_has_the_predecessors_that_kafka_allows(state):
    assert PREDECESSORS[state] == {BY_LABEL[label] for label in ALLOWED[state.label].split()}


def test_an_outcome_never_changes_by_any_path_that_does_not_begin_another_transaction():
    for decided, other in (
        (S.PREPARE_COMMIT, S.COMPLETE_ABORT),
        (S.PREPARE_ABORT, S.COMPLETE_COMMIT),
    ):
        successors = {state for state, before in PREDECESSORS.items() if decided in before}
        assert len(successors) == 1 and other not in successors


def test_kinds_of_states():
    assert {state for state in S if state.is_prepared} == {S.PREPARE_COMMIT, S.PREPARE_ABORT}
    assert {state for state in S if state.is_complete} == {S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
    assert {state for state in S if state.is_commit} == {S.PREPARE_COMMIT, S.COMPLETE_COMMIT}
    assert {state for state in S if state.is_idle} == {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
