"""Cycles are found, all of them, and by nobody who recurses."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.testing.cycles import cycles


def test_a_chain_has_no_cycle_and_a_ring_is_one():
    chain = {n: [n + 1] for n in range(50_000)}
    assert cycles(chain) == []
    assert [len(found) for found in cycles({**chain, 50_000: [0]})] == [50_001]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=25))
def test_two_nodes_share_a_cycle_if_each_reaches_the_other(pairs):
    edges = {}
    for one, other in pairs:
        edges.setdefault(one, []).append(other)
    reach = {node: reached(edges, node) for node in range(9)}
    expected = {
        frozenset(other for other in range(9) if other in reach[node] and node in reach[other]) | {node}
        for node in range(9)
    }
    assert {frozenset(found) for found in cycles(edges)} == {each for each in expected if len(each) > 1}


def reached(edges, start):
    found, todo = set(), [start]
    while todo:
        for other in edges.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found
