"""A metadata store in the world: one tree that never fails, and sessions with it that do.

Each session talks to the store, which is called `store` in the network, by a connection that keeps the order. The
store forgets a session that it has not heard of for too long: because the node is down, paused, or cut off. The node
hears of that when it can be reached again, and may believe for a while that it still holds what it no longer holds.
A session that has heard nothing for two thirds of its timeout knows that something is wrong (SUSPENDED), gives up
what it asked, of which nobody knows whether it was done, and begins a new connection.

`hiccup` is how likely a connection breaks at a request: the seed decides whether before it arrived, or before its
answer did.
"""

import asyncio
import contextlib
import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.metadata.store import (
    Delete,
    Node,
    NoNode,
    Op,
    SessionLost,
    SessionState,
    SingleWrites,
    StoreError,
    StoreUnavailable,
)
from ottla.metadata.tree import PERSISTENT, Change, Tree, parent_of
from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.stream import Stream
from ottla.testing.simulation.world import World

STORE = "store"
SESSION_MS = 2_000
_MS = 1_000
_BEATS = 3
"""So often within its timeout a session is heard of."""
_REFUSAL_MS = (5, 60)
"""How long a question waits that finds no connection."""


class _Word(enum.Enum):
    """What the store says besides answers."""

    BROKEN = enum.auto()
    EXPIRED = enum.auto()
    WELCOME = enum.auto()
    BEAT = enum.auto()


class _Fate(enum.Enum):
    """What becomes of a question."""

    ANSWERED = enum.auto()
    LOST = enum.auto()
    DONE_BUT_NOT_ANSWERED = enum.auto()


@dataclass(slots=True, eq=False)
class _Question:
    work: Callable[["_Seat"], Any]
    future: "asyncio.Future[Any]"
    is_write: bool
    fate: _Fate = _Fate.ANSWERED
    is_done: bool = False


@dataclass(slots=True, eq=False)
class _Seat:
    """A session as the store sees it."""

    id: int
    node: str
    life: int
    heard_ms: int
    answers: Stream | None = None
    is_over: bool = False
    watched: dict[str, None] = field(default_factory=dict)


