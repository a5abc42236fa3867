"""Do a message once, though it comes twice: because its sender sent it again, or its reader read it again.

    once = Deduplicator(RedisStore("redis://localhost"), id_of=from_header("message-id"))
    for record in consumer:
        with once(record) as is_new:
            if is_new:
                handle(record)
        consumer.commit()

A message is claimed before the work and confirmed after it; if the work raises, the claim is released. While somebody
else has the claim, `MessageBusyError` is raised: the message is neither done nor ours, and must be tried again later
(it is retriable; `RetryInPlace` with `once.wrap(handle)` does that).

    store               recognises                                     a crash between the work and `confirm`
    MemoryStore         what this process did, within a window         the message is done again
    SqliteStore         what processes of this machine did             done again, when the claim has lapsed
    RedisStore          what all who share the Redis did               done again, when the claim has lapsed
    SharedSqliteStore   what is in the application's database          cannot be: effect and id are one transaction

So no store loses a message, and the last one does every message exactly once. A message that comes after it was
forgotten (the window, `ttl_ms`) is new. Commit offsets after the block, never before.
"""

import functools
import hashlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ottla.client.errors import MessageBusyError
from ottla.client.helpers.attempts import Handler, named
from ottla.client.helpers.claims import Claim as Claim
from ottla.client.helpers.claims import ClaimStore as ClaimStore
from ottla.client.helpers.claims import MemoryStore as MemoryStore
from ottla.client.helpers.claims_redis import AsyncRedisStore as AsyncRedisStore
from ottla.client.helpers.claims_redis import RedisStore as RedisStore
from ottla.client.helpers.claims_sqlite import SharedSqliteStore as SharedSqliteStore
from ottla.client.helpers.claims_sqlite import SqliteStore as SqliteStore
from ottla.client.helpers.faces import drive, settled
from ottla.client.helpers.failures import Failure
from ottla.client.records import ConsumerRecord

IdOf = Callable[[ConsumerRecord], "str | bytes | None"]
"""The id of a message. One without (None) is done whenever it comes."""

_ID_MAX = 200  # characters; what is longer is known by its hash


def from_header(name: str) -> IdOf:
    """The id that the sender gave it: the last header of this name."""

    def id_of(record: ConsumerRecord) -> bytes | None:
        return next((value for key, value in reversed(record.headers) if key == name), None)

    return id_of


def from_key(record: ConsumerRecord) -> str | bytes | None:
    """The key, where each message has its own."""
    key = record.key
    return key if key is None or isinstance(key, str | bytes) else str(key)


def from_value(function: Callable[[Any], "str | bytes | None"]) -> IdOf:
    """What a function finds in the value."""
    return lambda record: function(record.value)


def from_place(record: ConsumerRecord) -> str:
    """Topic, partition and offset: recognises what is read twice, but not what was sent twice. Of a record in a retry
    topic, those of its origin."""
    origin = Failure.of(record)
    return f"{origin.topic}-{origin.partition}-{origin.offset}"


class AsyncDeduplicator:
    """With any store; where its calls return coroutines, they are awaited."""

    def __init__(self, store: ClaimStore, id_of: IdOf = from_place) -> None:
        self._store, self._id_of = store, id_of

    async def claim(self, record: ConsumerRecord) -> Claim:
        """Before the work. After `Claim.OURS`, call `confirm` or `release`."""
        message_id = self._id(record)
        if message_id is None:
            return Claim.OURS
        found: Claim = await settled(self._store.claim(message_id))
        return found

    async def confirm(self, record: ConsumerRecord) -> None:
        """The work is done."""
        if (message_id := self._id(record)) is not None:
            await settled(self._store.confirm(message_id))

    async def release(self, record: ConsumerRecord) -> None:
        """The work has failed."""
        if (message_id := self._id(record)) is not None:
            await settled(self._store.release(message_id))

    @asynccontextmanager
    async def __call__(self, record: ConsumerRecord) -> AsyncIterator[bool]:
        """`async with once(record) as is_new`. Raises MessageBusyError while somebody else is at it."""
        if not await self._is_new(record):
            yield False
            return
        try:
            yield True
        except BaseException:
            await self.release(record)
            raise
        await self.confirm(record)

    def wrap(self, handler: Handler) -> Handler:
        """A handler that is called once for each message; for whatever takes a handler."""

        @functools.wraps(handler)
        async def handle(record: ConsumerRecord) -> None:
            async with self(record) as is_new:
                if is_new:
                    answer = handler(record)
                    if inspect.isawaitable(answer):
                        await answer

        return handle

    async def _is_new(self, record: ConsumerRecord) -> bool:
        found = await self.claim(record)
        if found is Claim.BUSY:
            raise MessageBusyError(f"somebody is at work on {named(record)}, or was when it crashed")
        return found is Claim.OURS

    def _id(self, record: ConsumerRecord) -> str | None:
        found = self._id_of(record)
        if isinstance(found, bytes):
            found = found.decode("latin-1")  # different bytes stay different
        if found is not None and len(found) > _ID_MAX:
            return hashlib.sha256(found.encode(errors="surrogatepass")).hexdigest()
        return found


class Deduplicator:
    """For programs without an event loop."""

    def __init__(self, store: ClaimStore, id_of: IdOf = from_place) -> None:
        self._inner = AsyncDeduplicator(store, id_of)

    def claim(self, record: ConsumerRecord) -> Claim:
        """Before the work. After `Claim.OURS`, call `confirm` or `release`."""
        return drive(self._inner.claim(record))

    def confirm(self, record: ConsumerRecord) -> None:
        """The work is done."""
        drive(self._inner.confirm(record))

    def release(self, record: ConsumerRecord) -> None:
        """The work has failed."""
        drive(self._inner.release(record))

    @contextmanager
    def __call__(self, record: ConsumerRecord) -> Iterator[bool]:
        """`with once(record) as is_new`. Raises MessageBusyError while somebody else is at it."""
        block = self._inner(record)
        is_new = drive(block.__aenter__())
        try:
            yield is_new
        except BaseException as error:
            drive(block.__aexit__(type(error), error, error.__traceback__))
            raise
        drive(block.__aexit__(None, None, None))

    def wrap(self, handler: Handler) -> Handler:
        """A handler that is called once for each message; for whatever takes a handler."""

        @functools.wraps(handler)
        def handle(record: ConsumerRecord) -> None:
            with self(record) as is_new:
                if is_new:
                    handler(record)

        return handle
