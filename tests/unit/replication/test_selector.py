"""Whom a consumer is told to read from (KIP-392)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.replication.selector import ReplicaView, leader_only, rack_aware, selector_of

LEADER = ReplicaView(1, "north", 0, 100, 1_000)
SOUTH = ReplicaView(2, "south", 0, 90, 900)
ALSO_SOUTH = ReplicaView(3, "south", 0, 95, 800)


def test_a_replica_in_the_clients_rack_is_chosen():
    assert rack_aware("south", 50, 1, [LEADER, SOUTH]) == 2


def test_the_one_that_has_come_furthest_wins():
    assert rack_aware("south", 50, 1, [LEADER, SOUTH, ALSO_SOUTH]) == 3


def test_of_two_as_far_the_one_that_was_at_the_end_later_wins():
    late = ALSO_SOUTH._replace(log_end_offset=90, caught_up_ms=950)
    assert rack_aware("south", 50, 1, [LEADER, SOUTH, late]) == 3


def test_the_leader_wins_in_its_own_rack():
    assert rack_aware("south", 50, 1, [LEADER._replace(rack="south", log_end_offset=90), ALSO_SOUTH]) == 1


@pytest.mark.parametrize(
    ("rack", "offset"),
    [("", 50), ("west", 50), ("south", 96), ("south", -1)],
    ids=["no rack", "nobody is there", "not there yet", "gone already"],
)
def test_otherwise_it_is_the_leader(rack, offset):
    assert rack_aware(rack, offset, 1, [LEADER, SOUTH, ALSO_SOUTH]) == 1


def test_a_replica_that_is_dead_or_lags_is_not_recommended():
    assert rack_aware("south", 50, 1, [LEADER, SOUTH._replace(is_usable=False)]) == 1


def test_a_replica_whose_first_records_are_gone_cannot_serve_them():
    assert rack_aware("south", 5, 1, [LEADER, SOUTH._replace(log_start_offset=6)]) == 1


def test_the_other_selector_knows_leaders_only():
    assert leader_only("south", 50, 1, [LEADER, SOUTH]) == 1


@pytest.mark.parametrize(
    "name", ["RackAwareReplicaSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"]
)
def test_selectors_go_by_the_names_of_kafkas_classes(name):
    assert selector_of(name) is rack_aware


def test_by_default_nobody_is_told_anything():
    assert selector_of(None) is selector_of("") is None


@given(
    st.lists(
        st.builds(
            ReplicaView,
            st.integers(2, 6),
            st.sampled_from([None, "a", "b"]),
            st.integers(-1, 20),
            st.integers(0, 40),
            st.integers(0, 9),
            st.booleans(),
        ),
        max_size=6,
        unique_by=lambda view: view.broker,
    ),
    st.sampled_from(["", "a", "b", "c"]),
    st.integers(0, 40),
)
def test_whoever_is_chosen_has_what_is_asked_for(others, rack, offset):
    leader = ReplicaView(1, "a", 0, 40, 9)
    chosen = rack_aware(rack, offset, 1, [leader, *others])
    view = next(view for view in [leader, *others] if view.broker == chosen)
    assert view.log_start_offset <= offset <= view.log_end_offset and view.is_usable
    assert chosen == 1 or view.rack == rack
