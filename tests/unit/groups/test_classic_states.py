"""The table of states."""

import pytest

from ottla.groups.classic_states import MOVES, ClassicState, can_move
from tests.unit.groups.classics import Classics


def test_the_table_names_every_state():
    assert set(MOVES) == set(ClassicState)


def test_every_state_can_be_reached_from_an_empty_group():
    reached = {ClassicState.EMPTY}
    for _ in ClassicState:
        reached |= {after for before in reached for after in MOVES[before]}
    assert reached == set(ClassicState)


def test_nothing_comes_back_from_the_dead():
    assert not any(can_move(ClassicState.DEAD, after) for after in ClassicState)


def test_an_assignment_cannot_come_before_a_generation():
    assert not can_move(ClassicState.EMPTY, ClassicState.STABLE)
    assert not can_move(ClassicState.PREPARING_REBALANCE, ClassicState.STABLE)


@pytest.mark.parametrize(
    "after", [ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY]
)
def test_a_move_past_the_table_is_our_mistake(after):
    classics = Classics()
    with pytest.raises(AssertionError):
        classics.group._rebalances.move(after, 0)
