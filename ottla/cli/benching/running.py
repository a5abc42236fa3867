"""The loop of a measurement, and the topics that are made for it.

Such a topic is called ottla-bench-..., and is deleted when the measurement is over, however it ended: done, failed,
interrupted, or told to end. Nothing else is ever deleted.
"""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from ottla.cli.remote import Admin, admin_config, failed, first_peer
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.cli.tables import say
from ottla.cli.targets import the_topic
from ottla.client.admin.routes import Routes
from ottla.client.admin.topics import create_topic, delete_topic
from ottla.core.errors import ConfigError, ErrorCode, KafkaError, ProtocolError
from ottla.network.peer import PeerClosed, RequestTimedOut

T = TypeVar("T")
PREFIX = "ottla-bench-"


def benchmark(work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
    """Do the work on a fast loop, with the cluster that the session names."""
    config = admin_config(session().timeout or DEFAULT_TIMEOUT)

    async def connected() -> T:
        _end_in_order()
        routes = Routes(config)
        try:
            await first_peer(routes)
            return await work(Admin(routes))
        finally:
            await routes.cluster.close()

    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            return runner.run(connected())
    except asyncio.CancelledError:
        raise click.Abort() from None
    except ConfigError as error:  # of a producer or consumer; an admin client knows fewer settings
        raise click.UsageError(str(error)) from None
    except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError) as error:
        raise failed(error) from error


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _end_in_order() -> None:
    """SIGTERM ends a measurement as Ctrl-C does: its topics are deleted first."""
    task = asyncio.current_task()
    assert task is not None, "called by a coroutine"
    with contextlib.suppress(ValueError, RuntimeError):  # not the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


@asynccontextmanager
async def scratch_topic(
    admin: Admin, partitions: int = 1, replication_factor: int = -1
) -> AsyncIterator[str]:
    """A new topic with a name of its own, until the block ends."""
    name = f"{PREFIX}{partitions}-{secrets.token_hex(4)}"
    try:
        await create_topic(admin, name, partitions, replication_factor)
        yield name
    finally:
        await _forget(admin, name)


async def _forget(admin: Admin, name: str) -> None:
    """What cannot be deleted is named, so that somebody else can do it."""
    assert name.startswith(PREFIX), "no topic of anybody else is deleted"
    try:
        await delete_topic(admin, name)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            say(f"{name} could not be deleted: {error}")
    except (PeerClosed, RequestTimedOut, ProtocolError) as error:
        say(f"{name} could not be deleted: {error}")


@asynccontextmanager
async def topic_or_scratch(
    admin: Admin, topic: str | None, partitions: int, replication_factor: int
) -> AsyncIterator[str]:
    """The topic that was named, or one for the time being. A name that is mistyped makes no topic."""
    if topic is not None:
        await the_topic(admin, topic)
        yield topic
        return
    async with scratch_topic(admin, partitions, replication_factor) as name:
        yield name
