"""A file system that forgets: what was synced stays, and nothing else is sure to."""

import os
from pathlib import Path

import pytest

from tests.cluster.power import lose_power, mounted


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path / "disk") as directory:
        yield directory


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def test_what_was_synced_stays(disk):
    (disk / "directory").mkdir()
    (disk / "directory" / "file").write_text("synced")
    for path in (disk / "directory" / "file", disk / "directory", disk):
        sync(path)
    lose_power(disk)
    assert (disk / "directory" / "file").read_text() == "synced"


def test_a_name_lasts_when_its_directory_was_synced(disk):
    (disk / "file").write_text("synced")
    sync(disk / "file")
    lose_power(disk)
    assert os.listdir(disk) == []


def test_of_what_was_written_since_a_beginning_stays(disk):
    (disk / "file").write_text("synced")
    for path in (disk / "file", disk):
        sync(path)
    with (disk / "file").open("a") as file:
        file.write(", and more")
    lose_power(disk)
    assert "synced, and more".startswith((disk / "file").read_text())
    assert (disk / "file").read_text().startswith("synced")


def test_without_a_loss_of_power_it_is_a_file_system(disk):
    (disk / "file").write_text("first")
    (disk / "other").write_text("second")
    os.replace(disk / "other", disk / "file")
    with (disk / "file").open("r+") as file:
        (disk / "file").unlink()
        assert os.listdir(disk) == []
        assert file.read() == "second"
        file.truncate(3)
        assert os.fstat(file.fileno()).st_size == 3
