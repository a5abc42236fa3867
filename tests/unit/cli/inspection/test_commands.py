"""`ottla log verify`, `repair`, `segments` and `find` on real files: answers, exit codes, and hostile directories."""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from ottla.cli.inspection.files import GuardedFiles, ReadOnlyFiles, is_in_use
from ottla.cli.inspection.progress import Bar, bytes_below
from ottla.cli.main import cli
from ottla.storage.files import OsFiles
from ottla.storage.lock import DirectoryLock
from tests.unit.storage.inspection import logs

FIRST, SECOND, LAST = (f"{base:020d}" for base in (0, 18, 36))


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


def log(*args: object) -> Ran:
    result = CliRunner().invoke(cli, ["log", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("log") / "data"
    before, logs.DATA = logs.DATA, str(path)
    try:
        logs.made(OsFiles(syncs=False))
    finally:
        logs.DATA = before
    return path


@pytest.fixture
def data(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def flip(path: Path, at: int, bits: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bits
    path.write_bytes(content)


def replace(path: Path, make) -> None:
    path.unlink(missing_ok=True)
    make(path)


# --- verify -----------------------------------------------------------------------------------------------------------


def test_verify_says_nothing_of_a_good_directory_but_what_it_saw(data):
    ran = log("verify", data)
    assert ran.code == 0 and ran.out == "severity\tfile\tposition\tend\treason\n"
    assert "2 partitions, 6 segments, 56 batches" in ran.err


def test_verify_names_file_and_byte_and_exits_with_1(data):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    ran = log("verify", data)
    row = ran.out.splitlines()[1].split("\t")
    assert (ran.code, row) == (
        1,
        ["damage", str(data / "orders-0" / f"{FIRST}.log"), "79", "186", "the batch fails its checksum"],
    )


def test_verify_as_json_is_one_document(data):
    flip(data / "orders-0" / f"{FIRST}.index", 7)
    ran = log("verify", data / "orders-0", "--json")
    assert ran.code == 1
    assert (ran.document["is_clean"], ran.document["in_use"]) == (False, False)
    assert ran.document["counts"] == {"damage": 0, "stale": 1, "note": 0}
    assert ran.document["partitions"][0] | {"bytes": 0} == {
        "partition": "orders-0",
        "segments": 3,
        "batches": 28,
        "bytes": 0,
        "first_offset": 0,
        "end_offset": 40,
    }
    assert [f["severity"] for f in ran.document["findings"]] == ["stale"]


def test_notes_are_no_reproach_and_can_be_left_out(data):
    (data / "orders-0" / f"{FIRST}.log.deleted").write_bytes(b"")
    assert (log("verify", data).code, "note" in log("verify", data).out) == (0, True)
    assert "note\t" not in log("verify", data, "--quiet").out


def test_verify_beside_a_running_broker_does_not_judge_what_it_is_writing(data):
    path = data / "orders-0" / f"{LAST}.log"
    path.write_bytes(path.read_bytes() + b"half a batch")
    lock = DirectoryLock(OsFiles(), str(data))
    try:
        for directory in (data, data / "orders-0"):
            ran = log("verify", directory)
            assert ran.code == 0 and "being written" in ran.out and "in use by a broker" in ran.err
    finally:
        lock.close()
    assert log("verify", data).code == 1


def test_verify_changes_nothing_not_even_a_time(data):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in [data, *data.rglob("*")]}
    log("verify", data)
    log("repair", data)
    log("segments", data)
    log("find", data / "orders-0", 7)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in [data, *data.rglob("*")]} == before


# --- repair -----------------------------------------------------------------------------------------------------------


def test_repair_says_first_and_does_when_told(data):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    ran = log("repair", data)
    assert ran.code == 1 and "rewrite it without 107 damaged bytes (79-186)" in ran.out
    assert not list(data.glob("*.quarantine"))
    ran = log("repair", data, "--apply")
    assert ran.code == 0 and "1 things done, 0 left" in ran.err
    assert len((data / f"orders-0.{FIRST}.log.79-186.quarantine").read_bytes()) == 107
    assert log("verify", data).code == 0
    assert (log("repair", data).code, log("repair", data).err.endswith("nothing to do\n")) == (0, True)


def test_repair_as_json(data):
    flip(data / "orders-0" / f"{SECOND}.index", 7)
    planned, done = log("repair", data, "--json"), log("repair", data, "--json", "--apply")
    assert (planned.code, planned.document["applied"], done.code, done.document["applied"]) == (
        1,
        False,
        0,
        True,
    )
    assert planned.document["steps"] == done.document["steps"]
    assert done.document["left"] == []


def test_repair_refuses_while_a_broker_runs(data):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    before = (data / "orders-0" / f"{FIRST}.log").read_bytes()
    lock = DirectoryLock(OsFiles(), str(data))
    try:
        for directory in (data, data / "orders-0"):
            ran = log("repair", directory, "--apply")
            assert ran.code == 1 and "in use by a broker; stop it first" in ran.err
    finally:
        lock.close()
    assert (data / "orders-0" / f"{FIRST}.log").read_bytes() == before


def test_what_nobody_can_repair_is_left_and_said(data):
    (data / "meta.properties").write_bytes(b"version=7\n")
    ran = log("repair", data, "--apply")
    assert ran.code == 1 and "left:" in ran.err and "meta.properties" in ran.err


# --- segments, find -------------------------------------------------------------------------------------------------


def test_segments_is_a_table_of_one_partition_or_all(data):
    lines = [line.split("\t") for line in log("segments", data / "orders-0").out.splitlines()]
    assert [line[1] for line in lines] == ["segment", FIRST, SECOND, LAST]
    assert lines[1][2:6] == ["17", "976", "12", "18"]
    assert len(log("segments", data).out.splitlines()) == 7
    rows = log("segments", data, "--json").document
    assert {(row["partition"], row["state"]) for row in rows} >= {
        ("orders-0", "active"),
        ("payments-3", "closed"),
    }


def test_a_segment_that_breaks_is_shown_as_far_as_it_goes(data):
    flip(data / "orders-0" / f"{FIRST}.log", 79 + 16, 0x40)
    ran = log("segments", data / "orders-0")
    assert ran.code == 1 and "closed: no batch starts here at byte 79" in ran.out


def test_find_shows_segment_entry_scan_batch_and_record(data):
    ran = log("find", data / "orders-0", 26)
    assert ran.code == 0
    lines = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert lines["segment"] == f"2 names compared of 3 (18, 36): {SECOND}.log"
    assert lines["index"] == "page 1 of 1, entry 2 of 6: offset 25 -> byte 342"
    assert lines["scan"] == "76 bytes from byte 342 on, 2 headers read"
    assert lines["batch"].startswith("byte 418, ") and "crc valid" in lines["batch"]
    assert "value 'in-7-2'" in lines["record"]
    assert lines["result"] == "found"


def test_find_explains_what_is_not_there(data):
    ran = log("find", data / "orders-0", 99)
    assert ran.code == 1 and "the log ends before offset 99" in ran.out
    assert log("find", data / "orders-0", 99, "--json").document["record"] is None


def test_find_by_time(data):
    ran = log("find", data / "orders-0", "--time", "2023-11-14T22:13:20.200")
    assert ran.code == 0 and "offset 20, time 1700000000200" in ran.out
    assert log("find", data / "orders-0", "--time", "1700000000200").out == ran.out


@pytest.mark.parametrize(
    "args",
    [
        ("find", "{data}/orders-0"),
        ("find", "{data}/orders-0", "1", "--time", "2"),
        ("find", "{data}/orders-0", "--time", "noon"),
        ("find", "{data}/orders-0", "x"),
        ("find", "{data}/orders-0", "9223372036854775808"),
        ("verify", "{data}/nowhere"),
        ("verify", "{data}/meta.properties"),
        ("verify", "{data}/nothing"),
        ("repair", "{data}/nothing", "--apply"),
        ("segments", "{data}/nothing"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_in_one_sentence(data, args):
    (data / "nothing").mkdir()
    ran = log(*(arg.format(data=data) for arg in args))
    assert ran.code == 2


# --- enemies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [f"{SECOND}{s}" for s in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")]
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(os.mkdir, id="directory"),
        pytest.param(lambda path: os.symlink("nowhere", path), id="dangling link"),
        pytest.param(lambda path: os.symlink(path, path), id="loop"),
        pytest.param(lambda path: os.symlink("/dev/zero", path), id="device"),
        pytest.param(lambda path: Path(path).write_bytes(b""), id="empty"),
    ],
)
def test_whatever_lies_under_the_name_of_a_file_no_command_waits_or_breaks(data, name, make):
    replace(data / "orders-0" / name, make)
    for args in (("verify", data), ("repair", data), ("repair", data, "--apply"), ("segments", data)):
        assert log(*args).code in (0, 1)
    result = CliRunner().invoke(cli, ["log", "find", str(data / "orders-0"), "20"])
    assert isinstance(result.exception, SystemExit | OSError | None)


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "meta.properties", "orders-0/leader-epoch-checkpoint", ".lock"],
)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_the_same_for_small_files(data, name, make):
    replace(data / name, make)
    for args in (("verify", data), ("repair", data)):
        assert log(*args).code in (0, 1)
    result = CliRunner().invoke(cli, ["log", "repair", str(data), "--apply"])
    assert isinstance(result.exception, SystemExit | OSError | None)


def test_names_that_are_no_partitions_segments_or_even_text_are_left_alone(data):
    (data / "file-0").write_bytes(b"")
    os.mkfifo(data / "pipe-0")
    os.symlink("loop-0", data / "loop-0")
    (data / os.fsdecode(b"caf\xe9-0")).mkdir()
    (data / "orders-0" / os.fsdecode(b"\xff.log")).write_bytes(b"x")
    (data / "orders-0" / f"{2**63:020d}.log").write_bytes(b"x")
    ran = log("verify", data, "--json")
    damage = [f for f in ran.document["findings"] if f["severity"] == "damage"]
    assert sorted(f["reason"].partition(":")[0] for f in damage) == [
        "cannot be read",
        "the number in its name is no offset",
    ]
    log("repair", data, "--apply")
    assert (data / f"orders-0.{2**63:020d}.log.quarantine").read_bytes() == b"x"


def test_a_file_that_may_not_be_read_is_said_to_be(data, monkeypatch):
    real = os.open

    def refusing(path, *args, **kwargs):
        if str(path).endswith(f"{SECOND}.log"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    ran = log("verify", data / "orders-0")
    assert ran.code == 1 and "cannot be read: Permission denied" in ran.out


def test_files_that_are_only_to_be_read_cannot_be_changed(data):
    files, path = ReadOnlyFiles(), str(data / "meta.properties")
    file = files.open(path)
    for change in (
        lambda: files.open(path, create=True),
        lambda: files.rename(path, path + "x"),
        lambda: files.remove(path),
        lambda: files.make_directory(path),
        lambda: files.remove_directory(path),
        lambda: files.sync_directory(path),
        lambda: files.set_modified(path, 0),
        lambda: files.lock(path),
        lambda: file.write_at(0, b"x"),
        lambda: file.truncate(0),
        lambda: file.rename(path),
        file.sync,
    ):
        with pytest.raises(PermissionError):
            change()
    assert file.read_at(0, 7) == (data / "meta.properties").read_bytes()[:7]


def test_guarded_files_are_files(tmp_path):
    files = GuardedFiles()
    files.make_directory(str(tmp_path / "a"))
    file = files.open(str(tmp_path / "a/x"), create=True)
    file.write_at(0, b"bytes")
    file.close()
    assert (files.read(str(tmp_path / "a/x")), files.size(str(tmp_path / "a/x"))) == (b"bytes", 5)
    files.set_modified(str(tmp_path / "a/x"), 5000)
    assert files.modified_ms(str(tmp_path / "a/x")) == 5000
    files.rename(str(tmp_path / "a/x"), str(tmp_path / "a/y"))
    files.sync_directory(str(tmp_path / "a"))
    files.remove(str(tmp_path / "a/y"))
    files.remove_directory(str(tmp_path / "a"))
    assert files.names(str(tmp_path)) == []
    assert not is_in_use(str(tmp_path))


class Terminal:
    """Remembers what is written to it."""

    def __init__(self, is_terminal: bool) -> None:
        self.text, self._is_terminal = "", is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_a_bar_is_for_terminals_and_for_what_takes_longer(monkeypatch, data):
    monkeypatch.setattr("ottla.cli.inspection.progress.PATIENCE_SECONDS", 0)
    for is_terminal in (True, False):
        stream = Terminal(is_terminal)
        bar = Bar("verifying", 100, stream)
        for _ in range(4):
            bar(25)
        bar.pause()
        bar(1)
        bar.close()
        assert ("verifying" in stream.text) == is_terminal
    assert bytes_below(str(data)) == sum(p.stat().st_size for p in data.rglob("*.log"))
    assert bytes_below(str(data / "nowhere")) == 0


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [f"{LAST}.log", f"{FIRST}.index", "leader-epoch-checkpoint"])
def test_a_file_behind_a_link_is_read_and_never_written_to(data, tmp_path, name):
    path, elsewhere = data / "orders-0" / name, tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert log("verify", data).code == 0
    elsewhere.write_bytes(elsewhere.read_bytes()[:-20])
    before = elsewhere.read_bytes()
    assert log("verify", data).code == 1
    assert (log("repair", data).code, log("repair", data, "--apply").code) == (1, 1)
    assert "is a link" in log("repair", data).out
    assert (elsewhere.read_bytes(), path.is_symlink()) == (before, True)


@pytest.mark.parametrize(
    "name", [f"orders-0/{FIRST}.log.cleaned", f"orders-0/{FIRST}.index.tmp", ".lock", "{kept}", "{kept}.tmp"]
)
def test_nothing_is_written_through_a_link_that_has_the_name_of_a_new_file(data, tmp_path, name):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    flip(data / "payments-3" / f"{FIRST}.index", 7)
    precious = tmp_path / "precious"
    precious.write_bytes(b"of somebody else")
    link = data / name.format(kept=f"orders-0.{FIRST}.log.79-186.quarantine")
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    CliRunner().invoke(cli, ["log", "repair", str(data), "--apply"])  # it may well stop there
    assert precious.read_bytes() == b"of somebody else"


def test_a_partition_behind_a_link_is_left_to_whoever_made_it(data, tmp_path):
    """Whether a broker uses it can only be told where it lies."""
    (data / "orders-0").rename(tmp_path / "orders-0")
    (data / "orders-0").symlink_to(tmp_path / "orders-0")
    flip(tmp_path / "orders-0" / f"{FIRST}.log", 100)
    before = (tmp_path / "orders-0" / f"{FIRST}.log").read_bytes()
    assert log("verify", data).code == 1
    ran = log("repair", data, "--apply")
    assert ran.code == 1 and "is a link" in ran.err
    assert (tmp_path / "orders-0" / f"{FIRST}.log").read_bytes() == before


def test_a_link_to_a_partition_of_a_running_broker_is_no_way_around_its_lock(data, tmp_path):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    (tmp_path / "link").symlink_to(data / "orders-0")
    lock = DirectoryLock(OsFiles(), str(data))
    ran = log("repair", tmp_path / "link", "--apply")
    assert ran.code == 1 and "in use" in ran.err
    lock.close()
    assert log("repair", tmp_path / "link", "--apply").code == 0
    assert (data / f"orders-0.{FIRST}.log.79-186.quarantine").exists()


def test_the_directory_one_stands_in_is_a_partition_of_the_one_above(data, monkeypatch):
    flip(data / "orders-0" / f"{FIRST}.log", 100)
    monkeypatch.chdir(data / "orders-0")
    names = sorted(os.listdir())
    assert log("repair", ".", "--apply").code == 0
    assert sorted(os.listdir()) == names
    assert (data / f"orders-0.{FIRST}.log.79-186.quarantine").exists()
