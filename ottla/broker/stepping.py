"""Running a coroutine at once, for as long as it need not wait.

Most requests are answered without waiting for anything, and a Task for each would cost more than many of them do. So a
coroutine is stepped by hand first; only if it suspends does a Task take over where it stands.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def begin(coroutine: Coroutine[Any, Any, T]) -> "T | asyncio.Task[T]":
    """The result, if it is there without waiting; else a Task that will have it.

    Up to its first suspension the coroutine runs in no Task: `asyncio.timeout` and the like would not work there.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    rest = _rest(coroutine, waits_for)
    rest.send(None)  # from here on a Task that is cancelled before its first step tells the coroutine so
    return asyncio.get_running_loop().create_task(rest)


async def _rest(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> T:
    """What is left of a coroutine that has suspended once. Tasks take nothing but coroutines since Python 3.12."""
    return await _steps(coroutine, waits_for)


@types.coroutine
def _steps(coroutine: Coroutine[Any, Any, T], ahead: Any) -> Generator[Any, Any, T]:
    """Yields once for `begin`, then what the coroutine waits for already, then what it waits for next."""
    waits_for = None
    try:
        while True:
            try:
                value = yield waits_for
            except GeneratorExit:
                raise
            except BaseException as error:
                waits_for, ahead = coroutine.throw(error), None
            else:
                waits_for, ahead = ahead if ahead is not None else coroutine.send(value), None
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        coroutine.close()
