"""The door to the operating system: bounded handles, positions that hold, small files replaced whole."""

import errno
import os
import random
import threading

import pytest

from ottla.storage.files import OsFiles, remove_all, write_whole
from ottla.testing.disk import PowerLoss, SimDisk


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_hundreds_of_files_share_a_few_handles_and_every_byte_stays_in_its_place(tmp_path):
    files = OsFiles(handles_max=8)
    before = open_descriptors()
    opened = [files.open(str(tmp_path / str(n)), create=True) for n in range(300)]
    source = random.Random(1)
    model = [bytearray() for _ in opened]
    for step in range(3000):
        n = source.randrange(len(opened))
        data = step.to_bytes(4, "big")
        opened[n].write_at(len(model[n]), data)
        model[n] += data
        assert files.open_handles <= 8
    assert open_descriptors() - before <= 8
    for file, expected in zip(opened, model, strict=True):
        assert file.size() == len(expected)
        assert file.read_at(0, 1 << 16) == expected
    for file in opened:
        file.close()
    assert files.open_handles == 0
    assert open_descriptors() == before


def test_a_file_in_use_keeps_its_handle_while_idle_ones_lose_theirs(tmp_path):
    files = OsFiles(handles_max=4)
    busy = files.open(str(tmp_path / "busy"), create=True)
    idle = [files.open(str(tmp_path / f"idle{n}"), create=True) for n in range(3)]
    busy_descriptor = busy._fd
    for n in range(20):
        busy.write_at(n, b"x")
        files.open(str(tmp_path / f"new{n}"), create=True)
    assert busy._fd == busy_descriptor
    assert all(file._fd == -1 for file in idle)


def test_eviction_and_syncs_in_other_threads_never_touch_a_stranger(tmp_path):
    """Threads sync while the owner writes to more files than there are handles."""
    files = OsFiles(handles_max=3)
    opened = [files.open(str(tmp_path / str(n)), create=True) for n in range(12)]
    faults: list[BaseException] = []

    def keep_syncing(seed: int) -> None:
        source = random.Random(seed)
        try:
            for _ in range(300):
                source.choice(opened).sync()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=keep_syncing, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for step in range(3000):
        opened[step % 12].write_at(step // 12 * 4, (step % 12).to_bytes(4, "big"))
    for thread in threads:
        thread.join()
    assert faults == []
    for n, file in enumerate(opened):
        assert file.read_at(0, 4096) == n.to_bytes(4, "big") * 250


def test_a_renamed_file_is_found_again_after_it_lost_its_handle(tmp_path):
    files = OsFiles(handles_max=1)
    file = files.open(str(tmp_path / "a"), create=True)
    file.write_at(0, b"hello")
    file.rename(str(tmp_path / "b"))
    for n in range(3):
        files.open(str(tmp_path / f"other{n}"), create=True)
    assert file.read_at(0, 10) == b"hello"
    assert files.names(str(tmp_path)) == ["b", "other0", "other1", "other2"]


def test_a_file_that_may_not_be_written_can_still_be_read(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"readable")
    real = os.open

    def refuse_writing(path, flags, *rest):
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "denied", path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse_writing)
    files = OsFiles()
    file = files.open(str(tmp_path / "f"))
    assert file.read_at(0, 100) == b"readable"
    with pytest.raises(OSError):
        file.write_at(0, b"x")
    with pytest.raises(PermissionError):
        files.open(str(tmp_path / "g"), create=True)


