"""Ids for idempotent producers: no two producers of a cluster ever get the same one.

The controller gives out blocks, and a block is on record before anybody sees it. So ids are handed out from memory, and
those that a crash leaves unused are lost, never given twice.
"""

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """The block of ids at hand, and where the next one comes from."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._fetching: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """An id that nobody else has. Raises what the controller raises if there is no block to be had."""
        while not self._block:
            await self.refill()
        return self.take()

    def take(self) -> int:
        """As `next`, if there is one at hand. Raises NoProducerIds if there is not: `refill`, and try again."""
        if not self._block:
            from ottla.transactions.transaction import NoProducerIds  # by then somebody has imported it

            raise NoProducerIds
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    async def refill(self) -> None:
        """Have a block at hand."""
        if self._block:
            return
        fetching = self._fetching
        if fetching is None:
            fetching = self._fetching = asyncio.ensure_future(self._fetch())
            fetching.add_done_callback(_seen)
        await asyncio.wait([fetching])  # whoever asked first may hang up: the others still get their ids
        fetching.result()

    async def _fetch(self) -> None:
        try:
            block = await self._allocate()
            assert block, "a block holds ids"
            self._block = block
        finally:
            self._fetching = None


def _seen(task: "asyncio.Task[None]") -> None:
    """If everybody who waited has hung up, a failure is nobody's: the next one asks again."""
    if not task.cancelled():
        task.exception()
