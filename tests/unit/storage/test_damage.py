"""What recovery makes of a log whose files were cut, flipped, zeroed, truncated, swapped or lost."""

import pytest

from ottla.records.batch import ATTRIBUTES_AT, HEADER, LENGTH_AT, MAGIC_AT, iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.storage.recovery import CorruptLog
from ottla.testing.disk import SimDisk

DIRECTORY = "/data/orders-0"
SEGMENT = f"{DIRECTORY}/00000000000000000000.log"
INDEXES = [SEGMENT.replace(".log", suffix) for suffix in (".index", ".timeindex")]
CONFIG = TopicConfig({"index.interval.bytes": "0", "segment.bytes": "100000"})
BATCHES = 8


class Case:
    """A log of eight batches of three records, flushed or not, and the bytes of its only segment."""

    def __init__(self, leader_epochs=(0,) * BATCHES):
        self.disk = SimDisk()
        self.disk.make_directory("/data")
        log = Log.open(self.disk, DIRECTORY, CONFIG)
        for number, epoch in enumerate(leader_epochs):
            values = [b"value-%d-%d" % (number, i) for i in range(3)]
            log.append(build([Record(i, 1000 + number, b"k", v) for i, v in enumerate(values)]), epoch, 2000)
        log.close()
        self.content = self.disk.read(SEGMENT)
        self.starts = [position for position, _ in iter_batches(self.content)]
        self.values = read_all(log)

    def write(self, content, path=SEGMENT):
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.write_at(0, content)

    def open(self, recovery_point=0, **options):
        return Log.open(self.disk, DIRECTORY, CONFIG, recovery_point=recovery_point, **options)

    def whole_batches(self, size):
        """How many batches end at or before byte `size`."""
        return sum(1 for start in [*self.starts[1:], len(self.content)] if start <= size)


def read_all(log):
    values, offset = [], log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20).read()
        assert data
        for position, header in iter_batches(data):
            values += [r.value for r in records_of(data, position)]
            offset = header.next_offset
    return values


def check_ends_at(log, case, batches):
    assert log.end_offset == 3 * batches
    assert read_all(log) == case.values[: 3 * batches]
    for offset in range(log.end_offset):
        assert log.read(offset, 1).offset == offset // 3 * 3
    # It can be appended to, and what is appended lies where the damage was.
    appended = log.append(build([Record(0, 3000, None, b"after")]), 9, 3000)
    assert appended.first_offset == 3 * batches
    assert read_all(log)[-1] == b"after"


@pytest.mark.parametrize("recovery_point", [0, 3 * BATCHES], ids=["unflushed", "flushed"])
@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean"])
def test_a_segment_cut_at_any_byte_of_its_last_three_batches_ends_at_the_last_whole_one(
    recovery_point, clean
):
    case = Case()
    for size in range(case.starts[-3], len(case.content)):
        case.write(case.content[:size])
        log = case.open(recovery_point, clean=clean)
        assert log.end_offset == 3 * case.whole_batches(size), f"cut at byte {size}"
        assert read_all(log) == case.values[: log.end_offset]
        if recovery_point and size not in case.starts:
            assert log.recovery.damage, "what was once on the disk is never cut in silence"
    check_ends_at(log, case, BATCHES - 1)


@pytest.mark.parametrize("recovery_point", [0, 3 * BATCHES], ids=["unflushed", "flushed"])
def test_zeros_behind_any_byte_of_the_last_three_batches_are_cut_with_the_batch_they_fall_in(recovery_point):
    case = Case()
    for size in range(case.starts[-3], len(case.content)):
        zeros = len(case.content) - size
        case.write(case.content[:size] + bytes(zeros + 100))
        log = case.open(recovery_point)
        whole = case.whole_batches(size)
        if whole < BATCHES and not any(case.content[size : [*case.starts, len(case.content)][whole + 1]]):
            whole += 1  # the zeros stand for zeros
        assert log.end_offset == 3 * whole, f"zeros from byte {size}"
        assert read_all(log) == case.values[: 3 * whole]


