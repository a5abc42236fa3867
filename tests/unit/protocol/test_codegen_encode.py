"""What the encoder's source looks like where speed depends on it."""

from ottla.protocol.codec import codec_for, encode_bytes
from ottla.protocol.schema import NULL_UUID, Bool, Int16, Int32, Int64, Uuid, field, message, struct


@message(versions="0-1", flexible="1+")
class Row:
    @struct
    class Cell:
        a: Int32
        b: Int64

    a: Int16
    b: Int32
    c: Bool
    cells: list[Cell]
    numbers: list[Int32] = field(default=[])
    late: Int32 = field("1+", default=-1)
    id: Uuid = field("1+", default=NULL_UUID)


def encoder(version: int) -> str:
    return codec_for(Row, version).source.partition("def decode")[0]


def test_adjacent_numbers_and_the_count_behind_them_are_one_call():
    assert "pack_hiB_i(m.a, m.b, m.c, count_" in encoder(0)
    assert "pack_hiB_B(m.a, m.b, m.c, count_" in encoder(1)


def test_the_empty_tagged_section_costs_no_call_of_its_own():
    assert "pack_iqx(each_" in encoder(1)
    assert "pack_i16sx(m.late, m.id.bytes)" in encoder(1)


def test_absent_fields_are_compared_once_in_one_line():
    checks = [line for line in encoder(0).splitlines() if "m.late" in line]
    assert len(checks) == 1
    assert "m.late != -1" in checks[0]


def test_arrays_of_numbers_are_one_call_short_and_long():
    for count in (0, 1, 16, 17, 200):
        made = Row(a=1, b=2, c=True, cells=[], numbers=list(range(count)))
        assert encode_bytes(made, 0)[11:] == b"".join(
            number.to_bytes(4, "big") for number in [count, *range(count)]
        )
    assert "pack_array_ii[count_" in encoder(0)
