"""Declarations: what they give, and what they refuse."""

import pytest

from ottla.protocol.schema import (
    Bytes,
    Int16,
    Int32,
    Records,
    String,
    api,
    declaration,
    field,
    message,
    struct,
    unknown_tags,
)
from ottla.protocol.wiretypes import NO_TAGS, NO_VERSIONS, Versions


@api(key=7, versions="1-4", flexible="3+")
class Sample:
    """A sample."""

    @struct
    class Topic:
        name: String
        partitions: list[Int32] = field(default=[])

    acks: Int16
    topics: list[Topic] = []
    numbers: list[Int32] = field("2+", default=[1, 2])
    maybe: String | None = field("2+", nullable="3+", default="")
    best: Topic = field("3+", tag=0, default=Topic(name="none"))
    other: Topic | None = field("3+", tag=1, default=None)


def test_a_message_class_knows_its_key_and_versions():
    assert Sample.api_key == 7
    assert str(Sample.versions) == "1-4"
    assert str(Sample.flexible) == "3-4"
    assert Sample.__doc__ == "A sample."
    assert declaration(Sample).is_message
    assert not declaration(Sample.Topic).is_message


def test_a_standalone_message_has_no_key():
    @message(versions="0-1")
    class Blob:
        data: Bytes

    assert Blob.api_key is None
    assert Blob.flexible == NO_VERSIONS


def test_messages_are_made_by_keyword_and_compare_by_value():
    assert Sample(acks=1) == Sample(acks=1, topics=[], numbers=[1, 2])
    assert Sample(acks=1) != Sample(acks=2)
    with pytest.raises(TypeError):
        Sample(1)
    with pytest.raises(TypeError):
        Sample()


def test_messages_have_slots():
    with pytest.raises(AttributeError):
        Sample(acks=1).ack = 2


def test_defaults_are_copied_per_instance():
    one, two = Sample(acks=1), Sample(acks=1)
    one.numbers.append(3)
    one.topics.append(Sample.Topic(name="x"))
    one.best.name = "changed"
    assert (two.numbers, two.topics, two.best.name) == ([1, 2], [], "none")
    assert one.topics[0].partitions is not Sample.Topic(name="y").partitions


def test_unknown_tags_are_empty_and_shared_until_set():
    made = Sample(acks=1)
    assert unknown_tags(made) is NO_TAGS
    made.unknown_tags = {9: b"x"}
    assert unknown_tags(made) == {9: b"x"}
    assert made != Sample(acks=1)
    assert "unknown_tags" not in repr(made)


def test_fields_carry_their_options():
    fields = {each.name: each for each in declaration(Sample).fields}
    assert fields["numbers"].versions == Versions.parse("2+")
    assert fields["maybe"].nullable == Versions.parse("3+")
    assert fields["best"].is_tagged(3)
    assert not fields["best"].is_tagged(2)
    assert fields["other"].nullable == NO_VERSIONS, "a tagged struct is null by being absent"
    assert not fields["acks"].has_default


def refused(match: str):
    return pytest.raises(TypeError, match=match)


def test_a_field_that_some_version_lacks_needs_a_default():
    with refused("later: some of 0-3 lack it"):

        @message(versions="0-3")
        class _Late:
            later: Int16 = field("2+")


def test_a_field_of_all_claimed_versions_needs_none():
    @message(versions="3-5")
    class Fine:
        old: Int16 = field("2+")

    assert Fine(old=1).old == 1


def test_the_rule_holds_in_nested_structs_where_they_exist():
    @struct
    class Inner:
        later: Int16 = field("2+")

    @message(versions="0-3")
    class _Fine:
        inners: list[Inner] = field("2+", default=[])

    with refused("Inner.later: some of 0-3 lack it"):

        @message(versions="0-3")
        class _Bad:
            inner: Inner


def test_a_tagged_field_needs_a_default_and_a_number():
    with refused("a tagged field needs a default"):

        @struct
        class _NoDefault:
            x: Int16 = field(tag=0)

    with refused("needs a tag number"):
        field(tagged="1+", default=0)


def test_null_must_be_in_the_annotation():
    with refused("nullable=1\\+ needs an annotation"):

        @struct
        class _NotNullable:
            x: String = field(nullable="1+", default="")

    with refused("the default None needs an annotation"):

        @struct
        class _NoneDefault:
            x: String = None

    with refused("not allowed in all of 0\\+"):

        @struct
        class _NoneTooEarly:
            x: String | None = field(nullable="1+", default=None)

    with refused("cannot be null on the wire"):

        @struct
        class _NullNumber:
            x: Int16 | None


def test_only_wire_types_are_allowed():
    for annotation in (
        int,
        list[int],
        list[list[Int16]],
        list[Records],
        Int16 | String,
        "Int16",
        list[String | None],
    ):
        with pytest.raises(TypeError):
            struct(type("Bad", (), {"__annotations__": {"x": annotation}}))


def test_reserved_names_and_open_ranges_are_refused():
    with refused("versions: the name is reserved"):

        @message(versions="0")
        class _Versions:
            versions: Int16

    with refused("needs an end"):

        @message(versions="0+")
        class _Open:
            x: Int16


def test_only_declared_classes_have_a_declaration():
    with refused("int is not declared"):
        declaration(int)
