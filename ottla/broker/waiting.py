"""Waiting for watermarks with a timeout: what Kafka calls purgatory is an `await` here.

Works in a coroutine that runs in no Task yet, which `asyncio.timeout` does not.
"""

import asyncio
from collections.abc import Callable, Iterable

from ottla.core.errors import KafkaError
from ottla.core.watermark import Watermark


async def reach(watermark: Watermark, offset: int, timeout_ms: int) -> bool:
    """Wait until `offset` is reached; False if the time is up first. Raises the error with which it failed."""
    if watermark.value >= offset:
        return True
    future, tell = _future()
    waiter = watermark.on_reach(offset, lambda error: tell(error or True))
    timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, tell, False)
    try:
        outcome = await future
    finally:
        timer.cancel()
        waiter.cancel()
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


async def any_moves(watermarks: Iterable[Watermark], timeout_ms: int) -> bool:
    """Wait until one of these moves, or fails: then its owner has something new to say.

    False if the time is up first.
    """
    future, tell = _future()
    watched: list[Watermark] = []

    def moved() -> None:
        tell(True)

    timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, tell, False)
    try:
        for watermark in watermarks:
            watermark.watchers[moved] = None
            watched.append(watermark)
        return await future is True
    finally:
        timer.cancel()
        for watermark in watched:
            watermark.watchers.pop(moved, None)


def _future() -> "tuple[asyncio.Future[KafkaError | bool], Callable[[KafkaError | bool], None]]":
    """A future, and how to settle it: only the first word counts, and none after a cancellation."""
    future: asyncio.Future[KafkaError | bool] = asyncio.get_running_loop().create_future()

    def tell(outcome: KafkaError | bool) -> None:
        if not future.done():
            future.set_result(outcome)

    return future, tell