class SimStore:
    """The store. `session` begins a session of a node."""

    def __init__(self, world: World, *, session_ms: int = SESSION_MS, hiccup: float = 0.0) -> None:
        self.world = world
        self.session_ms = session_ms
        self.hiccup = hiccup
        self.tree = Tree()
        self.on_write: Callable[[Sequence[Change]], None] = lambda changes: None
        """Called with what has just changed, for those who look on."""
        self.chance = world.stream(STORE)
        self._last_session = PERSISTENT
        self.seats: dict[int, _Seat] = {}

    def session(self, node: str, loop: NodeLoop) -> "SimSession":
        self._last_session += 1
        seat = _Seat(self._last_session, node, self.world.life(node), self.world.now_ms)
        self.seats[seat.id] = seat
        self.world.after(self.session_ms, self._watch_over, seat)
        return SimSession(self, seat, loop)

    async def open(self, node: str) -> "SimSession":
        """A session of the node whose loop this runs on, once the store has answered it. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NodeLoop)
        session = self.session(node, loop)
        try:
            await session.get_all([])
        except StoreError:
            session.abandon()
            raise
        return session

    def expire(self, session: "SimSession") -> None:
        """End a session, whatever its owner thinks of it."""
        self.end(session.seat)

    # --- sessions -----------------------------------------------------------------------------------------------

    def _watch_over(self, seat: _Seat) -> None:
        """Has it been silent for too long?"""
        if seat.is_over:
            return
        silent_ms = self.world.now_ms - seat.heard_ms
        if silent_ms < self.session_ms:
            self.world.after(self.session_ms - silent_ms, self._watch_over, seat)
            return
        self.world.note(f"the session of {seat.node} expires")
        if self.world.life(seat.node) == seat.life:
            self.world.sometimes("a session expired while its node lived")
        self.end(seat)

    def end(self, seat: _Seat) -> None:
        if not seat.is_over:
            seat.is_over = True
            del self.seats[seat.id]
            self.write([Delete(path) for path in self.tree.owned_by(seat.id)], seat)
            if seat.answers is not None:
                seat.answers.send(_Word.EXPIRED)

    # --- questions ----------------------------------------------------------------------------------------------

    def take(self, seat: _Seat, answers: Stream, item: "_Question | _Word") -> None:
        """Something has arrived by the connection whose other direction is `answers`."""
        if item is _Word.WELCOME:
            if self.world.network.is_cut(STORE, seat.node):
                return  # a connection takes both directions to be made
            seat.answers = answers
        if seat.answers is not answers:
            return  # by a connection that was given up
        if seat.is_over:
            answers.send(_Word.EXPIRED)
            return
        seat.heard_ms = self.world.now_ms
        if isinstance(item, _Word):
            answers.send(item)
        else:
            self._answer(seat, answers, item)

    def _answer(self, seat: _Seat, answers: Stream, question: _Question) -> None:
        outcome: Any = None
        if question.fate is not _Fate.LOST:
            try:
                outcome = question.work(seat)
                question.is_done = True
            except StoreError as error:
                outcome = error
        if question.fate is _Fate.ANSWERED:
            answers.send((question, outcome))
        else:
            answers.send(_Word.BROKEN)
            seat.answers = None  # what was sent after it by the same connection is not heard

    def write(self, ops: Sequence[Op], seat: _Seat) -> list[int]:
        plan = self.tree.plan(ops, seat.id)
        if plan.changes:
            self.tree.apply(plan)
            touched = dict.fromkeys(change.path for change in plan.changes)
            touched |= dict.fromkeys(parent_of(change.path) for change in plan.changes if change.is_birth)
            for path in touched:
                self._tell(path)
            self.on_write(plan.changes)
        return plan.results

    def remove(self, path: str) -> None:
        """Somebody at the store's own shell removes a node of a session, if it is there."""
        seat = next((each for each in self.seats.values() if path in self.tree.owned_by(each.id)), None)
        if seat is not None:
            self.write([Delete(path)], seat)

    def _tell(self, path: str) -> None:
        for seat in self.seats.values():
            if path in seat.watched and seat.answers is not None:
                seat.answers.send(path)


