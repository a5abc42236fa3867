import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.ids import (
    NULL_ID,
    PartitionDirectory,
    TopicPartition,
    collision_key,
    format_id,
    is_reserved_id,
    is_topic_name,
    parse_id,
    random_id,
    topic_name_fault,
)

UNIQUE = "0123456789abcdef0123456789abcdef"
topics = st.text("ab-._019Z", min_size=1, max_size=249).filter(is_topic_name)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))


@pytest.mark.parametrize("name", ["orders", "a", "...", "a.b_c-D9", "-", "x" * 249, "__consumer_offsets"])
def test_legal_topic_names_have_no_fault(name: str) -> None:
    assert topic_name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "is empty"),
        (".", '"."'),
        ("..", '".."'),
        ("x" * 250, "longer than 249"),
        ("a/b", "something else"),
        ("a b", "something else"),
        ("größe", "something else"),
        ("orders\n", "something else"),
        ("٣", "something else"),
    ],
)
def test_illegal_topic_names_say_why(name: str, fault: str) -> None:
    assert fault in (topic_name_fault(name) or "")
    assert not is_topic_name(name)


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a-b") != collision_key("a_b")


@given(partitions)
def test_a_partition_reads_back_from_its_name(partition: TopicPartition) -> None:
    assert TopicPartition.parse(str(partition)) == partition


def test_the_topic_may_contain_dashes_and_digits() -> None:
    assert TopicPartition.parse("orders-2024-7") == ("orders-2024", 7)
    assert str(TopicPartition("orders", 0)) == "orders-0"


@pytest.mark.parametrize(
    "name",
    [
        *["", "orders", "orders-", "-0", "orders-x", "orders-01", "orders--1/", "a/b-0", "..-0", "orders-٣"],
        *["orders-2147483648", "orders-99999999999999999999", "orders-0\n", "orders-+1", "orders-1_0"],
    ],
)
def test_what_is_no_partition_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a partition"):
        TopicPartition.parse(name)
    assert PartitionDirectory.parse(name) is None


@given(partitions, st.sampled_from(["delete", "future", "stray"]))
def test_a_directory_name_reads_back_and_fits_a_file_system(partition: TopicPartition, state: str) -> None:
    name = str(PartitionDirectory(partition, state, UNIQUE))  # type: ignore[arg-type]
    assert len(name) <= 255
    parsed = PartitionDirectory.parse(name)
    assert parsed is not None
    assert (parsed.state, parsed.unique, parsed.partition.partition) == (state, UNIQUE, partition.partition)
    assert partition.topic.startswith(parsed.partition.topic)
    if len(partition.topic) < 200:
        assert parsed.partition == partition


def test_a_live_directory_is_named_after_its_partition() -> None:
    live = PartitionDirectory(TopicPartition("orders", 3))
    assert str(live) == "orders-3"
    assert PartitionDirectory.parse("orders-3") == live


def test_a_topic_that_is_called_like_a_directory_state_stays_a_topic() -> None:
    assert PartitionDirectory.parse("orders-delete-0") == (("orders-delete", 0), "live", "")


@pytest.mark.parametrize(
    "name", ["orders-0-delete", "orders-delete", "orders-0.xyz-delete", f"orders.{UNIQUE}-delete", "-delete"]
)
def test_a_directory_on_its_way_out_needs_partition_and_unique_part(name: str) -> None:
    assert PartitionDirectory.parse(name) is None


@given(st.text(max_size=60))
def test_no_directory_name_whatsoever_raises(name: str) -> None:
    PartitionDirectory.parse(name)


@given(st.uuids())
def test_an_id_reads_back_from_its_22_characters(value: uuid.UUID) -> None:
    text = format_id(value)
    assert len(text) == 22
    assert parse_id(text) == value


def test_the_null_id_is_spelled_with_as() -> None:
    assert format_id(NULL_ID) == "A" * 22


@pytest.mark.parametrize(
    "text",
    ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "+", "A" * 20 + "==", "ä" * 22, " " + "A" * 21],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="22 URL-safe"):
        parse_id(text)


def test_ids_below_one_hundred_are_kafkas_own() -> None:
    assert is_reserved_id(NULL_ID)
    assert is_reserved_id(uuid.UUID(int=99))
    assert not is_reserved_id(uuid.UUID(int=100))


def test_random_ids_never_start_with_a_dash() -> None:
    source = random.Random(7)
    raw = [uuid.UUID(int=random.Random(seed).getrandbits(128), version=4) for seed in range(500)]
    assert any(format_id(value).startswith("-") for value in raw), "the rule would never be put to the test"
    assert not any(format_id(random_id(source)).startswith("-") for _ in range(500))


def test_random_ids_are_reproducible_from_a_source_and_fresh_without_one() -> None:
    assert random_id(random.Random(1)) == random_id(random.Random(1))
    assert random_id() != random_id()
    assert random_id().version == 4
