"""Members as values: what their records say is what they are."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.consumer_member import (
    ClassicClient,
    Member,
    MemberState,
    current_value,
    is_within,
    metadata_value,
    partitions_of,
    with_current,
    with_metadata,
)
from ottla.groups.consumer_records import current_entry, member_entry
from ottla.protocol.messages.consumer_groups import TopicPartitions
from tests.unit.groups.hosting import as_kept

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
NAMES = st.text(max_size=5)
PARTITIONS = st.dictionaries(
    st.uuids(), st.frozensets(st.integers(0, 100), min_size=1, max_size=4), max_size=3
)
MEMBERS = st.builds(
    Member,
    id=st.just("m"),
    epoch=st.integers(-2, 1000),
    previous_epoch=st.integers(-2, 1000),
    state=st.sampled_from(MemberState),
    instance_id=st.none() | NAMES,
    rack_id=st.none() | NAMES,
    rebalance_timeout_ms=st.integers(-1, 1000),
    client_id=NAMES,
    client_host=NAMES,
    topic_names=st.frozensets(NAMES),
    topic_regex=st.none() | st.text(min_size=1, max_size=5),
    assignor=st.none() | NAMES,
    assigned=PARTITIONS,
    to_revoke=PARTITIONS,
    classic=st.none()
    | st.builds(
        ClassicClient,
        st.integers(0, 1000),
        st.lists(st.tuples(NAMES, st.binary(max_size=4)), min_size=1, max_size=2).map(tuple),
    ),
)


@given(MEMBERS)
def test_both_records_together_hold_the_member(member):
    said = as_kept(member_entry("g", member))
    has = as_kept(current_entry("g", member))
    assert with_current(with_metadata(Member("m"), said.value), has.value) == member
    assert with_metadata(with_current(Member("m"), has.value), said.value) == member, "in either order"


@given(MEMBERS, MEMBERS)
def test_what_members_said_is_compared_without_what_they_have(one, other):
    assert one.has_same_metadata(other) == (metadata_value(one) == metadata_value(other))
    assert one.has_same_metadata(one._replace(id="n", epoch=7, assigned={T: frozenset({1})}))


def test_a_state_that_is_not_known_here_is_kept_as_unknown():
    value = current_value(Member("m"))
    value.state = 99
    assert with_current(Member("m"), value).state is MemberState.UNKNOWN


def test_a_topic_that_is_named_twice_is_one_topic():
    named = [(T, [1, 1, 2]), (U, []), (T, [3])]
    said = [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in named]
    assert partitions_of(said) == {T: frozenset({1, 2, 3})}


def test_within():
    assert is_within({}, {})
    assert is_within({T: frozenset({1})}, {T: frozenset({1, 2})})
    assert not is_within({T: frozenset({3})}, {T: frozenset({1, 2})})
    assert not is_within({U: frozenset({1})}, {T: frozenset({1, 2})})


def test_staying_in_an_epoch_ends_the_patience_with_the_one_before():
    member = Member("m", epoch=5, previous_epoch=4)
    assert member.moved_to(6)[1:3] == (6, 5)
    assert member.moved_to(5)[1:3] == (5, 5)
