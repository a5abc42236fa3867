"""What is read from Apache Kafka's metadata: all that was committed, and nothing where that cannot be told."""

import pytest

from ottla.core.errors import ProtocolError
from ottla.metadata.kraft_log import Position, position, read_image
from ottla.protocol.codec import encode_bytes
from ottla.protocol.messages.cluster_metadata import VotersRecord
from ottla.records.control import ControlType
from ottla.storage.files import OsFiles
from ottla.storage.meta import METADATA_DIRECTORY
from tests.unit.metadata.kraft_files import (
    NODE_ID,
    RECORDED,
    batch,
    control,
    framed,
    partition,
    recorded,
    setting,
    snapshot,
    topic,
    write_log,
)


def read(directory):
    return read_image(OsFiles(), str(directory))


def names(image):
    return sorted(each.name for each in image.topics.values())


def test_a_recorded_cluster_is_read_as_it_was():
    image, end_offset = read(RECORDED / METADATA_DIRECTORY)
    assert end_offset == 51
    assert names(image) == ["grown", "late", "orders"]
    partitions = {each.name: len(each.partitions) for each in image.topics.values()}
    assert partitions == {"grown": 3, "late": 1, "orders": 3}
    assert image.configs == {
        (4, ""): {"log.retention.ms": "123456789", "min.insync.replicas": "1"},
        (2, "orders"): {"retention.ms": "-1"},
        (2, "late"): {"segment.bytes": "2000000"},
    }
    assert image.next_producer_id == 1000
    assert image.voters == {NODE_ID} and list(image.brokers) == [NODE_ID]
    assert len(image.acls) == len(image.quotas) == 1
    assert image.credentials == {("carol", 1)}
    assert image.features["metadata.version"] == 30


def test_a_snapshot_and_what_follows_say_the_same_as_the_whole_log(tmp_path):
    with_snapshot, _ = read(RECORDED / METADATA_DIRECTORY)
    place = recorded(tmp_path) / METADATA_DIRECTORY
    for snapshot_file in place.glob("*-0000000001.checkpoint"):
        snapshot_file.unlink()
    assert read(place)[0] == with_snapshot


def test_records_below_the_newest_snapshot_may_be_gone(tmp_path):
    place = write_log(tmp_path, [partition(0)], [partition(1)], base=11)
    (place / f"{5:020}-{1:010}.checkpoint").write_bytes(snapshot(topic("old")))
    (place / f"{10:020}-{1:010}.checkpoint").write_bytes(snapshot(topic()))
    with pytest.raises(ProtocolError, match="the records from offset 10 to 11 are missing"):
        read(place)
    (place / f"{11:020}-{1:010}.checkpoint").write_bytes(snapshot(topic()))
    image, end_offset = read(place)
    assert end_offset == 13
    assert [list(each.partitions) for each in image.topics.values()] == [[0, 1]]


def test_a_snapshot_may_be_all_there_is(tmp_path):
    (tmp_path / f"{10:020}-{1:010}.checkpoint").write_bytes(snapshot(topic(), partition(0)))
    image, end_offset = read(tmp_path)
    assert names(image) == ["orders"] and end_offset == 10


def test_a_snapshot_that_ends_within_a_batch_continues_there(tmp_path):
    place = write_log(tmp_path, [topic("doomed"), topic(), partition(0)])
    (place / f"{1:020}-{1:010}.checkpoint").write_bytes(snapshot())
    image, end_offset = read(place)
    assert names(image) == ["orders"] and end_offset == 3


@pytest.mark.parametrize("size", [0, 30, 200])
def test_a_snapshot_without_an_end_is_refused(tmp_path, size):
    place = write_log(tmp_path, [topic()])
    (place / f"{0:020}-{1:010}.checkpoint").write_bytes(snapshot(topic(), partition(0))[:size])
    with pytest.raises(ProtocolError, match="metadata of Apache Kafka"):
        read(place)


def test_what_kafka_has_not_finished_or_thrown_away_is_not_read(tmp_path):
    place = write_log(tmp_path, [topic()])
    (place / f"{9:020}-{1:010}.checkpoint.part").write_bytes(b"half a snapshot")
    (place / f"{9:020}-{1:010}.checkpoint.deleted").write_bytes(b"an old snapshot")
    (place / f"{0:020}.log.deleted").write_bytes(b"an old segment")
    assert names(read(place)[0]) == ["orders"]


