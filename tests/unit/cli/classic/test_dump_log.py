"""`kafka-dump-log` without Apache's beside it: lines of files whose every byte is known, and what is ours alone."""

import io
import struct

import pytest

from ottla.cli.classic.dump_log_metadata import LeaderChangeMessage, Voter
from ottla.cli.classic.message_json import json_text, plain
from ottla.cli.classic.state_records import (
    RemotePartitionDeleteMetadataRecord,
    ShareUpdateKey,
    ShareUpdateValue,
    TopicIdPartition,
)
from ottla.cli.main import main
from ottla.protocol.codec import encode_behind, encode_bytes, encode_versioned
from ottla.protocol.messages.cluster_metadata import ClientQuotaRecord, FeatureLevelRecord
from ottla.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.messages.record_types import encode_key, encode_value
from ottla.protocol.schema import NULL_UUID
from ottla.records import legacy
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker, control_key
from ottla.records.record import Record
from ottla.storage import snapshots, txn_index
from ottla.storage.producers import Producer

NAME = "0" * 20
BATCH = (
    "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 5 lastSequence: 6 producerId: 9 producerEpoch: 1"
    " partitionLeaderEpoch: -1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
    " position: 0 CreateTime: 1001 size: 92 magic: 2 compresscodec: none crc: 3031042094 isvalid: true"
)


def batch() -> bytes:
    records = [Record(0, 1000, b"k", b"value \xff", (("h", b""),)), Record(1, 1001, None, b"more")]
    return build(records, producer_id=9, producer_epoch=1, base_sequence=5)


