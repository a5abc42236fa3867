"""What a shell offers behind TAB: topics and groups of the cluster that the line names, and profiles.

Whoever presses TAB waits for a quarter of a second at most. A process of its own asks the cluster and keeps the answer
for half a minute in the user's cache directory; what comes too late is there for the next TAB. Whatever fails offers
nothing and says nothing. Names that a shell would not take for a plain word are not offered: they come from whoever may
create groups, and would land on a command line.
"""

import contextlib
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

CAP_SECONDS = 0.25
FRESH_SECONDS = 30.0
_ASKING_SECONDS = 5  # after that nobody waits for the next TAB any more
_PLAIN_WORD = re.compile(r"[\w.:@%+=/-]{1,249}", re.ASCII)
_NAMES_MAX = 5000


def topics(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """For arguments and options that name a topic. Kafka's own are offered to who begins with their underscore."""
    found = _offered(lambda: _known(ctx, "topics"), incomplete)
    return [each for each in found if incomplete.startswith("_") or not each.value.startswith("__")]


def groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """For arguments and options that name a group."""
    return _offered(lambda: _known(ctx, "groups"), incomplete)


def profiles(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """For arguments and options that name a profile."""
    from ottla.cli import profiles

    return _offered(profiles.names, incomplete)


def _offered(names: Callable[[], Iterable[str]], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    with contextlib.suppress(Exception):  # a line that is being typed is no place for complaints
        found = [each for each in names() if each.startswith(incomplete) and _PLAIN_WORD.fullmatch(each)]
        return [CompletionItem(each) for each in sorted(found)]
    return []


# --- the cache --------------------------------------------------------------------------------------------------------


def cache_dir() -> Path:
    above = os.environ.get("XDG_CACHE_HOME")
    from ottla.cli.profiles import home

    return (Path(above) if above else home() / ".cache") / "ottla" / "completion"


def _known(ctx: click.Context, kind: str) -> list[str]:
    """From the cache, after it was filled if that is needed and succeeds in time."""
    from ottla.cli.session import Session

    with ctx.scope(cleanup=False):
        ctx.ensure_object(Session)
        path = cache_dir() / f"{kind}-{_cluster_of(ctx)}.json"
        if not _is_fresh(path):
            _fill(path, kind)
        return _read(path)


def _cluster_of(ctx: click.Context) -> str:
    """One name for each cluster and each one who asks: others may see other topics."""
    from hashlib import sha256

    from ottla.cli.session import Session

    session = ctx.ensure_object(Session)
    said = sorted((key, each.value) for key, each in session.found().items())
    return sha256(json.dumps([session.servers, said]).encode()).hexdigest()[:32]


def _is_fresh(path: Path) -> bool:
    try:
        return 0 <= time.time() - path.stat().st_mtime < FRESH_SECONDS
    except OSError:
        return False


def _read(path: Path) -> list[str]:
    names = json.loads(path.read_text(encoding="utf-8")) if _is_fresh(path) else []
    return [each for each in names if isinstance(each, str)]


def _write(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(names[:_NAMES_MAX], file)
    new.replace(path)


# --- asking -----------------------------------------------------------------------------------------------------------


def _fill(path: Path, kind: str) -> None:
    """Let a process of its own ask, and return when it has, or when the time is up."""
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        select.select(
            [read], [], [], CAP_SECONDS
        )  # the end of the pipe: the answer is there, or there is none
        os.close(read)
        return
    try:
        _leave(write)
        _write(path, _ask(kind))
    finally:
        os._exit(0)


def _leave(kept: int) -> None:
    """The shell waits until everybody has closed its pipe; and nobody lives here for long."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        os.dup2(nothing, stream.fileno())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_ASKING_SECONDS)
    os.set_inheritable(kept, False)


def _ask(kind: str) -> list[str]:
    """The names of that kind, from the cluster of the session."""
    from ottla.cli.remote import Cluster, asking
    from ottla.cli.session import session

    async def work(asked: Cluster) -> list[str]:
        if kind == "topics":
            return list(await asked.topics(None))
        from ottla.cli.group_members import listed

        return [each.group for each in (await listed(asked, (), ()))[0]]

    return asking(session().servers, float(_ASKING_SECONDS), work)


# --- classic names ----------------------------------------------------------------------------------------------------


def classic_command(name: str) -> click.Command:
    """The options of a classic tool, as click wants them to offer them."""
    from ottla.cli.classic.names import tool_of
    from ottla.cli.session import keeping_server

    values = {"--topic": topics, "--group": groups}
    options: list[click.Parameter] = []
    for action in tool_of(name).parser()._actions:
        spellings = [each for each in action.option_strings if each.startswith("--")]
        if not spellings:
            continue
        option = click.Option(
            [*spellings, f"o{len(options)}"],
            is_flag=action.nargs == 0,
            help=(action.help or "").replace("%%", "%"),
            shell_complete=next((values[each] for each in spellings if each in values), None),
        )
        if "--bootstrap-server" in spellings:
            option.callback = keeping_server
        options.append(option)
    return click.Command(name, params=options, add_help_option=False)
