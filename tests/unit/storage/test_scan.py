"""Walking from batch to batch: where the chain leads, and where it breaks."""

import struct
import zlib

import pytest

from ottla.storage import scan
from ottla.storage.scan import BrokenChain, Scanner, find_intact, is_intact, walk
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, marker


def file_of(data: bytes):
    disk = SimDisk()
    disk.make_directory("d")
    file = disk.open("d/0.log", create=True)
    file.write_at(0, data)
    return file


def legacy(offset: int, magic: int, value: bytes, timestamp: int = 5) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


THREE = [
    batch(b"a", base_offset=0),
    batch(b"bbbb" * 100, b"c", base_offset=1),
    batch(b"d", base_offset=9, at_ms=NOW + 1, producer=(7, 2, 5), is_transactional=True, leader_epoch=3),
]


@pytest.mark.parametrize("chunk_bytes", [61, 64, 100, 512, 8192])
def test_headers_are_found_whatever_the_size_of_a_read(chunk_bytes):
    data = b"".join(THREE)
    found = list(walk(file_of(data), 0, len(data), chunk_bytes))
    assert [(b.base_offset, b.last_offset) for b in found] == [(0, 0), (1, 2), (9, 9)]
    assert [b.position for b in found] == [0, len(THREE[0]), len(THREE[0]) + len(THREE[1])]
    assert found[-1].end == len(data)
    last = found[-1]
    assert (last.producer_id, last.producer_epoch, last.base_sequence, last.leader_epoch) == (7, 2, 5, 3)
    assert (last.max_timestamp, last.records, last.next_offset) == (NOW + 1, 1, 10)
    assert (last.is_transactional, last.is_control) == (True, False)


def test_a_marker_is_a_control_batch():
    data = marker(7, commit=True)
    assert next(walk(file_of(data), 0, len(data))).is_control


def scan_all(file, size):
    """What a Scanner sees, with copies of its bytes: a view lasts only until the next call."""
    scanner = Scanner(file, size)
    while (found := scanner.next()) is not None:
        yield found[0], bytes(found[1])


@pytest.mark.parametrize("scan_bytes", [100, 530, 600, 1 << 20])
def test_a_scanner_gives_every_batch_with_its_bytes(monkeypatch, scan_bytes):
    monkeypatch.setattr(scan, "SCAN_BYTES", scan_bytes)
    expected = [batch(bytes([n]) * (n * 37 % 700), base_offset=n) for n in range(40)]
    data = b"".join(expected)
    found = list(scan_all(file_of(data), len(data)))
    assert [view for _, view in found] == expected
    assert [at.base_offset for at, _ in found] == list(range(40))
    assert all(is_intact(at, view) for at, view in found)


@pytest.mark.parametrize("scan_bytes", [61, 100, 530, 600, 1 << 20])
def test_skimming_notes_what_a_walk_would_find(monkeypatch, scan_bytes):
    monkeypatch.setattr(scan, "SCAN_BYTES", scan_bytes)
    usual = [batch(bytes([n]) * (n * 37 % 700), base_offset=n, leader_epoch=3) for n in range(40)]
    data = b"".join(usual)
    noted = []
    scanner = Scanner(file_of(data), len(data))
    offset = 0
    while (found := scanner.peek()) is not None:
        after = scanner.skim(offset, 1000, 3, lambda *heard: noted.append(heard))
        if after == offset:  # a batch that does not fit into the buffer is the caller's to read
            scanner.next()
            noted.append((found.last_offset, found.position, found.size, found.max_timestamp))
            after = found.next_offset
        offset = after
    walked = [(b.last_offset, b.position, b.size, b.max_timestamp) for b in walk(file_of(data), 0, len(data))]
    assert noted == walked
    assert offset == 40


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(batch(b"odd", base_offset=3, leader_epoch=3), id="behind a gap"),
        pytest.param(batch(b"odd", base_offset=1, leader_epoch=3), id="an offset again"),
        pytest.param(batch(b"odd", base_offset=2, leader_epoch=4), id="another epoch"),
        pytest.param(batch(b"odd", base_offset=2, leader_epoch=3, producer=(5, 0, 0)), id="of a producer"),
    ],
)
def test_skimming_stops_before_a_batch_that_is_not_usual(odd):
    usual = [batch(b"u", base_offset=n, leader_epoch=3) for n in range(2)]
    data = b"".join(usual) + odd
    scanner = Scanner(file_of(data), len(data))
    assert scanner.skim(0, 1000, 3, lambda *heard: None) == 2
    assert scanner.position == len(b"".join(usual))


