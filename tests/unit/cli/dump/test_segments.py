"""Segments: what is shown of batches and records, and where a damaged file stops."""

import pytest

from ottla.cli.dump.segments import Options, dump_segment
from ottla.records import legacy
from ottla.records.batch import CRC_AT, HEADER, LOG_APPEND_TIME
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.storage.files import OsFiles
from tests.unit.cli.dump.helpers import NOW, SEGMENT, batches, dump, record, write

LOG = f"{SEGMENT}.log"


def test_a_batch_is_shown_with_every_field_of_its_header(tmp_path):
    data = build(
        [record(7), record(8)],
        codec=Codec.ZSTD,
        producer_id=4,
        producer_epoch=2,
        base_sequence=10,
        is_transactional=True,
        leader_epoch=3,
        delete_horizon_ms=NOW,
    )
    path = write(tmp_path, LOG, data)
    (shown,) = dump("--json", path).objects
    assert shown == {
        "type": "batch",
        "file": str(path),
        "position": 0,
        "size": len(data),
        "base_offset": 7,
        "last_offset": 8,
        "count": 2,
        "magic": 2,
        "compression": "zstd",
        "timestamp_type": "CreateTime",
        "max_timestamp": NOW + 8,
        "producer_id": 4,
        "producer_epoch": 2,
        "base_sequence": 10,
        "last_sequence": 11,
        "leader_epoch": 3,
        "is_transactional": True,
        "is_control": False,
        "base_timestamp": NOW,
        "delete_horizon_ms": NOW,
        "checksum": int.from_bytes(data[CRC_AT : CRC_AT + 4], "big"),
        "crc": "valid",
    }


def test_batches_are_shown_as_tab_separated_lines_under_their_names(tmp_path):
    first, second = batches(2)
    path = write(tmp_path, LOG, first + second)
    ran = dump(path)
    lines = ran.out.splitlines()
    assert lines[0] == f"# {path}"
    assert lines[1].split("\t")[:5] == ["position", "size", "base_offset", "last_offset", "count"]
    assert lines[2].split("\t")[:5] == ["0", str(len(first)), "0", "1", "2"]
    assert lines[3].split("\t")[:5] == [str(len(first)), str(len(second)), "2", "3", "2"]
    assert len(lines) == 4
    assert (ran.code, ran.err) == (0, "")


def test_deep_iteration_shows_a_line_per_record(tmp_path):
    first = build([record(0, headers=(("trace", b"1"), ("empty", None)))])
    second = build(
        [record(1), record(2)], codec=Codec.LZ4, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1
    )
    path = write(tmp_path, LOG, first + second)
    shown = dump("--json", "--deep-iteration", path).objects
    assert [each["offset"] for each in shown] == [0, 1, 2]
    assert shown[0] == {
        "type": "record",
        "file": str(path),
        "offset": 0,
        "timestamp": NOW,
        "timestamp_type": "CreateTime",
        "key_size": 1,
        "value_size": 1,
        "header_keys": ["trace", "empty"],
        "sequence": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "leader_epoch": -1,
        "is_transactional": False,
        "control": None,
        "magic": 2,
        "compression": "none",
        "batch_position": 0,
        "crc": "valid",
    }
    assert [each["sequence"] for each in shown[1:]] == [2**31 - 1, 0]  # sequences start over
    assert {each["batch_position"] for each in shown[1:]} == {len(first)}


def test_data_are_shown_on_request_and_nulls_stay_nulls(tmp_path):
    data = build([record(0, headers=(("h", b"x"), ("n", None))), record(1, key=None, value=None)])
    shown = dump("--json", "--print-data-log", write(tmp_path, LOG, data)).objects
    assert [(each["key"], each["value"], each["headers"]) for each in shown] == [
        ("k", "v", [["h", "x"], ["n", None]]),
        (None, None, []),
    ]
    assert (shown[1]["key_size"], shown[1]["value_size"]) == (-1, -1)


def test_metadata_can_be_left_out(tmp_path):
    ran = dump(
        "--print-data-log",
        "--skip-record-metadata",
        write(tmp_path, LOG, build([record(0, value=b"a\tb\n")])),
    )
    assert ran.out.splitlines()[1:] == ["key\tvalue\theaders", "k\ta\\tb\\n\t[]"]


