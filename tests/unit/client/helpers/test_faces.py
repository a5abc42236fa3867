"""Coroutines run by hand."""

import asyncio

import pytest

from ottla.client.errors import IllegalStateError
from ottla.client.helpers.faces import drive, settled


def test_a_coroutine_of_blocking_calls_runs_to_its_end():
    async def work() -> int:
        return await settled(40) + 2

    assert drive(work()) == 42


def test_what_it_raises_is_raised():
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        drive(work())


def test_one_that_waits_for_a_loop_is_refused_and_closed():
    closed = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(IllegalStateError, match="Async"):
        drive(work())
    assert closed
