"""Which files are dumped, of what kind they are, and that they are only read."""

import os

import pytest

from ottla.cli.dump.files import Dumped, expand, open_file, read_small
from tests.unit.cli.dump.helpers import SEGMENT, batches, dump, partition, write


def test_a_directory_stands_for_the_files_of_a_log_in_it(tmp_path):
    directory = partition(tmp_path)
    (directory / "notes.txt").write_text("not for us")
    names = [os.path.basename(target.path) for target in expand([f"{directory}/"])]
    assert names == [
        f"{SEGMENT}.index",
        f"{SEGMENT}.log",
        f"{SEGMENT}.timeindex",
        f"{SEGMENT}.txnindex",
        f"{6:020d}.index",
        f"{6:020d}.log",
        f"{6:020d}.snapshot",
        f"{6:020d}.timeindex",
        "leader-epoch-checkpoint",
    ]
    assert dump("--json", directory).code == 0


def test_a_directory_without_files_of_a_log_says_so(tmp_path):
    ran = dump(tmp_path)
    assert ran.code == 1
    assert f"{tmp_path}: holds no file of a log" in ran.err


def test_a_file_that_is_about_to_go_or_come_keeps_its_kind(tmp_path):
    for passing in (".deleted", ".cleaned", ".swap"):
        write(tmp_path, f"{SEGMENT}.log{passing}", batches(1)[0])
        path = write(tmp_path, f"{SEGMENT}.index{passing}", b"")
        assert Dumped(str(path), ".index").log_path == str(tmp_path / f"{SEGMENT}.log{passing}")
        assert Dumped(str(path), ".index").base_offset == 0
        assert dump(path).code == 0
        assert len(dump(tmp_path / f"{SEGMENT}.log{passing}").rows()) == 1


def test_a_file_of_an_unknown_kind_is_named_and_nothing_is_dumped(tmp_path):
    good = write(tmp_path, f"{SEGMENT}.log", batches(1)[0])
    ran = dump(good, write(tmp_path, "notes.txt", b""))
    assert (ran.code, ran.out) == (2, "")
    assert "notes.txt: not a kind of file that can be dumped" in ran.err


def test_an_index_under_a_name_without_an_offset_is_refused(tmp_path):
    ran = dump(write(tmp_path, "copy.index", b""))
    assert ran.code == 2
    assert "copy.index: the name of an index must be" in ran.err


def test_a_segment_may_have_any_name(tmp_path):
    assert len(dump(write(tmp_path, "copy.log", batches(1)[0])).rows()) == 1


def test_a_missing_file_is_named_and_the_others_are_dumped(tmp_path):
    good, missing = write(tmp_path, f"{SEGMENT}.log", batches(1)[0]), tmp_path / "gone.log"
    for options in ((), ("--json",)):
        ran = dump(*options, missing, good)
        assert ran.code == 1
        assert ran.err == f"ottla: {missing}: cannot be read: No such file or directory\n"
        assert str(good) in ran.out


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.log")
    ran = dump(tmp_path / "pipe.log")
    assert ran.code == 1
    assert "pipe.log: cannot be read: is not a regular file" in ran.err


def test_files_cannot_be_written_to_and_nothing_appears_beside_them(tmp_path):
    directory = partition(tmp_path)
    before = {path: path.read_bytes() for path in directory.iterdir()}
    dump("--print-data-log", directory)
    dump("--verify-index-only", directory)
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
    file = open_file(str(directory / f"{SEGMENT}.log"))
    with pytest.raises(OSError):
        file.write_at(0, b"x")
    file.close()


def test_a_small_file_of_enormous_size_is_not_read(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="far more than a file of this name needs"):
        read_small(str(path))
    assert dump(path).code == 1


def test_files_can_be_given_as_kafka_takes_them(tmp_path):
    first = write(tmp_path, f"{0:020d}.log", batches(1)[0])
    second = write(tmp_path, f"{2:020d}.log", batches(2)[1])
    ran = dump("--json", "--files", f"{first},{second}")
    assert [each["file"] for each in ran.objects] == [str(first), str(second)]


def test_no_files_at_all_is_a_usage_error():
    ran = dump()
    assert ran.code == 2
    assert "name at least one file or directory" in ran.err