def test_metadata_stay_when_there_is_nothing_else_to_show(tmp_path):
    path = write(tmp_path, LOG, batches(1)[0])
    assert dump("--deep-iteration", "--skip-record-metadata", path).rows()[1]["offset"] == "1"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_formats_are_shown_wrappers_opened(tmp_path, magic, codec):
    path = write(tmp_path, LOG, legacy.build([record(10), record(11), record(12)], magic, codec=codec))
    shown = dump("--json", "--print-data-log", path).objects
    assert [each["offset"] for each in shown] == [10, 11, 12]
    assert {each["magic"] for each in shown} == {magic}
    assert {each["compression"] for each in shown} == {codec.name.lower()}
    assert [each["timestamp"] for each in shown] == (
        [NOW + 10, NOW + 11, NOW + 12] if magic else [-1, -1, -1]
    )
    assert {each["value"] for each in shown} == {"v"}


def test_a_wrapper_tells_only_the_last_offset_inside(tmp_path):
    data = legacy.build(
        [record(10), record(11)], 1, codec=Codec.GZIP, timestamp_type=LOG_APPEND_TIME, log_append_time=NOW
    )
    (shown,) = dump("--json", write(tmp_path, LOG, data)).objects
    assert (shown["base_offset"], shown["last_offset"], shown["count"]) == (None, 11, None)
    assert (shown["timestamp_type"], shown["crc"]) == ("LogAppendTime", "valid")


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_transaction_markers_are_read(tmp_path, kind):
    data = build_marker(kind, producer_id=1, producer_epoch=0, coordinator_epoch=42, timestamp=NOW)
    path = write(tmp_path, LOG, data)
    (shown,) = dump("--json", "--deep-iteration", path).objects
    assert shown["control"] == {"type": kind.name, "coordinator_epoch": 42}
    (shown,) = dump("--json", "--offsets-decoder", path).objects
    assert shown["key"] == f"0000{int(kind):04x}"  # no decoder of a topic's data is let near a marker


def test_control_records_of_other_kinds_and_damaged_ones_are_named(tmp_path):
    leader_change = build([record(0, key=b"\0\0\0\2")], is_control=True)
    broken = build([record(1, key=b"\0")], is_control=True)
    shown = dump("--json", "--deep-iteration", write(tmp_path, LOG, leader_change + broken)).objects
    assert shown[0]["control"] == {"type": "LEADER_CHANGE"}
    assert shown[1]["control"]["type"] == "UNKNOWN"


def test_a_segment_cut_anywhere_shows_its_whole_batches_and_where_it_stops(tmp_path):
    whole = batches(3)
    data = b"".join(whole)
    ends = [0, len(whole[0]), len(whole[0]) + len(whole[1])]
    for cut in range(ends[2] + 1, len(data)):
        items = list(_items(write(tmp_path, LOG, data[:cut])))
        assert [item.fields["position"] for item in items[:-1]] == ends[:2]
        assert (items[-1].position, items[-1].stops) == (ends[2], True)


def _items(path, options=None):
    file = OsFiles().open(str(path))
    try:
        yield from dump_segment(file, 0, options or Options())
    finally:
        file.close()


def test_a_cut_segment_says_so_in_both_formats_and_exits_with_1(tmp_path):
    first, second = batches(2)
    path = write(tmp_path, LOG, first + second[:-1])
    ran = dump(path)
    assert (ran.code, len(ran.rows())) == (1, 1)
    assert ran.err == f"ottla: {path}: stops at byte {len(first)}: the file ends within a batch\n"
    ran = dump("--json", "--deep-iteration", path)
    assert ran.code == 1
    assert ran.objects[2] == {
        "type": "problem",
        "file": str(path),
        "reason": "the file ends within a batch",
        "position": len(first),
        "stops": True,
        "next_intact": None,
    }


def test_a_tail_of_zeros_is_called_that(tmp_path):
    (data,) = batches(1)
    ran = dump(write(tmp_path, LOG, data + bytes(5000)))
    assert ran.code == 1
    assert f"stops at byte {len(data)}: 5000 zero bytes up to the end of the file" in ran.err


def test_a_whole_batch_behind_the_break_is_pointed_out(tmp_path):
    first, second, third = batches(3)
    broken = bytearray(second)
    broken[8:12] = b"\xff\xff\xff\xff"
    ran = dump(write(tmp_path, LOG, first + broken + third))
    assert ran.code == 1
    assert f"a whole batch follows at byte {len(first) + len(second)}" in ran.err


def test_a_file_made_to_look_like_batches_everywhere_only_stops(tmp_path):
    false = [HEADER.pack(9, 61 * (99 - i) - 12, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) for i in range(99)]
    ran = dump(write(tmp_path, LOG, b"?" * 30 + b"".join(false)))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "stops at byte 0: no batch starts here" in ran.err