@pytest.fixture
def dump(capsys):
    def run(*words):
        code = main(["kafka-dump-log", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err

    return run


@pytest.fixture
def place(tmp_path):
    """Writes the files of a segment, and returns the path of the first."""

    def write(**files):
        paths = []
        for suffix, data in files.items():
            paths.append(tmp_path / f"{NAME}.{suffix}")
            paths[-1].write_bytes(data)
        return paths[0]

    return write


# --- segments ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_a_line(dump, place):
    path = place(log=batch())
    code, (title, start, line), err = dump("--files", path)
    assert (code, err) == (0, "")
    assert (title, start) == (f"Dumping {path}", "Log starting offset: 0")
    assert line.partition(" size:")[0] == BATCH.partition(" size:")[0]
    assert line.endswith("isvalid: true")


def test_a_record_is_a_line_below_its_batch(dump, place):
    path = place(log=batch())
    assert dump("--files", path, "--deep-iteration")[1][3:] == [
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 7 sequence: 5 headerKeys: [h]",
        "| offset: 1 CreateTime: 1001 keySize: -1 valueSize: 4 sequence: 6 headerKeys: []",
    ]
    assert dump("--files", path, "--print-data-log")[1][3:] == [
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 7 sequence: 5 headerKeys: [h] key: k payload: value \ufffd",
        "| offset: 1 CreateTime: 1001 keySize: -1 valueSize: 4 sequence: 6 headerKeys: [] payload: more",
    ]
    assert dump("--files", path, "--print-data-log", "--skip-record-metadata")[1][3:] == [
        "| key: k payload: value \ufffd",
        "| payload: more",
    ]


def test_a_marker_says_what_became_of_the_transaction(dump, place):
    marker = build_marker(
        ControlType.ABORT, coordinator_epoch=3, timestamp=7, producer_id=9, producer_epoch=1
    )
    path = place(log=marker)
    line = dump("--files", path, "--deep-iteration")[1][-1]
    assert line.endswith("endTxnMarker: ABORT coordinatorEpoch: 3")
    assert dump("--files", path, "--deep-iteration", "--skip-record-metadata")[1][-1] == ""


def test_messages_of_the_first_formats_have_checksums_of_their_own(dump, place):
    path = place(log=legacy.build([Record(0, 5, None, b"a"), Record(1, 6, b"b", None)], 1, codec=Codec.GZIP))
    wrapper, *inner = dump("--files", path, "--print-data-log")[1][2:]
    assert wrapper.startswith("offset: 1 position: 0 CreateTime: 6 size: ")
    assert [line.partition(" isValid")[0] for line in inner] == [
        "| offset: 0 CreateTime: 5 keySize: -1 valueSize: 1",
        "| offset: 1 CreateTime: 6 keySize: 1 valueSize: -1",
    ]


def test_the_rest_of_a_file_that_is_no_batch_is_counted(dump, place):
    path = place(log=batch() + batch()[:30])
    assert dump("--files", path)[1][-1] == f"Found 30 invalid bytes at the end of {path.name}"
    assert len(dump("--files", path, "--max-bytes", 100)[1]) == 3, "whoever wants a part knows that it is one"


def test_numbers_that_no_batch_has_end_the_command(dump, place):
    path = place(log=batch() + bytes(100))
    code, out, err = dump("--files", path)
    assert (code, len(out)) == (1, 3)
    assert "Found record size 0 smaller than minimum record overhead (14)" in err


def test_gaps_are_told_at_the_end(dump, place):
    path = place(log=build([Record(0, 0, None, b"")]) + build([Record(0, 0, None, b"")]))
    assert dump("--files", path, "--deep-iteration")[2] == (
        f"Non-consecutive offsets in {path}\n  0 is followed by 0\n"
    )


def test_what_reaches_a_terminal_cannot_move_its_cursor(place, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    path = place(log=build([Record(0, 0, None, b"\x1b[2J")]))
    assert main(["kafka-dump-log", "--print-data-log", "--files", str(path)]) == 0
    assert "\x1b" not in terminal.getvalue()
    assert "payload: \\x1b[2J" in terminal.getvalue()


# --- contents ---------------------------------------------------------------------------------------------------------


def test_numbers_are_read_by_their_classes(dump, place):
    path = place(log=build([Record(0, 0, struct.pack(">i", 7), struct.pack(">q", -8))]))
    at = "org.apache.kafka.tools.api"
    words = ("--files", path, "--skip-record-metadata", "--key-decoder-class", f"{at}.IntegerDecoder")
    assert dump(*words, "--value-decoder-class", f"{at}.LongDecoder")[1][-1] == "| key: 7 payload: -8"
    assert dump(*words, "--value-decoder-class", "kafka.serializer.DefaultDecoder")[1][-1].endswith(
        "fffffff8"
    )
    code, _, err = dump(*words, "--value-decoder-class", "my.Decoder")
    assert code == 1 and "my.Decoder is none of those that there are" in err


def test_committed_offsets_are_json(dump, place):
    key = OffsetCommitKey(group="billing", topic="orders", partition=3)
    value = OffsetCommitValue(offset=42, leader_epoch=1, metadata="", commit_timestamp=5)
    path = place(
        log=build([Record(0, 0, encode_key(key), encode_value(value)), Record(1, 0, encode_key(key), None)])
    )
    shown = '| key: {"type":"1","data":{"group":"billing","topic":"orders","partition":3}} payload: '
    assert dump("--files", path, "--offsets-decoder", "--skip-record-metadata")[1][3:] == [
        shown + '{"version":"3","data":{"offset":42,"leaderEpoch":1,"metadata":"","commitTimestamp":5}}',
        shown + "<DELETE>",
    ]


def test_records_of_another_topic_are_named_as_such(dump, place):
    path = place(log=build([Record(0, 0, b"\x7f\xff", b"")]))
    assert dump("--files", path, "--offsets-decoder")[1][-1].endswith(
        "key: Unknown record type 32767 at offset 0, skipping."
    )
    path = place(log=build([Record(0, 0, None, b"")]))
    code, _, err = dump("--files", path, "--offsets-decoder")
    assert code == 1 and "(message had a missing key)" in err


def framed(number: int, message: object, version: int = 0) -> bytes:
    return bytes([1, number, version]) + encode_bytes(message, version)


def test_the_log_of_apaches_controllers_is_json(dump, place):
    quota = ClientQuotaRecord(entity=[], key="producer_byte_rate", value=1e7, remove=False)
    values = [
        framed(12, FeatureLevelRecord(name="kraft", feature_level=1)),
        framed(14, quota),
        b"\1\x50\0",
        b"\2",
    ]
    path = place(log=build([Record(number, 0, None, value) for number, value in enumerate(values)]))
    assert dump("--files", path, "--cluster-metadata-decoder", "--skip-record-metadata")[1][3:] == [
        '| payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"kraft","featureLevel":1}}',
        '| payload: {"type":"CLIENT_QUOTA_RECORD","version":0,'
        '"data":{"entity":[],"key":"producer_byte_rate","value":1.0E7,"remove":false}}',
        "| payload: Error at 2, skipping. org.apache.kafka.common.errors.UnsupportedVersionException:"
        " Unknown metadata id 80",
        "| payload: Error at 3, skipping. Could not deserialize metadata record due to unknown frame version 2"
        "(only frame version 1 is supported)",
    ]


def test_what_controllers_say_between_batches_is_json(dump, place):
    value = encode_bytes(
        LeaderChangeMessage(version=0, leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[]), 0
    )
    change = build([Record(0, 0, control_key(ControlType.LEADER_CHANGE), value)], is_control=True)
    strange = build([Record(0, 0, b"\0\0\0\x63", b"")], is_control=True)
    lines = dump("--files", place(log=change + strange), "--deep-iteration")[1]
    assert lines[3].endswith(
        'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[]}'
    )
    assert lines[5].endswith("controlType: UNKNOWN(99)")


def test_a_snapshot_of_the_metadata_has_an_offset_and_an_epoch(dump, tmp_path):
    path = tmp_path / f"{12:020}-{3:010}.checkpoint"
    path.write_bytes(batch())
    assert dump("--files", path)[1][1] == "Snapshot end offset: 12, epoch: 3"
    path = path.rename(tmp_path / "bootstrap.checkpoint")
    assert dump("--files", path)[1][1] == "KRaft bootstrap snapshot"
    code, _, err = dump("--files", path.rename(tmp_path / "odd.checkpoint"))
    assert code == 1 and "such as 00000000000000000012-0000000003.checkpoint" in err


def test_state_of_share_groups_and_of_segments_elsewhere_is_shown(dump, place):
    key = encode_behind(b"\0\1", ShareUpdateKey(group_id="g", topic_id=NULL_UUID, partition=0), 0)
    value = ShareUpdateValue(snapshot_epoch=1, leader_epoch=2, start_offset=3, state_batches=[])
    path = place(log=build([Record(0, 0, key, encode_versioned(value, 0))]))
    line = dump("--files", path, "--share-group-state-decoder", "--skip-record-metadata")[1][-1]
    assert line.endswith('{"snapshotEpoch":1,"leaderEpoch":2,"startOffset":3,"stateBatches":[]}}')

    gone = RemotePartitionDeleteMetadataRecord(
        topic_id_partition=TopicIdPartition(name="orders", id=NULL_UUID, partition=3),
        broker_id=1,
        event_timestamp_ms=5,
        remote_partition_delete_state=2,
    )
    path = place(log=build([Record(0, 0, None, framed(2, gone)), Record(1, 0, None, None)]))
    assert dump("--files", path, "--remote-log-metadata-decoder", "--skip-record-metadata")[1][3:] == [
        "| payload: RemotePartitionDeleteMetadata{topicPartition=AAAAAAAAAAAAAAAAAAAAAA:orders-3,"
        " state=DELETE_PARTITION_FINISHED, eventTimestampMs=5, brokerId=1}",
        "| payload: Error at offset 1, skipping. The record has no value",
    ]


def test_json_is_written_as_jackson_writes_it():
    assert json_text({"a": 'ž"\\u001f\x1f\n'}) == '{"a":"ž\\"\\\\u001f\\u001F\\n"}'
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2)
    assert list(plain(value, 0)) == ["offset", "metadata", "commitTimestamp"]
    assert "topicId" not in plain(value, 4), "a tag that says nothing is left out"


# --- what lies beside a segment ---------------------------------------------------------------------------------------


def test_an_index_is_held_against_its_segment(dump, place):
    path = place(index=struct.pack(">iiii", 1, 0, 9, 0), log=batch())
    code, out, err = dump("--files", path)
    assert (code, out[1:]) == (0, ["offset: 1 position: 0", "offset: 9 position: 0"])
    assert err == f"Mismatches in :{path}\n  Index offset: 9, log offset: 1\n"
    assert dump("--files", path, "--index-sanity-check")[1][1:] == [f"{path} passed sanity check."]


def test_an_entry_that_leads_nowhere_ends_the_command(dump, place):
    path = place(index=struct.pack(">ii", 1, 40), log=batch())
    code, _, err = dump("--files", path)
    assert code == 1 and "no batch starts at byte 40" in err


def test_a_time_index_is_held_against_its_segment(dump, place):
    entries = struct.pack(">qiqiqi", 1001, 1, 500, 1, 2000, 8)
    path = place(timeindex=entries, index=struct.pack(">ii", 1, 0), log=batch())
    code, out, err = dump("--files", path)
    assert (code, out[1]) == (0, "timestamp: 1001 offset: 1")
    assert err == (
        f"Found timestamp mismatch in :{path}\n  Index timestamp: 500, log timestamp: 1001\n"
        f"Found out of order timestamp in :{path}\n  Index timestamp: 500, Previously indexed timestamp: 1001\n"
        f"The following indexed offsets are not found in :{path}\nIndexed offset: 8, found log offset: -1\n"
    )


def test_a_missing_index_is_not_made(dump, place, tmp_path):
    path = place(log=batch()).with_suffix(".index")
    code, _, err = dump("--files", path)
    assert code == 1 and "there is no such file" in err
    assert not path.exists(), "Apache's tool makes one"


def test_aborted_transactions_and_producers_are_listed(dump, place):
    path = place(txnindex=txn_index.ENTRY.pack(0, 9, 1, 5, 6))
    assert dump("--files", path)[1][1:] == [
        "version: 0 producerId: 9 firstOffset: 1 lastOffset: 5 lastStableOffset: 6"
    ]
    path = place(snapshot=snapshots.encode([Producer(9, 1)]))
    assert dump("--files", path)[1][1].startswith("producerId: 9 producerEpoch: 1 coordinatorEpoch: ")
    damaged = path.read_bytes()
    path.write_bytes(damaged[:-1] + b"\x55")
    code, out, err = dump("--files", path)
    assert (code, len(out)) == (0, 1) and err.startswith("Snapshot is corrupt (CRC is no longer valid).")


# --- command lines ----------------------------------------------------------------------------------------------------


def test_several_files_come_one_after_the_other(dump, place, tmp_path):
    path = place(log=batch(), index=b"")
    code, out, err = dump("--files", f"{path},{tmp_path}/{NAME}.index,{tmp_path}/strange,")
    assert code == 0
    assert [line for line in out if line.startswith("Dumping ")] == [
        f"Dumping {path}",
        f"Dumping {tmp_path}/{NAME}.index",
        f"Dumping {tmp_path}/strange",
    ]
    assert f"{tmp_path}/{NAME}.index is empty." in out
    assert err == f"Ignoring unknown file {tmp_path}/strange\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "This tool helps to parse a log file"),
        (("--help",), "This tool helps to parse a log file"),
        (("--print-data-log",), 'Missing required argument "[files]"'),
        (("--bogus",), "joptsimple.UnrecognizedOptionException: bogus is not a recognized option"),
        (
            ("--files",),
            "joptsimple.OptionMissingRequiredArgumentException: Option files requires an argument",
        ),
        (("--files", "a", "--files", "b"), "joptsimple.MultipleArgumentsForOptionException: Found multiple"),
        (("--files", "/no/7.log"), "java.nio.file.NoSuchFileException: /no/7.log"),
        (("--files", "/no/seven.log"), 'java.lang.NumberFormatException: For input string: "seven"'),
    ],
)
def test_what_makes_no_sense_fails_with_a_sentence(dump, words, sentence):
    code, _, err = dump(*words)
    assert code == 1 and err.startswith(sentence)


def test_a_pipe_or_a_directory_is_not_opened(dump, tmp_path):
    (tmp_path / f"{NAME}.log").mkdir()
    code, _, err = dump("--files", tmp_path / f"{NAME}.log")
    assert code == 1 and "is not a regular file" in err
