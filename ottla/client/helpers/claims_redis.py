"""Claims in Redis: for many processes on many machines. Needs the package `redis` (`pip install ottla[redis]`).

A claim is `SET key token NX PX lease`, a message that is done has the value `done` for `ttl_ms`. Redis acknowledges
before it writes to its disk: after its crash, or a failover to a replica, it may have forgotten the last moments, and
messages of those are done again.
"""

import inspect
import uuid
from typing import Any

from ottla.client.helpers.claims import Claim
from ottla.client.helpers.faces import drive

_DONE = b"done"
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
_TRIES = 3
"""A claim may lapse between the question who has it and the answer."""


class AsyncRedisStore:
    """With a client of `redis.asyncio`, or a URL for one."""

    def __init__(
        self,
        client: Any,
        *,
        ttl_ms: float = 7 * 24 * 3600 * 1000,
        lease_ms: float = 60_000,
        prefix: str = "ottla:message:",
    ) -> None:
        """Messages that are done are remembered for `ttl_ms`: as long as a duplicate may take to come. A claim whose
        owner has crashed lapses after `lease_ms`: longer than any message takes. `prefix` is the application's own."""
        self._is_own = isinstance(client, str)
        if isinstance(client, str):
            from redis import asyncio as redis

            client = redis.Redis.from_url(client)
        self._client, self._prefix = client, prefix
        self._ttl_ms, self._lease_ms = round(ttl_ms), round(lease_ms)
        self._token = uuid.uuid4().hex.encode()

    async def claim(self, message_id: str) -> Claim:
        key = self._prefix + message_id
        for _ in range(_TRIES):
            if await _answer(self._client.set(key, self._token, nx=True, px=self._lease_ms)):
                return Claim.OURS
            value = await _answer(self._client.get(key))
            if value in (_DONE, _DONE.decode()):  # a client may decode answers
                return Claim.DONE
            if value is not None:
                break
        return Claim.BUSY

    async def confirm(self, message_id: str) -> None:
        await _answer(self._client.set(self._prefix + message_id, _DONE, px=self._ttl_ms))

    async def release(self, message_id: str) -> None:
        await _answer(self._client.eval(_RELEASE, 1, self._prefix + message_id, self._token))

    async def close(self) -> None:
        """End the connections, if they were made here."""
        if self._is_own:
            await self._client.aclose()


class RedisStore:
    """With a client of `redis`, or a URL for one. For any thread."""

    def __init__(
        self,
        client: Any,
        *,
        ttl_ms: float = 7 * 24 * 3600 * 1000,
        lease_ms: float = 60_000,
        prefix: str = "ottla:message:",
    ) -> None:
        """As AsyncRedisStore."""
        self._own = None
        if isinstance(client, str):
            import redis

            client = self._own = redis.Redis.from_url(client)
        self._inner = AsyncRedisStore(client, ttl_ms=ttl_ms, lease_ms=lease_ms, prefix=prefix)

    def claim(self, message_id: str) -> Claim:
        return drive(self._inner.claim(message_id))

    def confirm(self, message_id: str) -> None:
        drive(self._inner.confirm(message_id))

    def release(self, message_id: str) -> None:
        drive(self._inner.release(message_id))

    def close(self) -> None:
        """End the connections, if they were made here."""
        if self._own is not None:
            self._own.close()


async def _answer(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