def test_skimming_stops_at_its_limit_at_damage_and_at_a_torn_end():
    data = b"".join(batch(b"u", base_offset=n, leader_epoch=3) for n in range(4))
    size = len(data) // 4

    def skimmed(content, limit=1000):
        scanner = Scanner(file_of(content), len(content))
        return scanner.skim(0, limit, 3, lambda *heard: None), scanner.position

    assert skimmed(data) == (4, 4 * size)
    assert skimmed(data, limit=3) == (3, 3 * size)
    assert skimmed(data[:-1]) == (3, 3 * size)
    assert skimmed(data + bytes(500)) == (4, 4 * size)
    for at in range(21, size):
        damaged = bytearray(data)
        damaged[2 * size + at] ^= 0x10
        assert skimmed(bytes(damaged)) == (2, 2 * size)


def test_walking_can_start_at_any_batch_and_stop_before_the_end():
    data = b"".join(THREE)
    found = list(walk(file_of(data), len(THREE[0]), len(data) - len(THREE[2])))
    assert [b.base_offset for b in found] == [1]


def test_every_cut_within_a_batch_breaks_the_chain_at_its_start():
    data = THREE[0] + THREE[2]
    for cut in range(1, len(THREE[2])):
        end = len(THREE[0]) + cut
        for walker in (walk(file_of(data), 0, end), scan_all(file_of(data), end)):
            found = []
            with pytest.raises(BrokenChain) as broken:
                found.extend(walker)
            assert (broken.value.position, len(found)) == (len(THREE[0]), 1)


@pytest.mark.parametrize(
    "tail",
    [
        bytes(500),
        struct.pack(">qiib", -1, 100, 0, 2) + bytes(200),
        struct.pack(">qiib", 1, -1, 0, 2) + bytes(200),
        struct.pack(">qiib", 1, 48, 0, 2) + bytes(200),
        struct.pack(">qiib", 1, 100, 0, 3) + bytes(200),
        struct.pack(">qiib", 1, 100, 0, -1) + bytes(200),
        struct.pack(">qiib", 1, 13, 0, 0) + bytes(200),
        struct.pack(">qiib", 1, 21, 0, 1) + bytes(200),
        struct.pack(">qiibIhi", 1, 100, 0, 2, 0, 0, -1) + bytes(200),
    ],
)
def test_what_no_batch_starts_with_breaks_the_chain(tail):
    data = THREE[0] + tail
    with pytest.raises(BrokenChain, match="no batch starts here") as broken:
        list(walk(file_of(data), 0, len(data)))
    assert broken.value.position == len(THREE[0])


def test_old_messages_are_walked_and_checked_too():
    data = legacy(3, 0, b"old") + legacy(4, 1, b"newer", timestamp=77) + legacy(5, 0, b"")
    found = list(scan_all(file_of(data), len(data)))
    assert [(b.base_offset, b.last_offset, b.magic, b.max_timestamp) for b, _ in found] == [
        (3, 3, 0, -1), (4, 4, 1, 77), (5, 5, 0, -1),
    ]  # fmt: skip
    for at, view in found:
        assert is_intact(at, view)
        assert not is_intact(at, bytes(view[:-1]) + bytes([view[-1] ^ 1]))


def test_a_flip_under_the_checksum_is_seen():
    data = THREE[1]
    [(found, _)] = scan_all(file_of(data), len(data))
    for at in range(21, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        assert not is_intact(found, damaged)


def test_an_intact_batch_behind_damage_is_found_unless_its_offset_lies_before():
    data = b"\x02garbage\x02" * 9 + THREE[2]
    file = file_of(data)
    found = find_intact(file, 0, len(data), 5)
    assert found is not None
    assert (found.position, found.base_offset) == (len(data) - len(THREE[2]), 9)
    assert find_intact(file, 0, len(data), 10) is None
    assert find_intact(file, 0, len(data) - 1, 5) is None


def test_a_file_full_of_false_batches_is_not_searched_for_ever():
    """Each header claims all that follows it: checking every claim would take the square of the file's size."""
    false = [scan.HEADER.pack(i, 61 * (400 - i) - 12, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) for i in range(400)]
    data = b"".join(false) + THREE[2]
    with pytest.raises(BrokenChain, match="too many false batches"):
        find_intact(file_of(data), 0, len(data), 0)
    few = b"".join(false[-6:]) + THREE[2]
    found = find_intact(file_of(few), 0, len(few), 0)
    assert found is not None
    assert found.position == len(few) - len(THREE[2])