class SimSession(SingleWrites):
    """A session as its node sees it: a `MetadataStore`."""

    def __init__(self, store: SimStore, seat: _Seat, loop: NodeLoop) -> None:
        self._store = store
        self.seat = seat
        self._loop = loop
        self._state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], None]] = []
        self._watches: dict[str, list[Callable[[], None]]] = {}
        self._waiting: dict[_Question, None] = {}
        self._heard_ms = store.world.now_ms
        self._questions, self._answers = self._connection()
        self._beat()

    @property
    def session(self) -> SessionState:
        return self._state

    @property
    def id(self) -> int:
        return self.seat.id

    def on_session(self, on_change: Callable[[SessionState], None]) -> None:
        self._listeners.append(on_change)

    # --- questions ----------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        node: Node | None = await self._ask(lambda _: self._store.tree.get(path))
        if node is None:
            raise NoNode(f"{path} does not exist")
        return node

    async def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        wanted = list(paths)
        nodes = await self._ask(lambda _: [self._store.tree.get(path) for path in wanted])
        return {path: node for path, node in zip(wanted, nodes, strict=True) if node is not None}

    async def children(self, path: str) -> list[str]:
        names: list[str] | None = await self._ask(lambda _: self._store.tree.children(path))
        if names is None:
            raise NoNode(f"{path} does not exist")
        return names

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        wanted = list(ops)
        results: list[int] = await self._ask(lambda seat: self._store.write(wanted, seat), is_write=True)
        return results

    async def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        watches = self._watches.setdefault(path, [])
        watches.append(on_change)

        def end() -> None:
            if on_change in watches:
                watches.remove(on_change)

        try:
            await self._ask(lambda seat: seat.watched.setdefault(path))
        except StoreError:
            end()
            raise
        return end

    async def close(self) -> None:
        if self._state is SessionState.LOST:
            return
        with contextlib.suppress(StoreError):  # who cannot be heard will be missed, and expires
            await self._ask(self._store.end)
        self._become(SessionState.LOST)

    def abandon(self) -> None:
        """Be heard of no more, and say nothing: the store will miss it."""
        self._listeners.clear()
        self._become(SessionState.LOST)

    async def _ask(self, work: Callable[[_Seat], Any], *, is_write: bool = False) -> Any:
        if self._state is SessionState.SUSPENDED:
            await asyncio.sleep(self._store.chance.randint(*_REFUSAL_MS) / _MS)
        if self._state is SessionState.LOST:
            raise SessionLost("the session with the metadata store is over")
        if self._state is SessionState.SUSPENDED:
            raise StoreUnavailable("there is no connection to the metadata store")
        question = _Question(work, self._loop.create_future(), is_write, self._fate())
        self._waiting[question] = None
        self._questions.send(question)
        try:
            return await question.future
        finally:
            self._waiting.pop(question, None)

    def _fate(self) -> _Fate:
        chance = self._store.chance
        if not self._store.hiccup or chance.random() >= self._store.hiccup:
            return _Fate.ANSWERED
        return _Fate.LOST if chance.random() < 0.5 else _Fate.DONE_BUT_NOT_ANSWERED

    # --- the connection -----------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Begin a new connection; whatever is still under way by the former is lost."""
        self._questions.end()
        self._answers.end()
        self._questions, self._answers = self._connection()

    def _connection(self) -> tuple[Stream, Stream]:
        store, seat, loop = self._store, self.seat, self._loop
        answers = Stream(
            store.world, STORE, seat.node, lambda item: loop.call_soon(self._hear, answers, item)
        )
        questions = Stream(store.world, seat.node, STORE, lambda item: store.take(seat, answers, item))
        questions.send(_Word.WELCOME)
        return questions, answers

    def _beat(self) -> None:
        """Let the store hear of us, and notice when we do not hear of it."""
        if self._state is SessionState.LOST:
            return
        silent_ms = self._store.world.now_ms - self._heard_ms
        if self._state is SessionState.SUSPENDED:
            self._connect()
        elif silent_ms * _BEATS >= self._store.session_ms * (_BEATS - 1):
            self._suspend()
        else:
            self._questions.send(_Word.BEAT)
        self._loop.call_later(self._store.session_ms / _BEATS / _MS, self._beat)

    def _suspend(self) -> None:
        self._become(SessionState.SUSPENDED)
        self._connect()

    def _hear(self, answers: Stream, item: Any) -> None:
        if answers is not self._answers or self._state is SessionState.LOST:
            return
        self._heard_ms = self._store.world.now_ms
        if isinstance(item, tuple):
            _settle(*item)
        elif isinstance(item, str):
            self._tell(item)
        elif item is _Word.EXPIRED:
            self._become(SessionState.LOST)
        elif item is _Word.BROKEN:
            self._suspend()
        elif item is _Word.WELCOME and self._state is SessionState.SUSPENDED:
            self._become(SessionState.CONNECTED)
            for path in self._watches:
                self._tell(path)  # something may have changed meanwhile

    def _tell(self, path: str) -> None:
        for on_change in list(self._watches.get(path, ())):
            on_change()

    def _become(self, state: SessionState) -> None:
        if self._state in (state, SessionState.LOST):
            return
        self._state = state
        waiting, self._waiting = self._waiting, {}
        for question in waiting:
            self._give_up(question)
        for listener in list(self._listeners):
            listener(state)

    def _give_up(self, question: _Question) -> None:
        if question.future.done():
            return
        if question.is_write:
            outcome = "done" if question.is_done else "not done"
            self._store.world.sometimes(f"a write to the store of unknown outcome was {outcome}")
        if self._state is SessionState.LOST:
            question.future.set_exception(SessionLost("the session with the metadata store is over"))
        else:
            question.future.set_exception(
                StoreUnavailable("the connection to the metadata store broke: nobody knows what was done")
            )


def _settle(question: _Question, outcome: Any) -> None:
    if question.future.done():
        return
    if isinstance(outcome, StoreError):
        question.future.set_exception(outcome)
    else:
        question.future.set_result(outcome)
