import pytest

from ottla.assignors import moves
from ottla.assignors.moves import spare_moves


def spared(counts: list[list[int]], held: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """All members subscribe to all topics."""
    loads = [sum(column) for column in zip(*counts, strict=True)]
    spare_moves(counts, held, loads, [list(range(len(counts)))] * len(loads))
    assert loads == [sum(column) for column in zip(*counts, strict=True)]
    return counts, loads


def test_two_members_that_got_each_others_partitions_get_their_own_back():
    assert spared([[0, 1], [1, 0]], [[1, 0], [0, 1]]) == ([[1, 0], [0, 1]], [1, 1])


def test_a_round_of_three_is_undone():
    held = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert spared([[0, 1, 0], [0, 0, 1], [1, 0, 0]], held)[0] == held


def test_two_members_exchange_their_loads_if_one_had_more_before():
    assert spared([[1, 2]], [[2, 1]]) == ([[2, 1]], [2, 1])


def test_loads_that_differ_by_two_are_not_exchanged():
    assert spared([[1, 3]], [[2, 0]])[1] == [1, 3]


def test_what_has_to_move_stays_moved():
    assert spared([[2, 2]], [[4, 0]]) == ([[2, 2]], [2, 2])


def test_a_search_that_takes_too_long_leaves_what_there_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(moves, "STEPS_MAX", 0)
    assert spared([[0, 1], [1, 0]], [[1, 0], [0, 1]])[0] == [[0, 1], [1, 0]]
