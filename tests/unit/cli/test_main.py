"""The `ottla` command: start-up, sentences and exit codes."""

import errno
import os
import subprocess
import sys

import click
import pytest

from ottla import __version__
from ottla.cli import main as entry
from ottla.cli.main import COMMANDS, cli, describe, main
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError


def run(*args: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli.main", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def failing(monkeypatch):
    """A command that raises what it is given."""

    def install(error: BaseException) -> None:
        @click.command()
        def fail() -> None:
            raise error

        monkeypatch.setattr(entry, "fail", fail, raising=False)
        monkeypatch.setitem(cli.table, "fail", entry.Lazy("ottla.cli.main:fail", "Fails."))

    return install


def test_help_lists_the_commands_and_imports_none_of_them():
    done = run("--help")
    assert done.returncode == 0
    assert "Look into the files of a log, offline." in done.stdout
    code = (
        "import sys; from ottla.cli.main import main; main(['--help']);"
        "print([m for m in sys.modules if m.split('.')[0] in ('rich', 'asyncio', 'cramjam', 'fastcrc', 'uvloop')"
        " or m.startswith('ottla.') and not m.startswith('ottla.cli')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_of_the_table_exists_under_its_name_and_help():
    ctx = click.Context(cli)
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        assert command is not None
        assert command.name == name


def test_the_version_is_shown(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ottla {__version__}\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["lgo"], "ottla: no command is called 'lgo'; did you mean 'log'?\n"),
        (["log", "dmp"], "ottla log: no command is called 'dmp'; did you mean 'dump'?\n"),
        (
            ["zzz"],
            f"ottla: no command is called 'zzz'; there are: {', '.join(COMMANDS)}\n",
        ),
        (["log", "dump"], "ottla log dump: name at least one file or directory\n"),
        (["log", "dump", "x.txt", "--nope"], "ottla log dump: No such option '--nope'.\n"),
    ],
)
def test_a_command_line_that_makes_no_sense_gets_one_sentence(capsys, args, sentence):
    assert main(args) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", sentence)


@pytest.mark.parametrize("args", [[], ["log"]])
def test_a_group_without_a_command_shows_its_help(capsys, args):
    assert main(args) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ProtocolError("the file\nis broken"), "ottla: the file is broken"),
        (KafkaError(ErrorCode.NOT_CONTROLLER, "ask 2"), "ottla: NOT_CONTROLLER: ask 2"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "x.log"),
            "ottla: x.log: No such file or",
        ),
        (ValueError("oops"), "ottla: a bug: ValueError: oops; OTTLA_TRACEBACK=1 shows where"),
    ],
)
def test_a_failure_gets_one_sentence_and_exit_code_1(capsys, failing, error, sentence):
    failing(error)
    assert main(["fail"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(sentence)
    assert captured.err.count("\n") == 1


def test_a_traceback_is_there_for_the_asking(capsys, failing, monkeypatch):
    monkeypatch.setenv("OTTLA_TRACEBACK", "1")
    failing(ProtocolError("broken"))
    assert main(["fail"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("Traceback")
    assert captured.err.endswith("ottla: broken\n")


def test_an_interrupt_ends_quietly_with_130(capsys, failing):
    failing(KeyboardInterrupt())
    assert main(["fail"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_errors_of_the_operating_system_name_the_file():
    assert describe(OSError(errno.EIO, "Input/output error", b"a\xff")) == "a\udcff: Input/output error"
    assert describe(OSError("just words")) == "just words"
    assert describe(TimeoutError()) == "TimeoutError"


def test_a_reader_that_hangs_up_is_no_failure_to_talk_about():
    command = [sys.executable, "-m", "ottla.cli.main", "protocol", "apis"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_exit_codes_reach_the_shell(tmp_path):
    (tmp_path / "notes.txt").touch()
    (tmp_path / f"{0:020d}.log").write_bytes(b"damaged")
    (tmp_path / f"{0:020d}.index").touch()
    assert run("log", "dump", f"{0:020d}.index", cwd=tmp_path).returncode == 0
    damaged = run("log", "dump", f"{0:020d}.log", cwd=tmp_path)
    assert (damaged.returncode, damaged.stderr) == (
        1,
        f"ottla: {0:020d}.log: stops at byte 0: the file ends within a header\n",
    )
    missing = run("log", "dump", "gone.log", cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (
        1,
        "ottla: gone.log: cannot be read: No such file or directory\n",
    )
    mistyped = run("log", "dump", "gone", cwd=tmp_path)
    assert (mistyped.returncode, mistyped.stderr) == (1, "ottla: gone: No such file or directory\n")
    unknown = run("log", "dump", "notes.txt", cwd=tmp_path)
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("ottla log dump: notes.txt: not a kind of file")
    assert run("nope").returncode == 2


def test_what_a_terminal_cannot_show_does_not_end_a_command(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.log")
    path.touch()
    done = run(
        "log", "dump", str(path), env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    )
    assert done.returncode == 0
    assert "\\udcff.log" in done.stdout