@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean"])
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda case, path: case.disk.remove(path), id="deleted"),
        pytest.param(lambda case, path: case.write(b"", path), id="emptied"),
        pytest.param(lambda case, path: case.write(case.disk.read(path)[:7], path), id="cut within an entry"),
        pytest.param(
            lambda case, path: case.write(case.disk.read(path)[:24], path), id="cut between entries"
        ),
        pytest.param(lambda case, path: case.write(bytes(case.disk.size(path)), path), id="zeroed"),
        pytest.param(lambda case, path: case.write(bytes(10 << 10), path), id="zeroed and longer"),
        pytest.param(lambda case, path: case.write(case.disk.read(path)[::-1], path), id="reversed"),
        pytest.param(lambda case, path: case.write(b"\xff" * case.disk.size(path), path), id="ones"),
    ],
)
@pytest.mark.parametrize("which", [INDEXES[:1], INDEXES[1:], INDEXES], ids=["index", "timeindex", "both"])
def test_a_spoilt_index_changes_nothing_but_the_time_it_takes(which, spoil, clean):
    case = Case()
    for path in which:
        spoil(case, path)
    log = case.open(3 * BATCHES, clean=clean)
    check_finds_by_time(log)
    check_ends_at(log, case, BATCHES)


@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean"])
def test_indexes_in_each_others_place_are_rebuilt(clean):
    case = Case()
    index, time_index = (case.disk.read(path) for path in INDEXES)
    case.write(time_index, INDEXES[0])
    case.write(index, INDEXES[1])
    log = case.open(3 * BATCHES, clean=clean)
    check_finds_by_time(log)
    check_ends_at(log, case, BATCHES)


@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean"])
def test_indexes_of_another_segment_are_rebuilt(clean):
    case, other = Case(), SimDisk()
    other.make_directory("/data")
    log = Log.open(other, DIRECTORY, CONFIG)
    for number in range(30):
        log.append(build([Record(0, 5000 - number, None, b"x" * (number % 7) * 11)]), 0, 6000)
    log.close()
    for path in INDEXES:
        case.write(other.read(path), path)
    log = case.open(3 * BATCHES, clean=clean)
    check_finds_by_time(log)
    check_ends_at(log, case, BATCHES)


def check_finds_by_time(log):
    for number in range(BATCHES):
        batch = log.find_by_time(1000 + number)
        assert batch is not None and batch.base_offset == 3 * number
    assert log.find_by_time(1000 + BATCHES) is None


EPOCHS = (0, 0, 1, 1, 2, 2, 5, 5)
UNSEEN_IN_LAST_BATCH = "a base offset that grew looks like a gap"


@pytest.mark.parametrize("number", range(BATCHES))
def test_a_flip_of_any_bit_of_a_batch_is_caught(number):
    """Under the checksum, in length and in magic always; in base offset and leader epoch where order or the epoch
    checkpoint contradicts them. Only a base offset that grew goes unseen, and only in the last batch of the log."""
    case = Case(EPOCHS)
    start, end = [*case.starts, len(case.content)][number : number + 2]
    for position in range(start, end):
        for bit in (0x01, 0x80):
            content = bytearray(case.content)
            content[position] ^= bit
            case.write(bytes(content))
            log = case.open()
            grew = position - start < LENGTH_AT and content[position] > case.content[position]
            if grew and number == BATCHES - 1 and log.end_offset > 3 * BATCHES:
                continue
            assert log.end_offset == 3 * number, f"bit {bit:#x} of byte {position - start} of batch {number}"
            assert read_all(log) == case.values[: 3 * number]
            restore_epochs(case, log)


def restore_epochs(case, log):
    """The next flip starts from a whole log again, and so from its whole checkpoint."""
    log.epochs.entries = []
    for number, epoch in enumerate(EPOCHS):
        log.epochs.append(epoch, 3 * number)
    log.epochs.save()


@pytest.mark.parametrize("at", [ATTRIBUTES_AT, 60, 70], ids=["attributes", "count", "records"])
def test_a_batch_below_the_recovery_point_that_fails_its_checksum_is_reported_and_kept(at):
    case = Case()
    content = bytearray(case.content)
    content[case.starts[2] + at] ^= 0x10
    case.write(bytes(content))
    log = case.open(recovery_point=3 * BATCHES)
    assert [(d.path, d.position) for d in log.recovery.damage] == [(SEGMENT, case.starts[2])]
    assert case.disk.read(SEGMENT) == content
    assert log.end_offset == 3 * BATCHES


