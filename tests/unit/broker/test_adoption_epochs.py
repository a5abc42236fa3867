"""Kafka notes the epoch of a leader after its first batch: a killed one leaves batches that nobody has announced."""

import pytest

from ottla.broker.adoption_epochs import note_epochs
from ottla.core.ids import TopicPartition
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT, write_offsets
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import EpochStart, LeaderEpochs
from ottla.storage.files import OsFiles
from ottla.storage.log_directory import LogDirectory

ORDERS_0 = TopicPartition("orders", 0)


def segment(base, *epochs):
    """One batch of one record for each of these epochs."""
    rows = [Record(base + number, 1, None, b"value") for number in range(len(epochs))]
    return b"".join(build([row], leader_epoch=epoch) for row, epoch in zip(rows, epochs, strict=True))


def log_with(directory, noted, *epochs, base=0):
    path = directory / "orders-0"
    path.mkdir(exist_ok=True)
    (path / f"{base:020}.log").write_bytes(segment(base, *epochs))
    if noted is not None:
        (path / "leader-epoch-checkpoint").write_text(
            f"0\n{len(noted)}\n" + "".join(f"{e} {o}\n" for e, o in noted)
        )
    return path


def noted(directory):
    note_epochs(OsFiles(), [(ORDERS_0, str(directory / "orders-0"))])
    epochs = LeaderEpochs(OsFiles(), str(directory / "orders-0"))
    epochs.load()
    return epochs.entries


def opened(directory):
    """The end of the log after a recovery."""
    log = LogDirectory.open(OsFiles(), str(directory), lambda topic: TopicConfig()).logs[ORDERS_0]
    end_offset = log.end_offset
    log.close()
    return end_offset


@pytest.mark.parametrize("is_noted", [True, False])
def test_without_it_a_recovery_would_cut_the_log(tmp_path, is_noted):
    log_with(tmp_path, [(0, 0)], 0, 0, 3, 3)
    if is_noted:
        assert noted(tmp_path) == [EpochStart(0, 0), EpochStart(3, 2)]
    assert opened(tmp_path) == (4 if is_noted else 2)


def test_a_file_that_is_up_to_the_log_stays_as_it_is(tmp_path):
    path = log_with(tmp_path, [(0, 0), (1, 2), (4, 9)], 0, 0, 1)
    before = (path / "leader-epoch-checkpoint").stat()
    assert noted(tmp_path) == [EpochStart(0, 0), EpochStart(1, 2), EpochStart(4, 9)]
    assert (path / "leader-epoch-checkpoint").stat().st_ino == before.st_ino


def test_a_file_without_epochs_gets_all(tmp_path):
    log_with(tmp_path, [], 2, 3)
    assert noted(tmp_path) == [EpochStart(2, 0), EpochStart(3, 1)]


def test_after_a_clean_stop_and_where_recovery_does_not_look_nothing_is_read(tmp_path):
    log_with(tmp_path, [(0, 0)], 0, 5)
    log_with(tmp_path, [(0, 0)], 0, base=2)
    write_offsets(OsFiles(), str(tmp_path / RECOVERY_POINT), {ORDERS_0: 3})
    assert noted(tmp_path) == [EpochStart(0, 0)]
    write_offsets(OsFiles(), str(tmp_path / RECOVERY_POINT), {ORDERS_0: 2})
    (tmp_path / CLEAN_SHUTDOWN).touch()
    assert noted(tmp_path) == [EpochStart(0, 0)]
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    assert noted(tmp_path) == [EpochStart(0, 0), EpochStart(5, 1)]


@pytest.mark.parametrize("tail", [bytes(200), segment(2, 7)[:-1] + b"!", segment(2, 7)[:-1], b"\xff" * 100])
def test_a_torn_end_says_nothing(tmp_path, tail):
    path = log_with(tmp_path, [(0, 0)], 0, 1)
    log = path / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + tail)
    assert noted(tmp_path) == [EpochStart(0, 0), EpochStart(1, 1)]


@pytest.mark.parametrize("text", [None, "", "nonsense"])
def test_a_file_that_cannot_be_read_is_left_to_recovery(tmp_path, text):
    path = log_with(tmp_path, None, 0, 1)
    if text is not None:
        (path / "leader-epoch-checkpoint").write_text(text)
    (tmp_path / RECOVERY_POINT).write_text("nonsense")
    assert note_epochs(OsFiles(), [(ORDERS_0, str(path))]) == 0
    assert opened(tmp_path) == 2


def test_a_file_that_is_called_like_a_partition_is_none(tmp_path):
    (tmp_path / "backup-1").touch()
    assert note_epochs(OsFiles(), [(TopicPartition("backup", 1), str(tmp_path / "backup-1"))]) == 0
