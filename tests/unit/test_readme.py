"""What the pages show is what happens: their Python runs, their commands exist, their output is the real one.

A page is run from top to bottom in one empty directory. A `python` block is run by an interpreter of its own, or by
pytest if there are tests in it; a `text` block right behind it is what it prints. Where one speaks of a broker on port
9092, or a `console` block asks one, the page has a broker. In a `console` block, `$ ` starts a line for the shell, and
what follows is what it shows on a terminal of 80 columns; `...` stands for whatever differs from time to time. In an
`sh` block only the commands of `ottla` and the targets of `make` are looked up.
"""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from ottla.cli.classic.names import name_of
from ottla.cli.main import cli
from ottla.testing import Broker

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if "reference" not in path.parts
    and re.search(r"^```(python|console|sh)$", path.read_text(), re.MULTILINE)
]
FRAGMENT = "# from "
"""Starts the first line of a Python block that shows a piece of a file: every line of it must be in that file."""
SERVER = "127.0.0.1:9092"
ASKING = re.compile(r"\bottla (topic|produce|consume|cat|group|config|cluster|txn|bench|kafka-\w+)\b")
PYTHON = [
    *(sys.executable, "-W", "error"),
    # kafka-python reads its own files in a way that was deprecated for a while.
    *("-W", "ignore::DeprecationWarning:kafka.protocol.schemas.load_json"),
    *("-W", "ignore::DeprecationWarning:importlib.resources._legacy"),
]


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2], page.read_text().count("\n", 0, match.start()) + 1)


def run(command: list[str], directory: Path, **how: object) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, **how)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def run_on_a_terminal(line: str, directory: Path, server: str) -> str:
    """What a shell shows to a person, without colours and without blanks at the ends of lines."""
    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (24, 80))
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            env=environment(directory, server),
        )
        os.close(writer)
        shown = b""
        while piece := _read(reader):
            shown += piece
    finally:
        os.close(reader)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert done.returncode == 0, plain
    return "".join(f"{line.rstrip()}\n" for line in plain.splitlines())


def environment(directory: Path, server: str) -> dict[str, str]:
    """Of somebody at a terminal who has just installed Ottla."""
    found = {**os.environ, "TERM": "xterm", "HOME": str(directory), "OTTLA_BOOTSTRAP_SERVER": server}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "XDG_CONFIG_HOME"):
        found.pop(name, None)
    commands = directory / ".bin"
    commands.mkdir(exist_ok=True)
    (commands / "ottla").write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    (commands / "ottla").chmod(0o755)
    return found | {"PATH": f"{commands}:{found['PATH']}"}


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so when the other end is closed
        return b""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    blocks = list(blocks_of(page))
    with contextlib.ExitStack() as stack:
        server = SERVER
        if any(
            (SERVER in block.text and block.language == "python")
            or (ASKING.search(block.text) and block.language == "console")
            for block in blocks
        ):
            server = stack.enter_context(Broker()).bootstrap_server
        printed = ""
        for block in blocks:
            where = f"{page.name}:{block.line}"
            if block.language == "python" and block.text.startswith(FRAGMENT):
                _check_fragment(block, where)
            elif block.language == "python":
                printed = _run_python(block.text.replace(SERVER, server), tmp_path)
            elif block.language == "text":
                assert printed == block.text, where
            elif block.language == "console":
                _check_console(block, tmp_path, server)
            elif block.language == "sh":
                for line in block.text.splitlines():
                    _check_exists(line)


def _run_python(text: str, directory: Path) -> str:
    if not re.search(r"^def test_", text, re.MULTILINE):
        return run([*PYTHON, "-c", text], directory)
    path = directory / "test_example.py"
    path.write_text(text)
    return run([*PYTHON, "-m", "pytest", "-q", "-p", "no:randomly", "--rootdir", ".", path.name], directory)


def _check_fragment(block: Block, where: str) -> None:
    first, *lines = block.text.splitlines()
    source = " ".join((ROOT / first.removeprefix(FRAGMENT)).read_text().split())
    for line in lines:
        assert " ".join(line.split()) in source, f"{where}: {line}"


def _check_console(block: Block, directory: Path, server: str) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        assert "ottla " in line, f"only ottla's own commands are shown: {line}"
        shown = run_on_a_terminal(line, directory, server)
        pattern = ".*".join(map(re.escape, expected.split("...")))
        assert re.fullmatch(pattern, shown, re.DOTALL), f"{line}\n{shown}"


def _check_exists(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[:1] == ["make"]:
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets, line
    elif words[:1] == ["ottla"] and name_of(words[1]) is None:
        path = [word for word in words[1:] if re.fullmatch("[a-z-]+", word) and not word.startswith("-")]
        assert CliRunner().invoke(cli, [*path[:2], "--help"]).exit_code == 0, line