def test_a_write_that_the_kernel_takes_in_pieces_is_completed(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file = OsFiles().open(str(tmp_path / "f"), create=True)
    file.write_at(2, b"0123456789")
    assert file.read_at(2, 20) == b"0123456789"


def test_a_write_that_stops_advancing_is_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    file = OsFiles().open(str(tmp_path / "f"), create=True)
    with pytest.raises(OSError) as caught:
        file.write_at(0, b"x")
    assert caught.value.errno == errno.ENOSPC


def test_the_operations_on_names_are_those_of_the_operating_system(tmp_path):
    files, here = OsFiles(), str(tmp_path)
    files.make_directory(f"{here}/a/b")
    files.make_directory(f"{here}/a/b")
    write_whole(files, f"{here}/a/b/f", b"12345")
    assert (files.exists(f"{here}/a/b/f"), files.size(f"{here}/a/b/f")) == (True, 5)
    assert files.modified_ms(f"{here}/a/b/f") > 1_600_000_000_000
    files.rename(f"{here}/a/b/f", f"{here}/a/b/g")
    assert files.names(f"{here}/a/b") == ["g"]
    remove_all(files, [f"{here}/a/b/g", f"{here}/a/b/not there"])
    files.remove_directory(f"{here}/a/b")
    assert not files.exists(f"{here}/a/b")
    with pytest.raises(FileNotFoundError):
        files.open(f"{here}/nothing")


def test_a_new_directory_lasts_as_soon_as_it_is_made(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    monkeypatch.chdir(tmp_path)
    OsFiles().make_directory("a/b")
    OsFiles().make_directory("a/b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        OsFiles().make_directory("file")


@pytest.mark.parametrize("operations", range(9))
def test_replacing_a_small_file_leaves_the_old_or_the_new_one_wherever_the_power_goes(operations):
    seen = set()
    for seed in range(30):
        disk = SimDisk()
        disk.make_directory("d")
        write_whole(disk, "d/f", b"old" * 400)
        disk.crash_after(operations)
        try:
            write_whole(disk, "d/f", b"new" * 500)
            finished = True
        except PowerLoss:
            finished = False
        disk.crash(random.Random(seed))
        seen.add(disk.read("d/f"))
        if finished:
            assert disk.read("d/f") == b"new" * 500
    assert seen <= {b"old" * 400, b"new" * 500}


@pytest.mark.parametrize("operation", ["create", "truncate", "write", "sync", "rename"])
def test_replacing_a_small_file_on_a_failing_disk_leaves_the_old_one_and_can_be_tried_again(operation):
    disk = SimDisk()
    disk.make_directory("d")
    write_whole(disk, "d/f", b"old")
    disk.fail_next(operation)
    with pytest.raises(OSError):
        write_whole(disk, "d/f", b"new")
    assert disk.read("d/f") == b"old"
    write_whole(disk, "d/f", b"new")
    assert (disk.read("d/f"), disk.names("d")) == (b"new", ["f"])


def test_temporary_files_are_written_but_never_synced(tmp_path):
    files = OsFiles(syncs=False)
    file = files.open(str(tmp_path / "f"), create=True)
    file.write_at(0, b"abc")
    file.sync()
    files.sync_directory(str(tmp_path / "no such directory"))
    file.close()
    assert files.read(str(tmp_path / "f")) == b"abc"


def test_a_file_that_was_closed_does_not_come_back_as_another_of_its_name(tmp_path):
    files, path = OsFiles(), f"{tmp_path}/a"
    file = files.open(path, create=True)
    file.write_at(0, b"old")
    file.close()
    files.open(path, create=True).write_at(0, b"new")
    with pytest.raises(FileNotFoundError):
        file.read_at(0, 3)


def test_when_the_process_may_open_no_more_idle_files_give_up_their_handles(tmp_path, monkeypatch):
    files, names = OsFiles(), [str(tmp_path / str(n)) for n in range(9)]

    def scarce(take):
        def inner(*args, **how):
            if files.open_handles >= 4:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return take(*args, **how)

        return inner

    for name in ("open", "dup", "listdir"):
        monkeypatch.setattr(os, name, scarce(getattr(os, name)))
    opened = [files.open(name, create=True) for name in names]
    for n, file in enumerate(opened):
        file.write_at(0, b"%d" % n)
        file.sync()
    files.sync_directory(str(tmp_path))
    assert files.names(str(tmp_path)) == sorted(os.path.basename(name) for name in names)
    assert [file.read_at(0, 9) for file in opened] == [b"%d" % n for n in range(9)]
    assert files.open_handles <= 4


def test_with_nothing_left_to_give_up_it_is_an_error(tmp_path, monkeypatch):
    def exhausted(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", exhausted)
    with pytest.raises(OSError, match="Too many open files"):
        OsFiles().open(str(tmp_path / "a"), create=True)
