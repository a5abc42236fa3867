"""Orders leave in order, again and again until they are answered, and no longer than there is somebody to answer."""

import asyncio
import functools

import pytest

from ottla.broker.channels import Channels
from ottla.controller.decision import UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import BrokerLife
from ottla.replication.state import BrokerImage
from tests.unit.broker.controlled import until

ME, OTHER, REBORN, THIRD = (BrokerImage(id, epoch, ()) for id, epoch in ((0, 1), (1, 2), (1, 9), (2, 3)))


def scenario(test):
    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Wire:
    """Answers as it is told: with an error once, or only when the gate is open."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, str, int]] = []
        self.errors: list[Exception] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.is_closed = False

    async def ask(self, broker, order):
        if broker.node_id in self.gates:
            await self.gates[broker.node_id].wait()
        if self.errors:
            raise self.errors.pop(0)
        self.heard.append((broker.node_id, order.effect.deleted[0], order.broker_epoch))
        return {}

    async def close(self) -> None:
        self.is_closed = True


class Own:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def follow(self, order):
        if self.gate is not None:
            await self.gate.wait()
        if self.error:
            raise self.error
        self.heard.append(order.effect.deleted[0])
        return {}


def news(broker, name):
    return UpdateMetadata(broker.node_id, deleted=(name,))


def channels(wire, own=None):
    return Channels(0, (own or Own()).follow, wire, retry_seconds=0)


def send(out, broker, name):
    return out.send(broker, news(broker, name), 0, 5)


@scenario
async def test_orders_arrive_in_the_order_in_which_they_were_given():
    wire = Wire()
    out = channels(wire)
    await asyncio.gather(*(send(out, OTHER, name) for name in "abc"))
    assert wire.heard == [(1, name, 2) for name in "abc"]


@scenario
async def test_what_is_not_answered_is_said_again_before_anything_else():
    wire = Wire()
    wire.errors = [ConnectionError("gone"), ConnectionError("still"), TimeoutError("late")]
    out = channels(wire)
    await asyncio.gather(send(out, OTHER, "a"), send(out, OTHER, "b"))
    assert [name for _, name, _ in wire.heard] == ["a", "b"]


@scenario
async def test_a_refusal_is_an_answer():
    wire = Wire()
    wire.errors = [KafkaError(ErrorCode.STALE_BROKER_EPOCH, "another life")]
    out = channels(wire)
    first, second = send(out, OTHER, "a"), send(out, OTHER, "b")
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        await first
    assert await second == {}


@scenario
async def test_a_slow_broker_holds_up_nobody_else():
    wire = Wire()
    wire.gates[1] = asyncio.Event()
    out = channels(wire)
    slow = send(out, OTHER, "a")
    await send(out, THIRD, "a")
    assert not slow.done()
    wire.gates[1].set()
    await slow


@scenario
async def test_a_life_that_is_over_is_told_nothing_more_and_the_next_begins_anew():
    wire = Wire()
    wire.gates[1] = asyncio.Event()
    out = channels(wire)
    old = [send(out, OTHER, "a"), send(out, OTHER, "b")]
    await asyncio.sleep(0)
    out.keep([BrokerLife(1, REBORN.epoch)])
    assert [future.result() for future in old] == [None, None]
    wire.gates[1].set()
    await send(out, REBORN, "c")
    assert wire.heard == [(1, "c", 9)]


@scenario
async def test_nobody_is_asked_for_ever_after_the_end():
    wire = Wire()
    wire.errors = [ConnectionError("gone")] * 1000
    out = channels(wire)
    future = send(out, OTHER, "a")
    await until(lambda: len(wire.errors) < 1000)
    await out.close()
    left = len(wire.errors)
    assert await future is None
    await asyncio.sleep(0)
    assert len(wire.errors) == left and wire.is_closed


@scenario
async def test_our_own_broker_is_called_and_finishes_what_it_is_at():
    own = Own()
    own.gate = asyncio.Event()
    out = channels(Wire(), own)
    first, second = send(out, ME, "a"), send(out, ME, "b")
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(out.close())
    await asyncio.sleep(0)
    assert not closing.done()
    own.gate.set()
    await closing
    assert own.heard == ["a"], "half an order leaves half a log; the next one is not begun"
    assert (await first, await second) == (None, None)


@scenario
async def test_the_end_waits_for_our_own_broker_also_if_the_office_was_lost_before():
    own = Own()
    own.gate = asyncio.Event()
    out = channels(Wire(), own)
    send(out, ME, "a")
    await asyncio.sleep(0)
    out.keep(())
    closing = asyncio.ensure_future(out.close())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not closing.done(), "its logs are about to be closed"
    own.gate.set()
    await closing
    assert own.heard == ["a"]


@scenario
async def test_what_our_own_broker_cannot_do_it_is_not_asked_again():
    own = Own()
    own.error = OSError("disk")
    out = channels(Wire(), own)
    with pytest.raises(OSError, match="disk"):
        await send(out, ME, "a")


@scenario
async def test_without_a_line_nobody_is_reached():
    assert await send(channels(None), OTHER, "a") is None
