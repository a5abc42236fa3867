"""A broker in the test's loop and an admin client of it; the broker may be made to look old."""

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ottla.broker.handlers import metadata
from ottla.client.admin.admin import AsyncAdmin
from ottla.testing.broker import AsyncBroker

_HURRIED = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


@asynccontextmanager
async def admin_of_a_broker(**config: object) -> AsyncIterator[tuple[AsyncAdmin, AsyncBroker]]:
    async with (
        AsyncBroker(memory="log.dirs" not in config, config=config) as broker,
        AsyncAdmin(bootstrap_servers=broker.bootstrap_server, **_HURRIED) as admin,
    ):
        yield admin, broker


def make_old(monkeypatch, versions: Mapping[int, int | None]) -> None:
    """Brokers offer these APIs up to these versions, or not at all."""
    rows = [
        dataclasses.replace(row, max_version=versions.get(row.api_key, row.max_version))
        for row in metadata._QUIET_API_KEYS
        if versions.get(row.api_key, 0) is not None
    ]
    monkeypatch.setattr(metadata, "_QUIET_API_KEYS", rows)
