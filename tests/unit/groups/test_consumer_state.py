"""What the log holds: read in any order in which the last record of each key stands, it says the same."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.consumer_member import Member, MemberState
from ottla.groups.consumer_records import (
    current_entry,
    epoch_entry,
    member_entry,
    no_member_entries,
    no_partition_metadata_entry,
    no_regex_entry,
    regex_entry,
    target_entry,
    target_epoch_entry,
)
from ottla.groups.consumer_state import ConsumerState
from ottla.protocol.messages.coordinator_records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    GroupMetadataKey,
)
from ottla.replication.machine import Entry
from tests.unit.groups.consumer_hosting import World

T = uuid.UUID(int=1)


def state_of(*entries):
    state = ConsumerState()
    for entry in entries:
        state.apply(entry)
    return state


def member(name, *partitions, **given):
    return Member(name, epoch=1, assigned={T: frozenset(partitions)}, **given)


def test_a_partition_is_free_when_nobody_has_it_and_nobody_must_give_it_back():
    state = state_of(
        current_entry("g", member("a", 0, to_revoke={T: frozenset({1})})), current_entry("g", member("b", 2))
    )
    assert [state.is_free(T, index) for index in range(4)] == [False, False, False, True]
    state.apply(current_entry("g", member("a", 0)))
    assert state.is_free(T, 1)
    state.apply(no_member_entries("g", "b")[0])
    assert state.is_free(T, 2)
    assert state.members["b"].epoch == -1


def test_what_is_erased_does_not_take_away_what_another_has_by_now():
    state = state_of(current_entry("g", member("a", 0)), current_entry("g", member("b", 0)))
    for entry in no_member_entries("g", "a"):
        state.apply(entry)
    assert not state.is_free(T, 0)


def test_an_instance_id_belongs_to_whoever_had_it_last():
    state = state_of(
        member_entry("g", Member("a", instance_id="i")), member_entry("g", Member("b", instance_id="i"))
    )
    for entry in no_member_entries("g", "a"):
        state.apply(entry)
    assert state.static_member("i").id == "b"


def test_tombstones_for_strangers_are_passed_over():
    state = state_of(*no_member_entries("g", "a"), no_regex_entry("g", "x"))
    assert vars(state) == vars(ConsumerState())


def test_records_of_others_are_passed_over():
    assert vars(state_of(Entry(GroupMetadataKey(group="g")))) == vars(ConsumerState())


def test_what_older_coordinators_wrote_is_remembered_until_it_is_erased():
    old = Entry(
        ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue(topics=[])
    )
    assert state_of(old).has_partition_metadata
    assert not state_of(old, no_partition_metadata_entry("g")).has_partition_metadata


def test_a_group_reads_names_and_what_its_patterns_stand_for():
    state = state_of(
        member_entry("g", Member("a", topic_names=frozenset({"orders"}))),
        member_entry("g", Member("b", topic_names=frozenset({"orders"}), topic_regex="pay.*")),
        regex_entry("g", "pay.*", {"payments"}, 1, 0),
    )
    assert state.subscribes_to("orders") and state.subscribes_to("payments")
    assert state.regex_subscriber_count("pay.*") == 1
    for entry in no_member_entries("g", "b"):
        state.apply(entry)
    assert state.subscribes_to("orders") and state.regex_subscriber_count("pay.*") == 0
    for entry in no_member_entries("g", "a"):
        state.apply(entry)
    assert not state.subscribes_to("orders")


@given(st.data())
def test_after_compaction_the_order_does_not_matter(data):
    entries = [
        epoch_entry("g", 3, 7),
        target_epoch_entry("g", 2, 0),
        member_entry("g", Member("a", topic_names=frozenset({"orders"}))),
        member_entry("g", Member("b", instance_id="i", topic_regex="p.*")),
        current_entry("g", member("a", 0, state=MemberState.UNRELEASED_PARTITIONS)),
        current_entry("g", member("b", 1)),
        target_entry("g", "a", {T: frozenset({0, 1})}),
        regex_entry("g", "p.*", {"payments"}, 1, 0),
        *no_member_entries("g", "gone"),
    ]
    shuffled = data.draw(st.permutations(entries))
    assert vars(state_of(*shuffled)) == vars(state_of(*entries))


def test_a_log_that_was_compacted_up_to_any_place_says_the_same():
    world = World(orders=4, payments=2)
    world.join("a")
    world.join("b", ["orders", "payments"], instance_id="i")
    world.beat("a", 2, frozenset())
    world.go("b", -2, "i")
    world.join("c", None, subscribed_topic_regex="pay.*")
    world.join("b2", instance_id="i")
    world.go("a")
    world.beat("b2", world.group.state.members["b2"].epoch)
    log = [entry for entry, _ in world.log]
    for end in range(len(log) + 1):
        last = {repr(entry.key): entry for entry in log[:end]}
        kept = [entry for entry in log[:end] if last[repr(entry.key)] is entry]
        assert vars(state_of(*kept, *log[end:])) == vars(world.group.state)
        without_tombstones = [entry for entry in kept if entry.value is not None]
        assert vars(state_of(*without_tombstones, *log[end:])) == vars(world.group.state)
