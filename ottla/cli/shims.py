"""`ottla shims`: kafka-topics and the other classic names as commands of their own.

Each is a script of a few lines that runs this very Python and this very Ottla. They are written on demand only: where a
real Kafka is installed, nobody wants its tools to be replaced unasked. What somebody else has written is left alone.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import click

from ottla.cli.classic.names import CLASSIC
from ottla.cli.lazy import Lazy, LazyGroup
from ottla.cli.session import json_option, quiet_option, session

MARK = "# Written by `ottla shims install`, and removed by `ottla shims remove`."
FAILED, PARTLY = 1, 3
_DEFAULT = "~/.local/bin"
_HEAD_BYTES = 1024
COMMANDS = {
    "install": Lazy("ottla.cli.shims:install", "Write a command for every classic name."),
    "ls": Lazy("ottla.cli.shims:ls", "List the classic names, and what runs under them."),
    "remove": Lazy("ottla.cli.shims:remove", "Remove what was installed."),
}


@click.group(cls=LazyGroup, table=COMMANDS, aliases={"list": "ls", "uninstall": "remove"})
def shims() -> None:
    """Kafka's own tools as commands: kafka-topics, kafka-console-producer.sh and so on.

    `ottla kafka-topics ...` works without them.
    """


_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=_DEFAULT,
    show_default=True,
    metavar="DIR",
    help="Where they are.",
)


@click.command()
@_directory
@click.option(
    "--with-sh/--without-sh", default=True, help="NAME.sh as well as NAME, or NAME alone.  [default: both]"
)
@click.option("--force", is_flag=True, help="Overwrite files that something else has written.")
@quiet_option
def install(directory: Path, with_sh: bool, force: bool) -> int:
    """Write a command for every classic name into a directory on the PATH.

    They run this installation of Ottla: install them again when it has moved.
    """
    directory = directory.expanduser().absolute()
    directory.mkdir(parents=True, exist_ok=True)
    written, kept = [], []
    for path in _paths(directory, with_sh=with_sh):
        if not force and _is_foreign(path):
            kept.append(path)
        else:
            _write(path, script(path.name))
            written.append(path)
    _remark(f"{len(written)} commands are in {directory}")
    for path in kept:
        _complain(f"{path} was written by something else, and is left alone; --force overwrites it")
    _look_at_path(directory)
    return PARTLY if kept else 0


@click.command()
@_directory
@json_option
def ls(directory: Path, as_json: bool) -> None:
    """List the classic names: what they do, and what runs under them now.

    --json: {"directory", "shims": [{"name", "installed", "runs", "is_ottla", "help"}]}.
    """
    from ottla.cli.tables import document, show

    directory = directory.expanduser().absolute()
    rows = []
    for name, classic in CLASSIC.items():
        found = shutil.which(name)
        rows.append(
            {
                "name": name,
                "installed": _is_ours(directory / name),
                "runs": found,
                "is_ottla": found is not None and _is_ours(Path(found)),
                "help": classic.help,
            }
        )
    if as_json:
        document({"directory": str(directory), "shims": rows})
    else:
        told = [
            {**row, **{key: "yes" if row[key] else "no" for key in ("installed", "is_ottla")}} for row in rows
        ]
        show(told, ["name", "installed", "runs", "is_ottla", "help"])


@click.command()
@_directory
@quiet_option
def remove(directory: Path) -> None:
    """Remove what `ottla shims install` has written into a directory, and nothing else."""
    directory = directory.expanduser().absolute()
    ours = [path for path in _paths(directory, with_sh=True) if _is_ours(path)]
    for path in ours:
        path.unlink()
    _remark(f"{len(ours)} commands were removed from {directory}")


# --- the scripts ------------------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """How to run Ottla from anywhere."""

    python: str
    package_parent: str


def _way() -> Way:
    """Not resolved: the Python of a virtual environment is a link, and is what it is by its place."""
    return Way(os.path.abspath(sys.executable), str(Path(__file__).resolve().parents[2]))


def script(name: str, way: Way | None = None) -> str:
    """What is written under that name.

    -P keeps the working directory from standing in for the installed package, whatever directories are in it. If
    Ottla is run from its sources, the installed Python need not know where they are: the script does.
    """
    python, parent = way or _way()
    code = f"import sys; sys.path.append({parent!r}); from ottla.cli.main import main; sys.exit(main())"
    words = [python, "-P", "-c", code, name.removesuffix(".sh")]
    return f'#!/bin/sh\n{MARK}\nexec {" ".join(map(shlex.quote, words))} "$@"\n'


def _paths(directory: Path, *, with_sh: bool) -> list[Path]:
    endings = ["", ".sh"] if with_sh else [""]
    return [directory / f"{name}{ending}" for name in CLASSIC for ending in endings]


def _write(path: Path, text: str) -> None:
    """All of it or nothing: somebody may be starting it at this moment. A link is replaced, not followed."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(os.fsencode(text))  # a path need not be UTF-8
    new.chmod(0o755)
    try:
        new.replace(path)
    except OSError:  # a directory of that name, for one
        new.unlink()
        raise


def _is_ours(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return MARK.encode() in file.read(_HEAD_BYTES).splitlines()
    except OSError:
        return False


def _is_foreign(path: Path) -> bool:
    return os.path.lexists(path) and not _is_ours(path)


# --- remarks ----------------------------------------------------------------------------------------------------------


def _look_at_path(directory: Path) -> None:
    """Say it if the shell will not find them, or finds others first."""
    places = [Path(each).absolute() for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    if directory not in places and directory.resolve() not in [each.resolve() for each in places]:
        _complain(
            f'{directory} is not on the PATH: put this into ~/.profile: export PATH="{directory}:$PATH"'
        )
        return
    for name in CLASSIC:
        found = shutil.which(name)
        if found is not None and Path(found).parent != directory and not _is_ours(Path(found)):
            _complain(f"{found} goes before the {name} in {directory}: put {directory} first on the PATH")
            return


def _remark(sentence: str) -> None:
    if not session().is_quiet:
        click.echo(sentence, err=True)


def _complain(sentence: str) -> None:
    from ottla.cli.tables import say

    say(sentence)
