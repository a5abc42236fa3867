"""From the controller to every broker: orders go out one after the other, and again until they are answered.

Each life of a broker has a queue of its own. Nobody waits here but the queue: a broker that is slow, or dead without
anybody having noticed, holds up nobody else, least of all the controller. What a life has not answered when it is over
need not be answered any more; whoever lives next is told everything anew.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from ottla.broker.orders import Answers, Order
from ottla.controller.decision import Effect
from ottla.core.errors import KafkaError, OttlaError
from ottla.replication.exchange import BrokerLife
from ottla.replication.state import BrokerImage

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1


class Line(Protocol):
    """How an order gets to another broker."""

    async def ask(self, broker: BrokerImage, order: Order) -> Answers:
        """Raises KafkaError if the broker refuses the whole, and OSError or another OttlaError if there is no answer:
        then it is asked again."""

    async def close(self) -> None:
        """Hang up."""


class Channels:
    """The queues of one controller. Our own broker has one as well, that ends in a call."""

    def __init__(
        self,
        node_id: int,
        own: Callable[[Order], Awaitable[Answers]],
        line: Line | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._node_id = node_id
        self._own = own
        self._line = line
        self._retry_seconds = retry_seconds
        self._channels: dict[BrokerLife, _Channel] = {}
        self._ending: list[_Channel] = []
        """Of lives that are over; our own broker may still be at something."""
        self._sent = 0
        """Orders so far: each has its number, by which late copies are known."""

    def send(
        self, broker: BrokerImage, effect: Effect, controller_id: int, controller_epoch: int
    ) -> "asyncio.Future[Answers | None]":
        """What the broker answers; None if it never will. Raises KafkaError if it refuses."""
        life = BrokerLife(broker.node_id, broker.epoch)
        channel = self._channels.get(life)
        if channel is None:
            channel = self._channels[life] = self._open(broker)
        self._sent += 1
        return channel.send(Order(effect, controller_id, controller_epoch, broker.epoch, self._sent))

    def _open(self, broker: BrokerImage) -> "_Channel":
        if broker.node_id == self._node_id:
            return _Channel(str(broker.node_id), self._own, None)
        line = self._line
        if line is None:
            return _Channel(str(broker.node_id), None, None)
        return _Channel(str(broker.node_id), lambda order: line.ask(broker, order), self._retry_seconds)

    def keep(self, lives: Iterable[BrokerLife]) -> None:
        """All other lives are over: what they have not answered is of no interest any more."""
        kept = set(lives)
        self._ending = [channel for channel in self._ending if channel.is_at_work]
        for life in [life for life in self._channels if life not in kept]:
            channel = self._channels.pop(life)
            channel.end()
            self._ending.append(channel)

    async def close(self) -> None:
        """Send nothing more. Returns when our own broker has done what it is at."""
        self.keep(())
        for channel in self._ending:
            await channel.rest()
        if self._line is not None:
            await self._line.close()


class _Channel:
    """The orders for one life of a broker. Without `ask` nobody is reached; without `retry_seconds`, asked once."""

    def __init__(
        self,
        name: str,
        ask: Callable[[Order], Awaitable[Answers]] | None,
        retry_seconds: float | None,
    ) -> None:
        self._name = name
        self._ask = ask
        self._retry_seconds = retry_seconds
        self._queue: deque[tuple[Order, asyncio.Future[Answers | None]]] = deque()
        self._work: asyncio.Task[None] | None = None
        self._is_over = False

    def send(self, order: Order) -> "asyncio.Future[Answers | None]":
        future: asyncio.Future[Answers | None] = asyncio.get_running_loop().create_future()
        if self._ask is None or self._is_over:
            future.set_result(None)
            return future
        self._queue.append((order, future))
        if self._work is None:
            name = f"orders to broker {self._name}"
            self._work = asyncio.get_running_loop().create_task(self._send_all(self._ask), name=name)
        return future

    @property
    def is_at_work(self) -> bool:
        return self._work is not None and not self._work.done()

    def end(self) -> None:
        """The life is over."""
        self._is_over = True
        for _, future in self._queue:
            if not future.done():
                future.set_result(None)
        self._queue.clear()
        if self._work is not None and self._retry_seconds is not None:
            self._work.cancel()  # what our own broker is at, it finishes: half an order leaves half a log

    async def rest(self) -> None:
        if self._work is not None:
            await asyncio.wait([self._work])

    async def _send_all(self, ask: Callable[[Order], Awaitable[Answers]]) -> None:
        try:
            while self._queue:
                order, future = self._queue[0]
                await self._send(ask, order, future)
                if self._queue and self._queue[0][1] is future:
                    self._queue.popleft()
        finally:
            self._work = None

    async def _send(
        self,
        ask: Callable[[Order], Awaitable[Answers]],
        order: Order,
        future: "asyncio.Future[Answers | None]",
    ) -> None:
        """Ask until there is an answer, be it a refusal."""
        is_news = True
        while not future.done():
            try:
                answers = await ask(order)
            except Exception as error:
                if self._is_worth_another(error):
                    logger.log(
                        logging.WARNING if is_news else logging.DEBUG,
                        "broker %s cannot be told %s: %s",
                        self._name,
                        type(order.effect).__name__,
                        error,
                    )
                    is_news = False
                    await asyncio.sleep(self._retry_seconds or 0)
                elif not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(answers)

    def _is_worth_another(self, error: Exception) -> bool:
        is_lost = isinstance(error, OSError | OttlaError) and not isinstance(error, KafkaError)
        return is_lost and self._retry_seconds is not None
