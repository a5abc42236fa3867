"""What came of a command that was about several things: which were done, and a sentence for each that was not.

All failed: the exit code is that of the first. Some failed: 3. Before something is lost, somebody is asked.
"""

import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from ottla.cli.remote import NOT_FOUND, PARTLY, Failed, failed
from ottla.cli.tables import say
from ottla.client.errors import PartialFailure

K = TypeVar("K")
V = TypeVar("V")
_NEAR_MAX = 3


class Settled(NamedTuple):
    """The things that were done, with what came of them, and why the others were not."""

    done: dict[Any, Any]
    failures: dict[Any, Failed]


async def settled(call: Awaitable[Mapping[K, V] | None], keys: Iterable[K] = ()) -> Settled:
    """Wait for a call of the admin client. One that returns nothing has done all of `keys`."""
    try:
        found = await call
    except PartialFailure as error:
        good = {key: each for key, each in error.results.items() if key not in error.errors}
        return Settled(good, {key: failed(why) for key, why in error.errors.items()})
    return Settled(dict.fromkeys(keys) if found is None else dict(found), {})


def finish(failures: Sequence[Failed], *, is_some_done: bool, show: Callable[[], None]) -> int:
    """Show what was done, and say what was not. Raises the first failure if nothing was."""
    if failures and not is_some_done:
        for each in failures[1:]:
            say(each.message)
        raise failures[0]
    show()
    for each in failures:
        say(each.message)
    return PARTLY if failures else 0


def ask_first(question: str, yes: bool) -> None:
    """Raises `Failed` unless somebody says yes, and UsageError if nobody is there to say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("this is not a terminal, so nobody can be asked: say --yes")
    try:
        with _interruptible():
            is_wanted = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise
        raise click.UsageError("nobody answered; say --yes") from None
    if not is_wanted:
        raise Failed("nothing was done")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """While we wait for somebody, Ctrl-C ends it at once: asyncio would only note it, and let us wait on."""
    try:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # not the main thread, which is the one that is interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def unknown(kind: str, name: str, known: Iterable[str]) -> Failed:
    """That there is no such thing, and what may have been meant."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=_NEAR_MAX, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return Failed(f"there is no {kind} {name!r}{hint}", NOT_FOUND)


def counted(count: int, noun: str) -> str:
    """`1 partition`, `3 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
