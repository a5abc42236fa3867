"""The codec's edges: versions, errors, limits, and what a traceback shows."""

import linecache
import traceback

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.codec import (
    Writer,
    codec_for,
    decode,
    decode_exactly,
    decode_versioned,
    encode,
    encode_bytes,
    encode_into,
    encode_versioned,
)
from ottla.protocol.schema import Bool, Int16, Int32, Records, String, field, message, struct


@message(versions="0-3", flexible="2+")
class Letter:
    @struct
    class Page:
        number: Int32
        text: String

    sender: String
    stamp: Int16 = field("1+", default=-1)
    colour: String = field("1+", default="", ignorable=True)
    note: String | None = field(default=None)
    pages: list[Page] = field(default=[])
    cargo: Records | None = field(default=None)
    urgent: Bool = field("3+", tag=0, default=False)


@struct
class Loose:
    x: Int16


def letter(**values) -> Letter:
    return Letter(**{"sender": "ann"} | values)


def test_the_bytes_are_kafkas():
    made = letter(stamp=7, pages=[Letter.Page(number=1, text="hi")])
    assert encode_bytes(made, 1).hex() == (
        "0003616e6e" "0007" "0000" "ffff" "00000001" "00000001" "00026869" "ffffffff"
    )  # fmt: skip
    assert encode_bytes(made, 2).hex() == (
        "04616e6e" "0007" "01" "00" "02" "00000001" "036869" "00" "00" "00"
    )  # fmt: skip
    made.urgent = True
    assert encode_bytes(made, 3).hex().endswith("00" "01" "00" "01" "01")  # fmt: skip


def test_a_codec_is_compiled_once_per_version():
    assert codec_for(Letter, 1) is codec_for(Letter, 1)
    assert codec_for(Letter, 1) is not codec_for(Letter, 2)


def test_versions_that_do_not_exist_are_refused_both_ways():
    with pytest.raises(ProtocolError, match="Letter has no version 4, only 0-3"):
        encode(letter(), 4)
    with pytest.raises(ProtocolError, match="Letter has no version -1"):
        decode(Letter, b"", -1)


def test_only_messages_have_codecs():
    with pytest.raises(TypeError, match="Loose is a struct"):
        codec_for(Loose, 0)
    with pytest.raises(TypeError, match="not declared"):
        encode(object(), 0)


def test_a_value_that_the_version_lacks_is_refused_by_name():
    with pytest.raises(ProtocolError, match=r"Letter\.stamp is set, but version 0 does not have it"):
        encode(letter(stamp=3), 0)
    with pytest.raises(ProtocolError, match=r"Letter\.urgent is set"):
        encode(letter(urgent=True), 2)


def test_an_ignorable_value_is_dropped():
    assert encode_bytes(letter(colour="red"), 0) == encode_bytes(letter(), 0)


def test_unknown_tags_need_a_flexible_version():
    with pytest.raises(ProtocolError, match=r"Letter has unknown tags \(9\), but version 1"):
        encode(letter(unknown_tags={9: b""}), 1)


def test_absent_fields_decode_to_their_defaults():
    found = decode_exactly(Letter, encode_bytes(letter(), 0), 0)
    assert (found.stamp, found.colour, found.urgent) == (-1, "", False)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_cut_is_refused(version):
    data = encode_bytes(letter(note="n", pages=[Letter.Page(number=1, text="hi")], cargo=b"123"), version)
    for size in range(len(data)):
        with pytest.raises(ProtocolError, match=f"Letter v{version}"):
            decode(Letter, data[:size], version)


