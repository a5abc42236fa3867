"""Snapshots and checkpoints."""

import uuid

import pytest

from ottla.core.ids import format_id
from ottla.storage import snapshots
from ottla.storage.producers import Producer, WrittenBatch
from tests.unit.cli.dump.helpers import NOW, dump, partition, write

SNAPSHOT = f"{7:020d}.snapshot"
TOPIC_ID = format_id(uuid.UUID(int=2**100))


def snapshot() -> bytes:
    first = Producer(9, 1, coordinator_epoch=7, last_timestamp=NOW)
    first.batches.append(WrittenBatch(3, 6, 2, NOW))
    return snapshots.encode([first, Producer(10, 0, txn_first_offset=5)])


def test_a_snapshot_shows_its_header_and_its_producers(tmp_path):
    path = write(tmp_path, SNAPSHOT, snapshot())
    ran = dump("--json", path)
    header, first, second = ran.objects
    assert (header["type"], header["version"], header["producers"], header["crc"]) == (
        "snapshot",
        1,
        2,
        "valid",
    )
    assert first == {
        "type": "producer",
        "file": str(path),
        "producer_id": 9,
        "producer_epoch": 1,
        "last_sequence": 3,
        "last_offset": 6,
        "offset_delta": 2,
        "timestamp": NOW,
        "coordinator_epoch": 7,
        "txn_first_offset": -1,
    }
    assert (second["producer_id"], second["txn_first_offset"]) == (10, 5)
    assert ran.code == 0
    lines = dump(path).out.splitlines()
    assert lines[1].split("\t") == ["version", "producers", "checksum", "crc"]
    assert lines[3].startswith("producer_id\t")
    assert len(lines) == 6


def test_every_flip_in_a_snapshot_is_noticed(tmp_path):
    data = snapshot()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1
        assert dump("--json", write(tmp_path, SNAPSHOT, bytes(flipped))).code == 1


def test_a_snapshot_that_fails_its_checksum_is_shown_all_the_same(tmp_path):
    data = bytearray(snapshot())
    data[-1] ^= 1
    ran = dump("--json", write(tmp_path, SNAPSHOT, bytes(data)))
    assert [each["type"] for each in ran.objects] == ["snapshot", "problem", "producer", "producer"]
    assert ran.objects[0]["crc"] == "invalid"


@pytest.mark.parametrize(("cut", "kinds"), [(5, []), (10, ["snapshot"]), (60, ["snapshot", "producer"])])
def test_a_cut_snapshot_shows_what_is_whole_and_where_it_stops(tmp_path, cut, kinds):
    ran = dump("--json", write(tmp_path, SNAPSHOT, snapshot()[:cut]))
    assert [each["type"] for each in ran.objects if each["type"] != "problem"] == kinds
    last = ran.objects[-1]
    assert (last["type"], last["stops"]) == ("problem", True)
    assert last["position"] == {5: 0, 10: 10, 60: 56}[cut]
    assert ran.code == 1


def test_a_snapshot_of_another_version_is_not_guessed_at(tmp_path):
    ran = dump(write(tmp_path, SNAPSHOT, b"\0\2" + snapshot()[2:]))
    assert "a snapshot of version 2, which is not known" in ran.err
    assert ran.code == 1


def test_the_epochs_of_a_log_are_shown(tmp_path):
    ran = dump(partition(tmp_path) / "leader-epoch-checkpoint")
    assert ran.rows() == [{"epoch": "5", "start_offset": "0"}, {"epoch": "6", "start_offset": "4"}]


def test_epochs_that_do_not_rise_are_reported(tmp_path):
    ran = dump(write(tmp_path, "leader-epoch-checkpoint", b"0\n2\n4 10\n3 20\n"))
    assert "epoch 3 from offset 20 on does not follow the one before it" in ran.err
    assert (ran.code, len(ran.rows())) == (1, 2)


@pytest.mark.parametrize("text", [b"", b"0\n2\n1 1\n", b"\xff", b"7\n0\n"])
def test_a_checkpoint_that_is_none_is_reported(tmp_path, text):
    path = write(tmp_path, "leader-epoch-checkpoint", text)
    ran = dump(path)
    assert ran.code == 1
    assert ran.err.startswith(f"ottla: {path}")


def test_the_offsets_of_a_log_directory_are_shown(tmp_path):
    path = write(tmp_path, "recovery-point-offset-checkpoint", b"0\n2\norders 0 17\norders x y\n")
    ran = dump(path)
    assert ran.rows() == [{"topic": "orders", "partition": "0", "offset": "17"}]
    assert "a line that makes no sense: 'orders x y'" in ran.err
    assert ran.code == 1


def test_the_topic_id_of_a_partition_is_shown(tmp_path):
    path = write(tmp_path, "partition.metadata", f"version: 0\ntopic_id: {TOPIC_ID}".encode())
    assert dump(path).rows() == [{"version": "0", "topic_id": TOPIC_ID}]
    ran = dump(write(tmp_path, "partition.metadata", b"version: 9"))
    assert ran.code == 1
    assert str(path) in ran.err
