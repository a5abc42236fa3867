"""The small files of a log directory: exact bytes, and every malformed variant refused."""

import json
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.core.ids import TopicPartition
from ottla.storage import checkpoints
from ottla.storage.checkpoints import (
    OffsetFile,
    parse_lines,
    read_offsets,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
    write_partition_metadata,
)
from ottla.storage.files import write_whole
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import crash

PATH = f"d/{checkpoints.RECOVERY_POINT}"
TOPIC_ID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def test_the_files_bear_kafkas_names():
    assert {
        checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.HIGH_WATERMARK, checkpoints.CLEANER,
        checkpoints.META_PROPERTIES, checkpoints.PARTITION_METADATA, checkpoints.CLEAN_SHUTDOWN,
    } == {
        "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
        "cleaner-offset-checkpoint", "meta.properties", "partition.metadata", ".kafka_cleanshutdown",
    }  # fmt: skip


def test_offsets_are_a_version_a_count_and_a_line_per_partition(disk):
    offsets = {
        TopicPartition("orders", 1): 7,
        TopicPartition("a.b-c_d", 0): 2**63 - 1,
        TopicPartition("orders", 0): 0,
    }
    write_offsets(disk, PATH, offsets)
    assert disk.read(PATH) == b"0\n3\na.b-c_d 0 9223372036854775807\norders 0 0\norders 1 7\n"
    assert read_offsets(disk, PATH) == offsets


def test_no_offsets_is_a_file_too_and_no_file_is_no_offsets(disk):
    assert read_offsets(disk, PATH) == {}
    write_offsets(disk, PATH, {})
    assert disk.read(PATH) == b"0\n0\n"
    assert read_offsets(disk, PATH) == {}


def test_a_file_that_kafka_has_made_and_not_filled_names_nothing(disk):
    write_whole(disk, PATH, b"")
    assert checkpoints.read_offsets(disk, PATH) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"0",
        b"0\n",
        b"\n0\n",
        b"1\n0\n",
        b"0\n-0\n",
        b"0\nx\n",
        b"0\n1\n",
        b"0\n0\na 0 5\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 5 6\n",
        b"0\n1\na  0 5\n",
        b"0\n1\na x 5\n",
        b"0\n1\na -1 5\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na 0 5.0\n",
        "0\n1\na 0 ٥\n".encode(),
        "0\n1\na 0 ²\n".encode(),
        b"0\n1\na 0 " + b"1" * 5000,
        b"0\n" + b"1" * 5000 + b"\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"\xff\xfe",
        bytes(40),
    ],
)
def test_offsets_that_make_no_sense_are_a_protocol_error_that_names_the_file(disk, content):
    write_whole(disk, PATH, content)
    with pytest.raises(ProtocolError, match=checkpoints.RECOVERY_POINT):
        read_offsets(disk, PATH)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60) | st.text(alphabet="0 1\na-\x0b\u2028²", max_size=30).map(str.encode))
@example(b"0\n1\n\x0c0 1 1")
def test_no_bytes_raise_anything_but_a_protocol_error(content):
    disk = SimDisk()
    disk.make_directory("d")
    for name, read in [
        (checkpoints.RECOVERY_POINT, lambda: read_offsets(disk, PATH)),
        (checkpoints.PARTITION_METADATA, lambda: read_partition_metadata(disk, "d")),
        (checkpoints.CLEAN_SHUTDOWN, lambda: take_clean_shutdown(disk, "d")),
    ]:
        write_whole(disk, f"d/{name}", content)
        try:
            read()
        except ProtocolError:
            continue


def test_a_file_cut_short_by_a_line_does_not_pass_for_a_shorter_one(disk):
    with pytest.raises(ProtocolError, match="says 2 entries and has 1"):
        parse_lines(b"0\n2\nonly one\n", "somewhere")


def test_partition_metadata_is_a_version_and_the_topic_id_in_base64(disk):
    write_partition_metadata(disk, "d", TOPIC_ID)
    assert disk.read("d/partition.metadata") == b"version: 0\ntopic_id: -B1Prn3sEdCnZQCgyR5r9g"
    assert read_partition_metadata(disk, "d") == TOPIC_ID


def test_a_partition_without_metadata_has_no_topic_id(disk):
    assert read_partition_metadata(disk, "d") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0",
        b"topic_id: -B1Prn3sEdCnZQCgyR5r9g",
        b"version: 1\ntopic_id: -B1Prn3sEdCnZQCgyR5r9g",
        b"version: 0\ntopic_id: ",
        b"version: 0\ntopic_id: -B1Prn3sEdCnZQCgyR5r9",
        b"version: 0\ntopic_id: +B1Prn3sEdCnZQCgyR5r9g",
        b"version: 0\ntopic_id: -B1Prn3sEdCnZQCgyR5r9g==",
        b"version: 0\ntopic_id: \xff",
    ],
)
def test_partition_metadata_that_makes_no_sense_is_a_protocol_error(disk, content):
    write_whole(disk, "d/partition.metadata", content)
    with pytest.raises(ProtocolError, match=r"partition\.metadata"):
        read_partition_metadata(disk, "d")


def test_the_marker_of_a_clean_shutdown_is_json_and_is_taken_once(disk):
    write_clean_shutdown(disk, "d", 42)
    assert json.loads(disk.read("d/.kafka_cleanshutdown")) == {"version": 0, "brokerEpoch": 42}
    assert take_clean_shutdown(disk, "d") == 42
    assert take_clean_shutdown(disk, "d") is None


def test_the_marker_is_gone_for_good_once_taken(disk):
    write_clean_shutdown(disk, "d", 42)
    take_clean_shutdown(disk, "d")
    crash(disk)
    assert take_clean_shutdown(disk, "d") is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"nonsense", b"\xff", b'{"brokerEpoch": "x"}', b"[" * 100_000]
)
def test_a_marker_that_says_nothing_still_says_that_the_shutdown_was_clean(disk, content):
    write_whole(disk, "d/.kafka_cleanshutdown", content)
    assert take_clean_shutdown(disk, "d") == -1


# --- one file, several writers -----------------------------------------------------------------------------------

ORDERS = TopicPartition("orders", 0)


def test_of_two_readings_the_later_one_stays_whoever_is_slower(disk):
    file = OffsetFile(disk, PATH)
    slow = file.begin({ORDERS: 9})
    file.write({ORDERS: 4})  # the log was truncated meanwhile
    assert slow is not None
    slow()
    assert read_offsets(disk, PATH) == {ORDERS: 4}


def test_what_is_written_or_about_to_be_is_not_written_again(disk):
    file = OffsetFile(disk, PATH)
    write = file.begin({ORDERS: 9})
    assert write is not None
    assert file.begin({ORDERS: 9}) is None
    write()
    assert file.begin({ORDERS: 9}) is None
    before = disk.operations
    file.write({ORDERS: 9})
    assert disk.operations == before


def test_one_that_has_to_last_does_not_rely_on_one_that_is_under_way(disk):
    file = OffsetFile(disk, PATH)
    under_way = file.begin({ORDERS: 9})
    file.write({ORDERS: 9})
    crash(disk)
    assert under_way is not None
    assert read_offsets(disk, PATH) == {ORDERS: 9}


def test_what_could_not_be_written_is_written_the_next_time(disk):
    file = OffsetFile(disk, PATH)
    disk.fail_next("write")
    with pytest.raises(OSError, match="Input/output"):
        file.write({ORDERS: 9})
    write = file.begin({ORDERS: 9})
    assert write is not None
    write()
    assert read_offsets(disk, PATH) == {ORDERS: 9}