@pytest.mark.parametrize("at", [LENGTH_AT, LENGTH_AT + 2, MAGIC_AT], ids=["length", "length", "magic"])
def test_a_log_whose_batches_cannot_be_told_apart_below_the_recovery_point_refuses_to_open(at):
    case = Case()
    content = bytearray(case.content)
    content[case.starts[2] + at] ^= 0x40
    case.write(bytes(content))
    with pytest.raises(CorruptLog, match=f"at byte {case.starts[2]}"):
        case.open(recovery_point=3 * BATCHES)
    assert case.disk.read(SEGMENT) == content


def test_one_search_for_a_whole_batch_serves_all_the_damage_before_it():
    case = Case()
    content = bytearray(case.content)
    for start in case.starts[:-1]:
        content[start + 65] ^= 0x10
    case.write(bytes(content))
    before = case.disk.operations
    log = case.open(recovery_point=3 * BATCHES)
    assert [d.position for d in log.recovery.damage] == case.starts[:-1]
    assert log.end_offset == 3 * BATCHES
    assert case.disk.operations - before < 3 * BATCHES, "it read what follows again for every damaged batch"


def test_damage_that_cannot_be_searched_in_time_below_the_recovery_point_is_not_cut():
    case = Case()
    false = [HEADER.pack(9, 61 * (100 - i) - 12, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) for i in range(100)]
    content = case.content[: case.starts[2]] + bytes(20) + b"".join(false)
    case.write(content)
    with pytest.raises(CorruptLog, match="too many false batches"):
        case.open(recovery_point=3 * BATCHES)
    assert case.disk.read(SEGMENT) == content


def test_damage_below_the_recovery_point_does_not_hide_a_torn_tail_above_it():
    case = Case()
    content = bytearray(case.content)
    content[case.starts[1] + 65] ^= 0x10
    case.write(bytes(content[: case.starts[-1] + 30]))
    log = case.open(recovery_point=9)
    assert [d.position for d in log.recovery.damage] == [case.starts[1]]
    assert log.end_offset == 3 * (BATCHES - 1)
    assert log.recovery.cut_bytes == 30


def test_without_an_epoch_checkpoint_the_batches_say_who_led_when():
    case = Case(EPOCHS)
    case.disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    log = case.open()
    assert [tuple(e) for e in log.epochs.entries] == [(0, 0), (1, 6), (2, 12), (5, 18)]
    assert log.end_offset == 3 * BATCHES


def test_a_lying_epoch_is_not_believed_when_the_checkpoint_is_rebuilt():
    case = Case(EPOCHS)
    content = bytearray(case.content)
    content[case.starts[3] + 12] ^= 0x40  # the highest byte of the leader epoch
    case.write(bytes(content))
    case.disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    log = case.open(clean=True)
    assert [tuple(e) for e in log.epochs.entries] == [(0, 0), (1, 6), (2, 12), (5, 18)]


@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean"])
def test_a_file_cut_between_two_batches_below_the_recovery_point_is_reported(clean):
    case = Case()
    case.write(case.content[: case.starts[5]])
    log = case.open(recovery_point=3 * BATCHES, clean=clean)
    assert log.end_offset == 15
    assert [(d.position, "once reached 24" in d.reason) for d in log.recovery.damage] == [
        (case.starts[5], True)
    ]


def test_whole_batches_far_behind_damage_are_kept():
    """Further than one window of the search, with the damage in a batch that is itself larger than that."""
    disk = SimDisk()
    config = TopicConfig({"max.message.bytes": "8 MiB"})
    log = Log.open(disk, DIRECTORY, config)
    for size in (10, 5 << 20, 10):
        log.append(build([Record(0, 1000, None, b"x" * size)]), 0, 2000)
    log.close()
    content = bytearray(disk.read(SEGMENT))
    content[200] ^= 1
    disk.open(SEGMENT).write_at(0, content)
    log = Log.open(disk, DIRECTORY, config, recovery_point=3)
    assert len(log.recovery.damage) == 1
    assert (log.end_offset, disk.size(SEGMENT)) == (3, len(content))
