"""Waiting for watermarks with a timeout: what Kafka calls purgatory is an `await` here.

Works in a coroutine that runs in no Task yet, which `asyncio.timeout` does not.
"""

import asyncio
from collections.abc import Iterable

from ottla.core.errors import KafkaError
from ottla.core.watermark import Watermark


async def reach(watermark: Watermark, offset: int, timeout_ms: int) -> bool:
    """Wait until `offset` is reached; False if the time is up first. Raises the error with which it failed."""
    if watermark.value >= offset:
        return True
    outcome = await _first([(watermark, offset)], timeout_ms)
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


async def any_moves(marks: Iterable[tuple[Watermark, int]], timeout_ms: int) -> bool:
    """Wait until one of these watermarks reaches its offset, or fails: then its owner has something new to say.

    False if the time is up first.
    """
    return await _first(marks, timeout_ms) is not False


async def _first(marks: Iterable[tuple[Watermark, int]], timeout_ms: int) -> KafkaError | bool:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[KafkaError | bool] = loop.create_future()

    def told(error: KafkaError | None) -> None:
        if not future.done():
            future.set_result(error or True)

    def time_is_up() -> None:
        if not future.done():
            future.set_result(False)

    waiters = []
    timer = loop.call_later(timeout_ms / 1000, time_is_up)
    try:
        for watermark, offset in marks:
            waiters.append(watermark.on_reach(offset, told))
        return await future
    finally:
        timer.cancel()
        for waiter in waiters:
            waiter.cancel()
