"""`.snapshot`: the bytes by hand, and what is refused."""

import struct

import pytest

from ottla.core.errors import ProtocolError
from ottla.records.checksum import crc32c
from ottla.storage import snapshots
from ottla.storage.producers import Producer, WrittenBatch

ENTRY = bytes.fromhex(
    "0000000000000fa1"  # producer id 4001
    "0003"  # epoch 3
    "00000010"  # last sequence 16
    "00000000000003e8"  # last offset 1000
    "00000004"  # offset delta 4
    "0000018bcfe56800"  # timestamp 1700000000000
    "00000007"  # coordinator epoch 7
    "00000000000003e4"  # first offset of the open transaction 996
)


def producer() -> Producer:
    made = Producer(4001, 3, coordinator_epoch=7, txn_first_offset=996, last_timestamp=1_700_000_000_000)
    made.batches.append(WrittenBatch(11, 995, 4, 1_600_000_000_000))
    made.batches.append(WrittenBatch(16, 1000, 4, 1_700_000_000_000))
    return made


def bitwise_crc32c(data: bytes) -> int:
    """The checksum from its definition, so that it is not checked against itself."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_snapshot_is_a_version_a_checksum_a_count_and_46_bytes_per_producer():
    assert len(ENTRY) == 46
    body = b"\0\0\0\1" + ENTRY
    expected = b"\0\1" + bitwise_crc32c(body).to_bytes(4, "big") + body
    assert snapshots.encode([producer()]) == expected


def test_an_empty_snapshot_has_a_count_of_zero():
    assert snapshots.encode([]) == b"\0\1" + bitwise_crc32c(bytes(4)).to_bytes(4, "big") + bytes(4)
    assert snapshots.decode(snapshots.encode([]), "s") == []


def test_producers_are_written_in_the_order_of_their_ids_whoever_came_first():
    assert snapshots.encode([producer(), Producer(5, 2)]) == snapshots.encode([Producer(5, 2), producer()])


def test_only_the_last_batch_of_a_producer_survives_as_in_kafka():
    [read] = snapshots.decode(snapshots.encode([producer()]), "s")
    expected = producer()
    expected.batches.pop(0)
    assert read == expected


def test_a_producer_of_whom_only_a_marker_is_known_has_no_batch():
    made = Producer(5, 2, coordinator_epoch=1, last_timestamp=77)
    [read] = snapshots.decode(snapshots.encode([made]), "s")
    assert (read, len(read.batches)) == (made, 0)


def test_every_flip_of_a_byte_is_seen():
    good = snapshots.encode([producer(), Producer(5, 2)])
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x40
        with pytest.raises(ProtocolError, match=r"0\.snapshot"):
            snapshots.decode(bytes(bad), "0.snapshot")


def test_every_cut_and_every_extra_byte_is_seen():
    good = snapshots.encode([producer()])
    for cut in range(len(good)):
        with pytest.raises(ProtocolError):
            snapshots.decode(good[:cut], "s")
    with pytest.raises(ProtocolError):
        snapshots.decode(good + b"\0", "s")


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_that_is_not_the_number_of_entries_is_refused_even_under_a_good_checksum(count):
    body = struct.pack(">i", count) + ENTRY
    with pytest.raises(ProtocolError, match=f"says {count} producers"):
        snapshots.decode(struct.pack(">hI", 1, crc32c(body)) + body, "s")


def test_another_version_is_refused():
    body = bytes(4)
    with pytest.raises(ProtocolError, match="version 2"):
        snapshots.decode(struct.pack(">hI", 2, crc32c(body)) + body, "s")