def test_a_batch_that_fails_its_checksum_is_shown_and_the_walk_goes_on(tmp_path):
    first, second, third = batches(3)
    flipped = bytearray(second)
    flipped[-2] ^= 1  # within the value of the last record
    path = write(tmp_path, LOG, first + flipped + third)
    ran = dump(path)
    assert [row["crc"] for row in ran.rows()] == ["valid", "invalid", "valid"]
    assert ran.err == f"ottla: {path}: byte {len(first)}: the batch fails its checksum\n"
    assert ran.code == 1
    deep = dump("--json", "--print-data-log", path)
    assert [each["crc"] for each in deep.objects if each["type"] == "record"] == ["valid"] * 2 + [
        "invalid"
    ] * 2 + ["valid"] * 2
    assert [each["stops"] for each in deep.objects if each["type"] == "problem"] == [False]


def test_an_old_message_that_fails_its_checksum_is_not_opened(tmp_path):
    data = bytearray(legacy.build([record(0), record(1)], 1))
    data[-1] ^= 1
    ran = dump("--json", "--deep-iteration", write(tmp_path, LOG, bytes(data)))
    assert [each["type"] for each in ran.objects] == ["record", "problem"]
    assert ran.code == 1


def test_records_that_cannot_be_decoded_are_reported_and_the_walk_goes_on(tmp_path):
    first, second = batches(2)
    unknown_codec = bytearray(first)
    unknown_codec[22] = 7
    ran = dump("--json", "--deep-iteration", write(tmp_path, LOG, unknown_codec + second))
    reasons = [each["reason"] for each in ran.objects if each["type"] == "problem"]
    assert len(reasons) == 2
    assert reasons[1].startswith("the records of this batch cannot be read: ")
    assert [each["offset"] for each in ran.objects if each["type"] == "record"] == [2, 3]
    shallow = dump(write(tmp_path, LOG, bytes(unknown_codec)))
    assert shallow.rows()[0]["compression"] == "unknown (7)"


def test_offsets_that_go_back_are_reported(tmp_path):
    first, second = batches(2)
    ran = dump(write(tmp_path, LOG, second + first))
    assert "the batch starts at offset 0, not at 4 or behind it" in ran.err
    assert (ran.code, len(ran.rows())) == (1, 2)
    ran = dump(write(tmp_path, f"{10:020d}.log", first))
    assert "the batch starts at offset 0, not at 10 or behind it" in ran.err


def test_more_records_than_offsets_are_reported(tmp_path):
    data = bytearray(batches(1)[0])
    data[26] = 0  # last offset delta
    ran = dump(write(tmp_path, LOG, bytes(data)))
    assert "2 records do not fit offsets 0 to 0" in ran.err


def test_max_bytes_stops_in_silence_before_a_batch_that_ends_behind_them(tmp_path):
    first, second, third = batches(3)
    path = write(tmp_path, LOG, first + second + third[:-3])
    ran = dump("--max-bytes", len(first) + len(second), path)
    assert (ran.code, len(ran.rows()), ran.err) == (0, 2, "")
    assert len(dump("--max-bytes", len(first) + len(second) - 1, path).rows()) == 1
    assert dump("--max-bytes", 0, path).code == 0


def test_a_batch_larger_than_the_bound_on_memory_is_not_read(tmp_path):
    big = build([record(0, value=bytes(1000))])
    small = build([record(1)])
    ran = dump("--json", "--max-message-size", 500, write(tmp_path, LOG, big + small))
    assert [each.get("crc") for each in ran.objects] == ["unchecked", None, "valid"]
    assert "too large to be read" in ran.err
    bomb = build([record(0, value=bytes(100_000))], codec=Codec.GZIP)
    ran = dump("--deep-iteration", "--max-message-size", 5000, write(tmp_path, LOG, bomb))
    assert "decompresses to more than 5000 bytes" in ran.err
    assert ran.code == 1


def test_a_file_that_shrinks_while_it_is_read_stops_there(tmp_path):
    path = write(tmp_path, LOG, b"".join(batches(200)))
    items = _items(path)
    next(items)
    with open(path, "r+b") as file:
        file.truncate(100)
    *_, last = items
    assert last.stops


def test_an_empty_segment_is_nothing_to_complain_about(tmp_path):
    ran = dump("--json", write(tmp_path, LOG, b""))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
