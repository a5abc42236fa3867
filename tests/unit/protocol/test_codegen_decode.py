"""What the decoder's source looks like where speed and safety depend on it."""

from ottla.protocol.codec import codec_for, decode_exactly, encode_bytes
from ottla.protocol.schema import Bytes, Int16, Int32, Int64, Records, String, Uuid, field, message, struct


@message(versions="0-1", flexible="1+")
class Table:
    @struct
    class Row:
        a: Int32
        b: Int64

    a: Int16
    b: Int32
    rows: list[Row]
    ids: list[Uuid] = field(default=[])
    late: String = field("1+", default="never")
    pairs: list[Int32] = field("1+", default=[1, 2])


@message(versions="0")
class Cargo:
    name: String
    label: Bytes
    records: Records | None


def decoder(cls: type, version: int) -> str:
    return codec_for(cls, version).source.partition("def decode")[2]


def test_adjacent_numbers_and_the_count_behind_them_are_one_call():
    assert "unpack_hii(buf, pos)" in decoder(Table, 0)
    assert "unpack_hiB(buf, pos)" in decoder(Table, 1)
    assert "unpack_iqB(buf, pos)" in decoder(Table, 1)


def test_a_view_is_made_only_where_something_points_into_the_frame():
    assert "memoryview(buf)" in decoder(Cargo, 0)
    assert "memoryview(buf)" in decoder(Table, 0)

    @message(versions="0")
    class Plain:
        name: String

    assert "memoryview(buf)" not in decoder(Plain, 0)


def test_every_slice_is_checked_before_it_is_cut():
    lines = [line.strip() for line in decoder(Cargo, 0).splitlines()]
    for index, line in enumerate(lines):
        if "[pos:end]" in line:
            assert lines[index - 2] == "if not pos <= end <= size:"


def test_defaults_of_absent_fields_are_fresh():
    data = encode_bytes(Table(a=1, b=2, rows=[]), 0)
    one, two = decode_exactly(Table, data, 0), decode_exactly(Table, data, 0)
    one.pairs.append(3)
    assert two.pairs == [1, 2]
    assert two.late == "never"


def test_bytes_are_copied_and_records_are_not():
    data = bytearray(encode_bytes(Cargo(name="n", label=b"l", records=b"r"), 0))
    found = decode_exactly(Cargo, data, 0)
    data[:] = bytes(len(data))
    assert (found.label, bytes(found.records)) == (b"l", b"\0")
