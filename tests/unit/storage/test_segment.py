"""One segment: look-ups that survive any index, appends that are whole or not at all."""

import struct

import pytest

from ottla.records.batch import read_header
from ottla.storage.files import write_whole
from ottla.storage.segment import AppendRefused, Newest, Segment, file_name, offset_of
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, config

TIMES = [5, 9, 2, 9, 30, 1, 31, 31, 40, 7]  # of ten batches, in disorder as producers deliver them


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def fill(segment: Segment, times=TIMES, base: int = 100) -> list[bytes]:
    """One batch of two records per time; offsets 100-101, 102-103, ..."""
    batches = [batch(b"x", b"y", base_offset=base + 2 * n, at_ms=NOW + t) for n, t in enumerate(times)]
    for data in batches:
        segment.append(data, [read_header(data)])
    return batches


def segment(disk: SimDisk, **settings) -> Segment:
    return Segment.create(disk, "d", 100, config(segment_bytes=1 << 20, segment_index_bytes=4096, **settings))


def reopened(disk: SimDisk, **settings) -> Segment:
    return Segment.open(disk, "d", 100, config(segment_bytes=1 << 20, segment_index_bytes=4096, **settings))


def check_look_ups(made: Segment, batches: list[bytes], times=TIMES) -> None:
    starts = [sum(map(len, batches[:n])) for n in range(len(batches))]
    for offset in range(100, 100 + 2 * len(batches)):
        assert made.find(offset).position == starts[(offset - 100) // 2]
    assert made.find(100 + 2 * len(batches)) is None
    for timestamp in range(42):
        expected = next((n for n, t in enumerate(times) if t >= timestamp), None)
        found = made.find_by_time(NOW + timestamp)
        assert (found and found.position) == (None if expected is None else starts[expected])
    assert made.next_offset() == 100 + 2 * len(batches)
    assert made.newest == Newest(NOW + max(times), 101 + 2 * times.index(max(times)))
    assert made.first_timestamp == NOW + times[0]


def test_file_names_are_twenty_digits_and_read_back():
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log", ".log") == 42
    for name in (
        "42.log",
        "00000000000000000042.index",
        "0000000000000000004x.log",
        ".log",
        "",
        "٠" * 20 + ".log",
    ):
        assert offset_of(name, ".log") is None


@pytest.mark.parametrize("interval", [0, 100, 200, 4096])
def test_every_offset_and_time_is_found_now_and_after_opening_again(disk, interval):
    made = segment(disk, index_interval_bytes=interval)
    batches = fill(made)
    check_look_ups(made, batches)
    made.seal()
    made.close()
    check_look_ups(reopened(disk, index_interval_bytes=interval), batches)


def damaged(data: bytes) -> dict[str, bytes | None]:
    return {
        "missing": None,
        "empty": b"",
        "odd": data[:-1],
        "cut": data[: len(data) // 24 * 12],
        "zeros": bytes(len(data)),
        "padded": data + bytes(240),
        "ones": b"\xff" * len(data),
        "reversed": data[::-1],
        "first entry astray": b"\0\0\0\1\0\0\0\1" + data[8:],
        "last entry astray": data[:-4] + b"\0\0\0\7",
    }


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("kind", list(damaged(b"x" * 24)))
def test_no_state_of_an_index_makes_a_look_up_wrong(disk, suffix, kind):
    made = segment(disk)
    batches = fill(made)
    made.seal()
    made.close()
    path = f"d/{file_name(100, suffix)}"
    content = damaged(disk.read(path))[kind]
    if content is None:
        disk.remove(path)
    else:
        write_whole(disk, path, content)
    check_look_ups(reopened(disk), batches)


def test_an_index_of_another_segment_is_not_believed(disk):
    made = segment(disk)
    batches = fill(made)
    made.close()
    entries = [(n, 150 * n + 1) for n in range(1, 9)]
    write_whole(disk, f"d/{file_name(100, '.index')}", b"".join(struct.pack(">II", *e) for e in entries))
    check_look_ups(reopened(disk), batches)


def test_an_index_that_could_not_be_rebuilt_is_rebuilt_by_the_next_look_up(disk):
    made = segment(disk)
    batches = fill(made)
    made.close()
    disk.remove(f"d/{file_name(100, '.timeindex')}")
    again = reopened(disk)
    disk.fail_next("create")
    with pytest.raises(OSError):
        again.find_by_time(NOW)
    check_look_ups(again, batches)


@pytest.mark.parametrize("offset", range(99, 122))
def test_truncation_drops_the_batch_that_reaches_the_offset_and_all_behind(disk, offset):
    made = segment(disk)
    batches = fill(made)
    made.truncate_to(offset)
    kept = min(10, max(0, (offset - 100) // 2))
    assert made.size == sum(map(len, batches[:kept]))
    if kept:
        check_look_ups(made, batches[:kept], TIMES[:kept])
    more = batch(b"again", base_offset=100 + 2 * kept, at_ms=NOW + 99)
    made.append(more, [read_header(more)])
    assert made.find(100 + 2 * kept).position == sum(map(len, batches[:kept]))
    assert made.newest == Newest(NOW + 99, 100 + 2 * kept)


def test_a_segment_that_was_emptied_forgets_when_it_began(disk):
    made = segment(disk)
    fill(made)
    assert made.first_timestamp == NOW + 5
    made.truncate_to(100)
    assert made.first_timestamp == -1
    fill(made, [77])
    assert made.first_timestamp == NOW + 77


def test_truncation_survives_a_change_of_the_index_interval(disk):
    settings = config(segment_bytes=1 << 20, index_interval_bytes=4096)
    made = Segment.create(disk, "d", 100, settings)
    batches = fill(made)
    settings.update({"index.interval.bytes": "0"})
    made.truncate_to(110)
    check_look_ups(made, batches[:5], TIMES[:5])


def test_a_refused_write_leaves_nothing_behind(disk):
    made = segment(disk)
    batches = fill(made)
    disk.fail_next("write")
    data = batch(b"refused", base_offset=120)
    with pytest.raises(AppendRefused):
        made.append(data, [read_header(data)])
    assert made.size == made.file.size() == sum(map(len, batches))
    check_look_ups(made, batches)


def test_if_half_a_batch_cannot_be_cut_off_the_error_is_not_a_refusal(disk):
    made = segment(disk)
    disk.fail_next("write")
    disk.fail_next("truncate")
    data = batch(b"torn", base_offset=100)
    with pytest.raises(OSError):
        made.append(data, [read_header(data)])


def test_there_is_room_until_size_offsets_or_an_index_run_out(disk):
    made = Segment.create(disk, "d", 100, config(segment_bytes=300, segment_index_bytes=48))
    assert made.has_room_for(10_000, 100), "an empty segment takes any batch"
    assert not made.has_room_for(10, 100 + 2**31), "but no offset that an index cannot hold"
    fill(made, [1])
    assert made.has_room_for(300 - made.size, 102)
    assert not made.has_room_for(301 - made.size, 102)
    assert made.has_room_for(10, 100 + 2**31 - 1)
    assert not made.has_room_for(10, 100 + 2**31)
    fill(made, [2, 3, 4, 5], base=102)
    assert made.times.is_full
    assert not made.has_room_for(0, 110)


def test_doomed_files_keep_their_bytes_under_another_name_until_removed(disk):
    made = segment(disk)
    batches = fill(made)
    made.flush_indexes()
    paths = made.doom()
    assert [p for p in paths if disk.exists(p)] == paths[:3]
    assert all(name.endswith(".deleted") for name in disk.names("d"))
    check_look_ups(made, batches)
    made.remove()
    assert disk.names("d") == []


def test_a_segment_whose_index_files_are_missing_can_be_doomed(disk):
    made = segment(disk)
    fill(made)
    made.close()
    disk.remove(f"d/{file_name(100, '.index')}")
    Segment.open(disk, "d", 100, config()).doom()
    assert disk.names("d") == [file_name(100, ".log.deleted"), file_name(100, ".timeindex.deleted")]


def test_the_log_is_the_first_of_the_doomed_files(disk):
    """A log that came back without its transaction index would claim that nothing was aborted."""
    made = segment(disk)
    disk.fail_next("rename", after=1)
    with pytest.raises(OSError):
        made.doom()
    assert file_name(100, ".log.deleted") in disk.names("d")


def test_removal_does_not_depend_on_room_for_index_entries(disk):
    made = segment(disk)
    fill(made)
    disk.capacity = disk.used
    made.remove()
    assert disk.names("d") == []


def test_a_sync_that_comes_after_the_removal_is_no_error(disk):
    made = segment(disk)
    fill(made)
    made.remove()
    made.sync()
    assert disk.names("d") == [], "nor does it bring the files back"


def test_a_sync_of_a_file_that_somebody_else_removed_is_an_error(disk):
    segment(disk).close()
    made = reopened(disk)
    disk.remove(made.path)
    with pytest.raises(FileNotFoundError):
        made.sync()
