"""Questions to other brokers, many at a time: whatever waits for the same broker goes in one request.

A question that finds nothing under way leaves at once, with all that were asked in the same turn of the event loop.
Later ones wait for a place, and then travel together. So a busy coordinator sends few requests, and an idle one waits
for nobody. Who asks learns why there is no answer, and decides by itself whether to ask again, and whom.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import Generic, TypeVar

from ottla.broker.peers import Peers
from ottla.core.errors import OttlaError
from ottla.network.peer import Peer, PeerClosed

Q = TypeVar("Q")
A = TypeVar("A")
_Asked = tuple[Q, "asyncio.Future[A]"]

UNDER_WAY_MAX = 5
"""Requests to one broker. Answers come in order, so one that waits for slow replicas holds up those behind it; what
they ask for is done meanwhile."""
TOGETHER_MAX = 1_000
"""Questions in one request: more would make it too large to be served without others waiting."""


class Couriers(Generic[Q, A]):
    """One purpose, and a line to each broker that it concerns."""

    def __init__(
        self,
        peers: Peers,
        deliver: Callable[[Peer, Sequence[Q]], Awaitable[Sequence[A]]],
        identity: Callable[[Q], Hashable] = id,
    ) -> None:
        """`deliver` asks all of these in one request, and returns their answers in order. Of two questions of the same
        `identity` the later one waits for the next request."""
        self._peers = peers
        self._deliver = deliver
        self._identity = identity
        self._lines: dict[int, _Line[Q, A]] = {}

    async def ask(self, broker_id: int, question: Q) -> A:
        """Raises OttlaError or OSError if there is no answer. It may have been carried out all the same."""
        line = self._lines.get(broker_id)
        if line is None:
            line = self._lines[broker_id] = _Line(
                broker_id, self._peers, self._deliver, self._identity, purpose=(id(self), broker_id)
            )
        return await line.ask(question)

    def keep(self, alive: Collection[int]) -> None:
        """Nobody else is there any more: whoever waits for one of them need not wait for a timeout."""
        for broker_id in self._lines.keys() - set(alive):
            self._lines.pop(broker_id).close(f"broker {broker_id} is not alive")

    async def close(self) -> None:
        """Leave no task and no connection behind."""
        lines = list(self._lines.values())
        self._lines.clear()
        for line in lines:
            line.close("the broker stops")
        for line in lines:
            await line.ended()


class _Line(Generic[Q, A]):
    """What is asked of one broker."""

    def __init__(
        self,
        broker_id: int,
        peers: Peers,
        deliver: Callable[[Peer, Sequence[Q]], Awaitable[Sequence[A]]],
        identity: Callable[[Q], Hashable],
        *,
        purpose: Hashable,
    ) -> None:
        self._broker_id = broker_id
        self._peers = peers
        self._deliver = deliver
        self._identity = identity
        self._purpose = purpose
        self._waiting: deque[_Asked[Q, A]] = deque()
        self._trips: set[asyncio.Task[None]] = set()
        self._is_boarding = False
        """Is there a trip that will take along what waits?"""

    async def ask(self, question: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        self._set_off()
        return await answer

    def _set_off(self) -> None:
        if self._waiting and not self._is_boarding and len(self._trips) < UNDER_WAY_MAX:
            self._is_boarding = True
            trip = asyncio.get_running_loop().create_task(self._trip(), name=f"ask broker {self._broker_id}")
            self._trips.add(trip)
            trip.add_done_callback(self._returned)

    def _returned(self, trip: "asyncio.Task[None]") -> None:
        self._trips.discard(trip)
        if not trip.cancelled():
            self._set_off()

    async def _trip(self) -> None:
        """Take along what waits when the connection is there, and bring back the answers."""
        taken: list[_Asked[Q, A]] = []
        try:
            try:
                peer = await self._peers.to(self._broker_id, self._purpose)
            finally:
                taken = self._take()
                self._is_boarding = False
            self._set_off()  # more may wait than go together
            if taken:
                answers = await self._deliver(peer, [question for question, _ in taken])
                for (_, future), answer in zip(taken, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        except (OttlaError, OSError) as error:
            self._peers.drop(self._purpose)
            self._let_down(taken, error)
        finally:  # nobody waits for ever, whatever our mistake
            self._let_down(taken, PeerClosed(f"broker {self._broker_id} was not heard to the end"))

    def _take(self) -> "list[_Asked[Q, A]]":
        """Those that go together; nothing that nobody waits for any more."""
        taken: dict[Hashable, _Asked[Q, A]] = {}
        later: list[_Asked[Q, A]] = []
        while self._waiting and len(taken) < TOGETHER_MAX:
            entry = self._waiting.popleft()
            if entry[1].done():
                continue
            if self._identity(entry[0]) in taken:
                later.append(entry)
            else:
                taken[self._identity(entry[0])] = entry
        self._waiting.extendleft(reversed(later))
        return list(taken.values())

    @staticmethod
    def _let_down(taken: "Sequence[_Asked[Q, A]]", error: Exception) -> None:
        for _, future in taken:
            if not future.done():
                future.set_exception(error)
                future.exception()  # counts as seen: who asked may be gone

    def close(self, reason: str) -> None:
        for trip in self._trips:
            trip.cancel()
        self._peers.drop(self._purpose)
        while self._waiting:
            self._let_down(self._take(), PeerClosed(reason))

    async def ended(self) -> None:
        if self._trips:
            await asyncio.wait(self._trips)