@pytest.mark.parametrize("tail", [b"\0" * 500, batch([topic("torn")], 1)[:-1], b"\xff" * 70])
def test_a_torn_end_was_never_committed(tmp_path, tail):
    place = write_log(tmp_path, [topic()])
    log = place / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + tail)
    image, end_offset = read(place)
    assert names(image) == ["orders"] and end_offset == 1


def test_damage_before_whole_batches_is_refused(tmp_path):
    place = write_log(tmp_path, [topic()], [setting("orders", "retention.ms", "-1")])
    log = place / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    with pytest.raises(ProtocolError, match="fails its checksum at byte 0"):
        read(place)


def test_damage_in_a_segment_that_is_not_the_last_is_refused(tmp_path):
    write_log(tmp_path, [topic()])
    place = write_log(tmp_path, [partition(0)], base=1)
    log = place / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + b"\0" * 10)
    with pytest.raises(ProtocolError, match=rf"{log.name}: .* at byte {log.stat().st_size - 10}"):
        read(place)


def test_a_hole_between_batches_is_refused(tmp_path):
    place = tmp_path / METADATA_DIRECTORY
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(batch([topic()]) + batch([partition(0)], 2))
    with pytest.raises(ProtocolError, match="offset 2 stands where 1 was expected"):
        read(place)


@pytest.mark.parametrize("first", [[topic()], []])
def test_a_hole_between_segments_is_refused(tmp_path, first):
    write_log(tmp_path, *[each for each in [first] if each])
    place = write_log(tmp_path, [setting("orders", "retention.ms", "-1")], base=2)
    with pytest.raises(ProtocolError, match=f"the records from offset {len(first)} to 2 are missing"):
        read(place)


def test_a_segment_that_begins_later_than_its_name_says_is_refused(tmp_path):
    place = tmp_path / METADATA_DIRECTORY
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(batch([topic()], 1))
    with pytest.raises(ProtocolError, match="offset 1 stands where 0 was expected"):
        read(place)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "has no whole frame"),
        (b"\x02\x02\x00", "a frame of version 2"),
        (b"\x01\x63\x00", "of kind 99, which is not known"),
        (b"\x01\x02\x07", "a TopicRecord has version 7"),
        (framed(topic()) + b"\0", "1 bytes after its end"),
        (framed(topic())[:-1] + b"\x01\x64\x01!", "a TopicRecord has fields that are not known"),
    ],
)
def test_what_only_a_newer_kafka_understands_is_refused(tmp_path, value, reason):
    with pytest.raises(ProtocolError, match=reason):
        read(write_log(tmp_path, [value]))


def test_the_voters_are_in_a_record_or_in_a_file(tmp_path):
    place = write_log(tmp_path, [topic()])
    assert read(place)[0].voters is None
    for nonsense in ("{not JSON", "[]", '{"currentVoters":[{"voterId":Infinity}]}'):
        (place / "quorum-state").write_text(nonsense)
        assert read(place)[0].voters is None
    (place / "quorum-state").write_text('{"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}')
    assert read(place)[0].voters == {1, 2}
    ranges = VotersRecord.Voter.KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    voter = VotersRecord.Voter(
        voter_id=3, voter_directory_id=topic().topic_id, endpoints=[], kraft_version_feature=ranges
    )
    value = encode_bytes(VotersRecord(version=0, voters=[voter]), 0)
    log = place / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + control(ControlType.KRAFT_VOTERS, value, 1))
    assert read(place)[0].voters == {3}


def test_the_position_is_that_of_the_log_whatever_snapshots_there_are(tmp_path):
    place = write_log(tmp_path, [topic()])
    size = (place / f"{0:020}.log").stat().st_size
    (place / f"{9:020}-{1:010}.checkpoint").write_bytes(snapshot())
    assert position(OsFiles(), str(place)) == Position(f"{0:020}.log", size)
    (place / f"{9:020}.log").write_bytes(b"")
    assert position(OsFiles(), str(place)) == Position(f"{9:020}.log", 0)
