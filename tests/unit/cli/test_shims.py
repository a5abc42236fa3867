"""`ottla shims`: the classic names as commands."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from ottla.cli.classic.names import CLASSIC
from ottla.cli.classic.running import KAFKA_VERSION
from ottla.cli.main import main
from ottla.cli.shims import MARK, Way, script


@pytest.fixture
def ottla(capsys):
    def run(*args):
        code = main(["shims", *map(str, args)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def names(directory):
    return {path.name for path in directory.iterdir()}


def test_every_classic_name_becomes_a_command_with_and_without_sh(ottla, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    code, out, err = ottla("install", "--dir", tmp_path)
    assert (code, out, err) == (0, "", f"{2 * len(CLASSIC)} commands are in {tmp_path}\n")
    assert names(tmp_path) == {f"{name}{ending}" for name in CLASSIC for ending in ("", ".sh")}
    assert all(os.access(path, os.X_OK) for path in tmp_path.iterdir())
    assert ottla("install", "--dir", tmp_path)[0] == 0, "twice is as good as once"
    assert (
        ottla("remove", "--dir", tmp_path)[2] == f"{2 * len(CLASSIC)} commands were removed from {tmp_path}\n"
    )
    assert names(tmp_path) == set()


def test_a_command_runs_this_ottla_whatever_is_in_the_working_directory(ottla, tmp_path):
    place = tmp_path / "a b'$(touch x)"
    ottla("install", "--dir", place)
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    for command in ([place / "kafka-topics"], ["sh", place / "kafka-topics.sh"]):
        done = subprocess.run(
            [*command, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{KAFKA_VERSION}\n", "")


def test_words_and_exit_codes_get_through(ottla, tmp_path):
    ottla("install", "--dir", tmp_path)
    done = subprocess.run(
        [tmp_path / "kafka-topics", "--no such'option"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("no such'option is not a recognized option")


def test_odd_paths_are_quoted():
    text = script("kafka-topics.sh", Way("/o'dd $(x)/python", "/a\\b'c"))
    lines = text.splitlines()
    assert lines[:2] == ["#!/bin/sh", MARK]
    echoed = lines[2].replace("exec ", "printf '%s\\n' ", 1)
    done = subprocess.run(["sh", "-c", echoed, "sh", "last one"], capture_output=True, text=True, timeout=60)
    python, safe, _, code, name, last = done.stdout.splitlines()
    assert (python, safe, name, last) == ("/o'dd $(x)/python", "-P", "kafka-topics", "last one")
    assert 'sys.path.append("/a\\\\b\'c")' in code


def test_what_somebody_else_has_written_is_left_alone(ottla, tmp_path):
    foreign = tmp_path / "kafka-topics"
    foreign.write_text("#!/bin/sh\necho real\n")
    (tmp_path / "kafka-configs").symlink_to("gone")
    code, _, err = ottla("install", "--dir", tmp_path)
    assert code == 3
    assert f"{foreign} was written by something else, and is left alone; --force overwrites it" in err
    assert foreign.read_text() == "#!/bin/sh\necho real\n"
    assert (tmp_path / "kafka-configs").is_symlink()
    ottla("remove", "--dir", tmp_path)
    assert names(tmp_path) == {"kafka-topics", "kafka-configs"}
    assert ottla("install", "--dir", tmp_path, "--force")[0] == 0
    assert MARK in foreign.read_text()


def test_a_directory_in_the_way_is_named_and_nothing_is_left_lying_about(ottla, tmp_path):
    (tmp_path / next(iter(CLASSIC))).mkdir()
    code, _, err = ottla("install", "--dir", tmp_path, "--force")
    assert code == 1
    assert "Is a directory" in err or "directory" in err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_sh_may_be_left_out(ottla, tmp_path):
    ottla("install", "--dir", tmp_path, "--without-sh")
    assert names(tmp_path) == set(CLASSIC)


def test_it_is_said_if_the_directory_is_not_on_the_path(ottla, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert f"{tmp_path} is not on the PATH" in ottla("install", "--dir", tmp_path)[2]


def test_it_is_said_if_another_goes_before(ottla, tmp_path, monkeypatch):
    other, own = tmp_path / "other", tmp_path / "own"
    other.mkdir()
    shutil.copy("/bin/true", other / "kafka-topics")
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{own}")
    _, _, err = ottla("install", "--dir", own)
    assert f"{other}/kafka-topics goes before the kafka-topics in {own}" in err
    rows = {row["name"]: row for row in json.loads(ottla("ls", "--dir", own, "--json")[1])["shims"]}
    assert rows["kafka-topics"]["runs"] == f"{other}/kafka-topics"
    assert (rows["kafka-topics"]["installed"], rows["kafka-topics"]["is_ottla"]) == (True, False)
    assert (rows["kafka-configs"]["installed"], rows["kafka-configs"]["is_ottla"]) == (True, True)


def test_the_list_has_every_name(ottla, tmp_path):
    _, out, _ = ottla("ls", "--dir", tmp_path)
    assert [line.split("\t")[0] for line in out.splitlines()[1:]] == list(CLASSIC)


def test_the_interpreter_is_this_one():
    assert os.path.abspath(sys.executable) in script("kafka-topics")
