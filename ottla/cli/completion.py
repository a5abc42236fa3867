"""`ottla completion`: TAB completes commands, options, topics and groups, in bash, zsh and fish.

The shell calls `ottla` with _OTTLA_COMPLETE set and the line so far, and gets the words that may follow.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.shell_completion import (
    BashComplete,
    FishComplete,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from ottla.cli.lazy import Lazy, LazyGroup
from ottla.cli.session import quiet_option, session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_OTTLA_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
MARK = "# Written by `ottla completion install`, and overwritten by it."
COMMANDS = {
    "install": Lazy("ottla.cli.completion:install", "Put the completion where the shell finds it."),
    "show": Lazy("ottla.cli.completion:show", "Print the completion of a shell."),
}
_BASH = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:$COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -F %(complete_func)s %(prog_name)s
"""


class LineInBash(BashComplete):
    """Reads the line itself: bash cuts words at every colon, and -b HOST:PORT would be three of them."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> "list[CompletionItem]":
        """A word that has a colon is replaced from there on only."""
        found = super().get_completions(args, incomplete)
        known, colon, _ = incomplete.rpartition(":")
        for each in found:
            each.value = each.value.removeprefix(known + colon)
        return found


class WholeInFish(FishComplete):
    """Shows descriptions up to their end: click's own script cuts them at the first comma."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def answer() -> int:
    """What the shell asked for by the variable. Never a complaint: it would land in the line that is being typed."""
    from ottla.cli.main import cli

    instruction = os.environ.pop(VARIABLE)
    try:
        add_completion_class(LineInBash)
        return shell_complete(cli, {}, "ottla", VARIABLE, instruction)
    except Exception:
        return 1


def source(shell: str) -> str:
    """The script for that shell."""
    from ottla.cli.main import cli

    own: dict[str, type[ShellComplete]] = {"bash": LineInBash, "fish": WholeInFish}
    kind = own.get(shell) or get_completion_class(shell)
    assert kind is not None, "click knows the three shells"
    made = kind(cli, {}, "ottla", VARIABLE)
    return made.source_template % made.source_vars()


@click.group(cls=LazyGroup, table=COMMANDS)
def completion() -> None:
    """TAB for commands, options, topics, groups and profiles, in bash, zsh and fish."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def show(shell: str) -> None:
    """Print the completion of a shell, as in: source <(ottla completion show bash)."""
    click.echo(source(shell), nl=False)


@click.command()
@click.option("--shell", type=click.Choice(SHELLS), help="For which.  [default: the one of SHELL]")
@click.option("--force", is_flag=True, help="Overwrite a file that something else has written.")
@quiet_option
def install(shell: str | None, force: bool) -> None:
    """Put the completion where the shell looks for it, for this user."""
    place = place_of(shell or _usual_shell())
    text = f"{source(place.shell).rstrip()}\n{MARK}\n"
    before = _text(place.path)
    if before is not None and MARK not in before and not force:
        raise click.UsageError(f"{place.path} is not ours; --force overwrites it")
    if before == text:
        click.echo(f"{place.path} is up to date")
    else:
        place.path.parent.mkdir(parents=True, exist_ok=True)
        place.path.write_text(text, encoding="utf-8")
        click.echo(f"{place.path} {'is new' if before is None else 'was replaced'}")
    if not session().is_quiet:
        click.echo(place.next, err=True)


class Place(NamedTuple):
    """Where the completion of a shell belongs, and what its user does then."""

    shell: str
    path: Path
    next: str


def place_of(shell: str) -> Place:
    data = _directory("XDG_DATA_HOME", ".local", "share")
    if shell == "bash":
        own = os.environ.get("BASH_COMPLETION_USER_DIR")
        folder = (Path(own) if own else data / "bash-completion") / "completions"
        advice = (
            "Open a new shell. It needs the package bash-completion; without it, put this into ~/.bashrc: "
        )
        return Place(shell, folder / "ottla", advice + f"source {folder / 'ottla'}")
    if shell == "zsh":
        folder = data / "zsh" / "site-functions"
        advice = "Open a new shell. Unless it is there, put this into ~/.zshrc before compinit: "
        return Place(shell, folder / "_ottla", advice + f"fpath=({folder} $fpath)")
    folder = _directory("XDG_CONFIG_HOME", ".config") / "fish" / "completions"
    return Place(shell, folder / "ottla.fish", "Nothing else is to be done: fish finds it by itself.")


def _directory(variable: str, *default: str) -> Path:
    from ottla.cli.profiles import home

    own = os.environ.get(variable)
    return Path(own) if own else home().joinpath(*default)


def _usual_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"SHELL says {name or 'nothing'!r}; say --shell {', --shell '.join(SHELLS)}")
    return name


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