@pytest.mark.parametrize(
    ("data", "version", "complaint"),
    [
        ("ffff", 0, "Letter.sender is null"),
        ("fffe", 0, "Letter.sender has length -2"),
        ("0001ff", 0, "not UTF-8"),
        ("0000fffe", 0, "Letter.note has length -2"),
        ("0000ffffffffffff", 0, "Letter.pages is null"),
        ("0000fffffffffffe", 0, "Letter.pages has -2 elements"),
        ("0000ffff7fffffff", 0, "Letter.pages claims 2147483647 elements"),
        ("0000ffff00000000fffffffe", 0, "Letter.cargo has length -2"),
        ("0000ffff0000000000000009", 0, "Letter.cargo claims 9 bytes"),
        ("00", 2, "Letter.sender is null"),
        ("808080808001", 2, "more than 32 bits"),
        ("010001010001000205000500", 3, "tag 5 after tag 5"),
        ("010001010001000205000000", 3, "tag 0 after tag 5"),
        ("010001010001000105ff", 3, "ends early"),
        ("0100010100010001", 2, "the tagged section claims 1 elements"),
        ("0100", 2, "ends early"),
    ],
)
def test_hostile_bytes_get_one_clear_sentence(data, version, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        decode(Letter, bytes.fromhex(data), version)


def test_any_byte_but_zero_is_true():
    data = bytearray(encode_bytes(letter(urgent=True), 3))
    data[-1] = 0x40
    assert decode_exactly(Letter, data, 3).urgent is True


def test_a_tagged_field_of_the_wrong_size_is_refused():
    data = encode_bytes(letter(), 3)[:-1] + b"\x01\x00\x02\x01\x01"
    with pytest.raises(ProtocolError, match=r"Letter\.urgent: its tag ends at byte"):
        decode(Letter, data, 3)


def test_bytes_behind_the_message_are_the_callers_business_unless_exactness_is_asked_for():
    data = encode_bytes(letter(), 2)
    assert decode(Letter, data + b"more", 2) == (letter(), len(data))
    with pytest.raises(ProtocolError, match="4 bytes after its end"):
        decode_exactly(Letter, data + b"more", 2)


def test_the_number_of_objects_is_capped():
    data = encode_bytes(letter(pages=[Letter.Page(number=1, text="")] * 50), 2)
    assert len(decode(Letter, data, 2, objects_max=50)[0].pages) == 50
    with pytest.raises(ProtocolError, match=r"Letter\.pages: more objects"):
        decode(Letter, data, 2, objects_max=49)


def test_records_are_views_into_the_buffer():
    data = encode_bytes(letter(cargo=b"abc"), 1)
    cargo = decode_exactly(Letter, data, 1).cargo
    assert isinstance(cargo, memoryview)
    assert cargo.obj is data
    assert cargo == b"abc"


def test_values_that_do_not_fit_are_refused_by_name():
    for bad, complaint in (
        ({"sender": None}, r"Letter\.sender is null, which version 1 does not allow"),
        ({"sender": b"ann"}, r"Letter\.sender is a bytes, not a str"),
        ({"stamp": 40_000}, r"Letter\.stamp = 40000 does not fit"),
        ({"sender": "x" * 40_000}, r"Letter\.sender has more than 32767 bytes"),
        ({"pages": [Letter.Page(number="1", text="")]}, r"Letter\.pages\[0\]\.number = '1' does not fit"),
        ({"sender": "\ud800"}, "Letter v1 cannot be written: .*surrogates"),
    ):
        with pytest.raises(ProtocolError, match=complaint):
            encode(letter(**bad), 1)


def test_a_writer_collects_several_messages():
    writer = Writer(b"head")
    encode_into(letter(), 0, writer)
    encode_into(letter(cargo=bytes(5000)), 0, writer)
    parts = writer.finish()
    assert len(parts) == 3
    assert b"".join(parts) == b"head" + encode_bytes(letter(), 0) + encode_bytes(letter(cargo=bytes(5000)), 0)


def test_a_versioned_message_carries_its_version_in_front():
    data = encode_versioned(letter(), 2)
    assert data == b"\0\x02" + encode_bytes(letter(), 2)
    assert decode_versioned(Letter, data) == (letter(), 2)


@pytest.mark.parametrize("data", ["", "00", "0009", "ffff", "0002", "000204616e6effff01000100000000"])
def test_a_versioned_message_of_another_version_or_shape_is_refused(data):
    with pytest.raises(ProtocolError, match="Letter"):
        decode_versioned(Letter, bytes.fromhex(data))


def test_a_traceback_shows_the_generated_line():
    try:
        encode(letter(stamp="late"), 1)
    except ProtocolError as error:
        shown = "".join(traceback.format_exception(error))
    assert '"<Letter v1>"' in shown
    assert "m.stamp" in shown
    assert linecache.getline("<Letter v1>", 1) == "def encode(m, out, parts):\n"
