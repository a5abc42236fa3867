"""A data directory has one owner, on a real disk and on a simulated one."""

import os
import random
import signal
import subprocess
import sys

import pytest

from ottla.storage.files import Files, OsFiles
from ottla.storage.lock import LOCK_NAME, DirectoryInUseError, DirectoryLock
from ottla.testing.disk import SimDisk

HOLD = """
import sys, time
from ottla.storage.files import OsFiles
from ottla.storage.lock import DirectoryLock
lock = DirectoryLock(OsFiles(), sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""

HOLD_AS_JAVA_DOES = """
import fcntl, sys
file = open(sys.argv[1], "w")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held", flush=True)
    sys.stdin.read()
except BlockingIOError:
    print("refused", flush=True)
"""


@pytest.fixture(params=["os", "simulated"])
def place(request, tmp_path) -> tuple[Files, str]:
    if request.param == "os":
        return OsFiles(), str(tmp_path)
    disk = SimDisk()
    disk.make_directory("/data")
    return disk, "/data"


def test_the_second_is_refused_and_told_who_the_first_is(place):
    files, directory = place
    lock = DirectoryLock(files, directory)
    with pytest.raises(DirectoryInUseError) as raised:
        DirectoryLock(files, directory)
    assert str(raised.value) == f"the data directory {directory} is in use by process {os.getpid()}"
    assert raised.value.pid == os.getpid()
    lock.close()


def test_who_closes_makes_room(place):
    files, directory = place
    for _ in range(2):
        lock = DirectoryLock(files, directory)
        lock.close()
        lock.close()


def test_a_file_of_a_dead_process_is_no_obstacle(place):
    files, directory = place
    file = files.open(f"{directory}/{LOCK_NAME}", create=True)
    file.write_at(0, b"4000000000\n")
    file.close()
    lock = DirectoryLock(files, directory)
    assert files.read(f"{directory}/{LOCK_NAME}") == b"%d\n" % os.getpid()
    lock.close()


@pytest.mark.parametrize("content", [b"", b"nobody", b"9" * 50, b"\xff"])
def test_an_owner_who_cannot_be_told_is_another_process(place, content):
    files, directory = place
    lock = DirectoryLock(files, directory)
    file = files.open(f"{directory}/{LOCK_NAME}")
    file.truncate(0)
    file.write_at(0, content)
    file.close()
    with pytest.raises(DirectoryInUseError, match="in use by another process"):
        DirectoryLock(files, directory)
    lock.close()


def test_a_crash_frees_the_directory_and_the_dead_owner_has_no_say_any_more():
    disk = SimDisk()
    disk.make_directory("/data")
    dead = DirectoryLock(disk, "/data")
    disk.crash(random.Random(1))
    DirectoryLock(disk, "/data")
    dead.close()
    with pytest.raises(DirectoryInUseError):
        DirectoryLock(disk, "/data")


def test_another_process_holds_it_until_it_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DirectoryInUseError, match=f"in use by process {other.pid}"):
            DirectoryLock(OsFiles(), str(tmp_path))
        other.send_signal(signal.SIGKILL)
    DirectoryLock(OsFiles(), str(tmp_path)).close()


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        DirectoryLock(OsFiles(), str(tmp_path / "nowhere"))


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has locks that keep Java out and belong to a file"
)
def test_a_broker_of_apache_kafka_and_ours_keep_each_other_out(tmp_path):
    def kafka():
        command = [sys.executable, "-c", HOLD_AS_JAVA_DOES, str(tmp_path / LOCK_NAME)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    lock = DirectoryLock(OsFiles(), str(tmp_path))
    with kafka() as refused:
        assert refused.stdout.readline() == b"refused\n"
    lock.close()
    with kafka() as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUseError):
            DirectoryLock(OsFiles(), str(tmp_path))
    DirectoryLock(OsFiles(), str(tmp_path)).close()
