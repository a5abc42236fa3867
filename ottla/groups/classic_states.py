"""The states of a classic group, and the moves between them: one table, and nothing moves past it.

    Empty                no members; offsets may be left
    PreparingRebalance   members are asked to join again, and wait for each other
    CompletingRebalance  a generation has begun, its leader works out who reads what
    Stable               everybody has an assignment
    Dead                 removed; whoever still holds the group must look for it again

What the log holds is Empty or Stable. The two in between live in memory: a group that is loaded begins with what
was settled last, and its members bring the rest back by joining.
"""

import enum
from collections.abc import Mapping
from typing import Final


class ClassicState(enum.Enum):
    """By the names that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING = ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE
_COMPLETING, _STABLE, _DEAD = ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE, ClassicState.DEAD

MOVES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    # The first member joins.
    _EMPTY: frozenset({_PREPARING, _DEAD}),
    # Everybody has joined, or the time is up: with members, or with none left.
    _PREPARING: frozenset({_COMPLETING, _EMPTY, _DEAD}),
    # The leader's assignment is written; or somebody joined, left or died before that.
    _COMPLETING: frozenset({_STABLE, _PREPARING, _DEAD}),
    # Somebody joins, leaves, dies or changes its mind.
    _STABLE: frozenset({_PREPARING, _DEAD}),
    _DEAD: frozenset(),
}


def can_move(before: ClassicState, after: ClassicState) -> bool:
    """Is there such a move in the table?"""
    return after in MOVES[before]
