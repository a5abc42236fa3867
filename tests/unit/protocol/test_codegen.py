"""The source builder, and the sizes it reckons with."""

import struct as structs

from ottla.protocol.codegen import Source, element_size, fields_in, memory_cost, min_size
from ottla.protocol.schema import NULL_UUID, Int16, Int32, Records, String, Uuid, declaration, field, struct
from ottla.protocol.wiretypes import ArrayOf, StructOf


@struct
class Inner:
    a: Int16
    b: String
    c: list[Int32] = field("1+", default=[])


@struct
class Outer:
    inner: Inner
    maybe: Inner | None = field(default=None)
    id: Uuid = field("0-1", default=NULL_UUID)
    data: Records | None = field(default=None)
    fixed: String = field(default="", compact=False)
    tagged: Int32 = field("2+", tag=0, default=0)


@struct
class Heavy:
    """Three bytes on the wire, many lists in memory."""

    lists_1: list[Int32] = field("5+", default=[])
    lists_2: list[Int32] = field("5+", default=[])
    lists_3: list[Int32] = field("5+", default=[])
    name: String


def test_lines_are_indented_by_their_blocks():
    source = Source()
    with source.block("if x:"):
        source.line("y = 1")
        with source.block("for z in y:"):
            source.line("pass")
    source.line("done = 1")
    assert source.text() == "if x:\n    y = 1\n    for z in y:\n        pass\ndone = 1\n"


def test_names_are_unique_and_things_are_bound_once():
    source = Source()
    assert source.name("x") != source.name("x")
    one, two = [1], [2]
    assert source.bind("thing", one) == source.bind("thing", one) == "thing"
    other = source.bind("thing", two)
    assert source.names["thing"] is one
    assert source.names[other] is two


def test_struct_methods_show_their_format_in_their_name():
    source = Source()
    assert source.struct_method("pack", "hiB") == "pack_hiB"
    assert source.names["pack_hiB"](1, 2, 3) == structs.pack(">hiB", 1, 2, 3)
    assert source.struct_method("unpack_from", "?") != source.struct_method("unpack_from", "B")


def test_fields_are_plain_tagged_or_absent():
    def names(version, flexible):
        return [[each.name for each in group] for group in fields_in(Outer, version, flexible)]

    assert names(2, True) == [["inner", "maybe", "data", "fixed"], ["tagged"], ["id"]]
    assert names(2, False) == [["inner", "maybe", "data", "fixed"], [], ["id", "tagged"]]
    assert names(0, True) == [["inner", "maybe", "id", "data", "fixed"], [], ["tagged"]]


def test_smallest_sizes_are_those_of_empty_values():
    assert min_size(StructOf(Inner), False, False, 0, False) == 2 + 2
    assert min_size(StructOf(Inner), False, False, 1, False) == 2 + 2 + 4
    assert min_size(StructOf(Inner), False, True, 1, True) == 2 + 1 + 1 + 1
    assert min_size(StructOf(Outer), False, False, 0, False) == 4 + 1 + 16 + 4 + 2
    assert min_size(StructOf(Outer), False, True, 2, True) == 5 + 1 + 1 + 2 + 1
    assert min_size(ArrayOf(declaration(Inner).fields[0].type), False, True, 0, True) == 1


def test_an_element_that_is_cheap_to_send_but_dear_to_hold_counts_for_more():
    assert memory_cost(Heavy, 0, True) > 60 * min_size(StructOf(Heavy), False, True, 0, True)
    assert element_size(StructOf(Heavy), 0, True) * 60 >= memory_cost(Heavy, 0, True)
    assert element_size(StructOf(Inner), 1, True) == 5
    assert memory_cost(Outer, 0, False) > memory_cost(Inner, 0, False)
