"""The states of a transactional id, and which may follow which.

              AddPartitions              EndTxn (the commit point)        every marker written
    Empty ---------------> Ongoing ------------> PrepareCommit ---------> CompleteCommit
      ^                     |   ^  `-----------> PrepareAbort ----------> CompleteAbort
      |  InitProducerId     |   |  timeout, new owner ^                        |
      `---------------------+---+---------------------+------------------------'
                                 Complete* -> Empty, Ongoing, PrepareAbort (an empty transaction, KIP-890)

Dead is what an expired id would be between its tombstone and its end, PrepareEpochFence what an owner is while it gets
fenced: here both are a single step, so neither is ever written. Both have their numbers, and a log may hold them.
"""

import enum


class State(enum.IntEnum):
    """A state by its number in records. `label` is its name in DescribeTransactions and ListTransactions."""

    label: str

    def __new__(cls, number: int, label: str = "") -> "State":
        self = int.__new__(cls, number)
        self._value_, self.label = number, label
        return self

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, and markers are on their way."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Every partition has its marker."""
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

    @property
    def is_commit(self) -> bool:
        """Whether the transaction was committed, as opposed to aborted or not ended at all."""
        return self in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def is_idle(self) -> bool:
        """Nothing is under way: an owner may change, and the id may be forgotten when it was idle for long."""
        return self is State.EMPTY or self.is_complete


_IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

PREDECESSORS: dict[State, frozenset[State]] = {
    State.EMPTY: _IDLE,
    State.ONGOING: _IDLE | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    # Of an idle id: a client of transaction version 2 aborts a transaction in which it wrote nothing.
    State.PREPARE_ABORT: _IDLE | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: _IDLE,
    State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
}
"""What a state may follow. A log that was compacted lacks some of the steps, so this binds decisions, not replay."""

BY_LABEL = {state.label: state for state in State}
