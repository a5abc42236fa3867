"""Leader epochs: the answers of KIP-101 and KIP-279, and the file as Kafka writes it."""

import pytest

from ottla.core.errors import ProtocolError
from ottla.storage.epochs import EpochEnd, EpochStart, LeaderEpochs
from ottla.storage.files import write_whole
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import crash

PATH = "d/leader-epoch-checkpoint"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def epochs(disk: SimDisk, *entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs(disk, "d")
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def reloaded(disk: SimDisk) -> list[EpochStart]:
    made = LeaderEpochs(disk, "d")
    made.load()
    return made.entries


def test_the_file_is_a_version_a_count_and_a_line_per_epoch(disk):
    epochs(disk, (0, 0), (3, 120))
    assert disk.read(PATH) == b"0\n2\n0 0\n3 120\n"
    assert reloaded(disk) == [(0, 0), (3, 120)]


def test_an_assigned_epoch_lasts_at_once(disk):
    epochs(disk, (0, 0), (1, 5))
    crash(disk)
    assert reloaded(disk) == [(0, 0), (1, 5)]


def test_an_epoch_that_is_not_newer_changes_nothing(disk):
    made = epochs(disk, (5, 10))
    before = disk.operations
    for epoch in (5, 4, -1):
        made.assign(epoch, 20)
    assert (made.entries, disk.operations) == ([(5, 10)], before)


def test_an_epoch_without_records_gives_way_to_the_next_at_the_same_offset(disk):
    assert epochs(disk, (1, 0), (2, 10), (4, 10)).entries == [(1, 0), (4, 10)]


def test_an_epoch_that_could_not_be_written_is_not_believed(disk):
    made = epochs(disk, (1, 0))
    disk.fail_next("sync")
    with pytest.raises(OSError):
        made.assign(2, 10)
    assert made.entries == reloaded(disk) == [(1, 0)]
    made.assign(2, 11)
    assert reloaded(disk) == [(1, 0), (2, 11)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (8, None),  # newer than all
        (7, EpochEnd(7, 100)),  # the latest ends where the log does
        (6, EpochEnd(5, 50)),  # unknown, between: the largest before it
        (5, EpochEnd(5, 50)),
        (4, EpochEnd(2, 20)),
        (2, EpochEnd(2, 20)),
        (1, EpochEnd(1, 0)),  # older than all: it ended where the first known one began
        (0, EpochEnd(0, 0)),
        (-1, None),  # no epoch at all
    ],
)
def test_where_an_epoch_ends(disk, asked, answer):
    assert epochs(disk, (2, 0), (5, 20), (7, 50)).end_of(asked, 100) == answer


def test_a_log_without_epochs_knows_no_end(disk):
    assert epochs(disk).end_of(0, 100) is None
    assert epochs(disk).latest is None


def test_the_epoch_at_an_offset_is_the_reign_that_holds_it(disk):
    made = epochs(disk, (2, 10), (5, 20))
    assert [made.epoch_at(o) for o in (9, 10, 19, 20, 10**12)] == [None, 2, 2, 5, 5]


@pytest.mark.parametrize(
    ("end", "kept"),
    [(0, []), (10, []), (11, [(2, 10)]), (20, [(2, 10)]), (21, [(2, 10), (5, 20)]), (99, [(2, 10), (5, 20)])],
)
def test_cutting_the_end_forgets_epochs_that_began_there_or_later(disk, end, kept):
    made = epochs(disk, (2, 10), (5, 20))
    made.truncate_from_end(end)
    assert made.entries == reloaded(disk) == kept


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        (0, [(2, 10), (5, 20)]),
        (10, [(2, 10), (5, 20)]),
        (15, [(2, 15), (5, 20)]),
        (20, [(5, 20)]),
        (33, [(5, 33)]),
    ],
)
def test_cutting_the_start_lets_the_reign_that_holds_it_begin_there(disk, start, kept):
    made = epochs(disk, (2, 10), (5, 20))
    made.truncate_from_start(start)
    assert made.entries == reloaded(disk) == kept


def test_there_need_not_be_a_file(disk):
    with pytest.raises(FileNotFoundError):
        reloaded(disk)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n-1\n",
        b"0\n2\n1 5\n",
        b"0\n1\n1 5\n2 6\n",
        b"0\n1\n1\n",
        b"0\n1\n1 2 3\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n1 -5\n",
        b"0\n1\nx 5\n",
        b"0\n2\n2 5\n1 6\n",
        b"0\n2\n1 5\n1 6\n",
        b"0\n2\n1 6\n2 5\n",
        b"0\n1\n\xff 5\n",
        "0\n1\n١ 5\n".encode(),
        b"0\n1\n1 " + b"9" * 5000 + b"\n",
        b"0\n1\n1 9223372036854775808\n",
        b"0\n" + b"9" * 5000 + b"\n",
    ],
)
def test_a_file_that_makes_no_sense_is_a_protocol_error_that_names_it(disk, content):
    write_whole(disk, PATH, content)
    with pytest.raises(ProtocolError, match="leader-epoch-checkpoint"):
        reloaded(disk)
