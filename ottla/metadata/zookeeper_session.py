"""One session with ZooKeeper, through kazoo, on the event loop.

kazoo has threads of its own: one talks to the server, one calls those who wait, one calls watches. Nothing of theirs
touches our state: everything is handed to the loop, in order. Nothing here blocks the loop, and no question waits for
ever. What has to be tamed:

- kazoo begins a new session when the old one has expired, and goes on as if nothing had happened. Here the end of a
  session is the end of the object.
- Its `_call` writes a byte to a socket pair for each request, and blocks when that is full, which on Linux it is after
  278 of them. So at most WINDOW requests are under way, and none is given to it while there is no connection.
- It notices a silent server only while it has nothing to send. So the silence is measured here, as Java's client does,
  and nothing is asked while an answer is overdue.
- It takes the whole session timeout to try one server that drops packets. Then the session is over before the next one
  is tried. `_Handler` allows each a share of it.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.handlers.threading import SequentialThreadingHandler  # type: ignore[import-untyped]  # no types
from kazoo.protocol.serialization import Connect  # type: ignore[import-untyped]  # no types
from kazoo.protocol.states import KazooState  # type: ignore[import-untyped]  # no types

from ottla.metadata.store import SessionLost, SessionState, StoreUnavailable
from ottla.metadata.zookeeper_address import Address
from ottla.metadata.zookeeper_requests import Question

logger = logging.getLogger(__name__)
kazoo_logger = logging.getLogger(f"{__name__}.kazoo")

WINDOW = 128
OPERATION_S = 5.0
"""An answer that takes longer is given up: nobody knows what became of the question."""
RECONNECTION_S = 0.1
"""How long a question waits that finds no connection."""
_CONNECT_S_MAX = 2.0  # time for one SYN to be lost; then another server, or this one again
_HANDSHAKE_S = 5.0  # a server that is being started may take a connection and forget it
_CLOSE_S = 3.0
_RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 1.0}
_SILENCE = 2 / 3  # of the session timeout, then there is time to try another server; kazoo's own share too
_LOOKS = 8  # so often it is looked at before that is over
_PIECE_BYTES = 1 << 20
_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class _Sent:
    """A request that kazoo has."""

    __slots__ = ("future", "is_answered", "is_overdue")

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        self.future = future
        self.is_answered = False
        self.is_overdue = False


class Session:
    """One kazoo client, and what we know of its session. `on_state` is called on the loop."""

    def __init__(self, address: Address, session_timeout_ms: int) -> None:
        if kazoo_logger.level == logging.NOTSET:
            kazoo_logger.setLevel(logging.ERROR)  # it warns of every attempt; what matters we say ourselves
        self._loop = asyncio.get_running_loop()
        timeout_s = session_timeout_ms / 1_000
        self._handler = _Handler(min(_CONNECT_S_MAX, timeout_s / 2 / len(address.servers)))
        self._client = KazooClient(
            address.hosts,
            timeout=timeout_s,
            handler=self._handler,
            connection_retry=_RETRY,
            logger=kazoo_logger,
        )
        self._client.add_listener(self._on_kazoo)
        self.timeout_ms = session_timeout_ms
        """As it was asked for, then as the server has agreed to it."""
        self._attend_handshakes()
        self.state = SessionState.SUSPENDED
        self.on_state: Callable[[SessionState], None] = lambda state: None
        self.id = 0
        self._is_settled = asyncio.Event()  # connected, or over: who waits need not wait any longer
        self._room = asyncio.Semaphore(WINDOW)
        self._in_flight_count = 0
        self._overdue_count = 0
        self._was_silent = False
        self._ending: asyncio.Future[None] | None = None

    @property
    def credentials(self) -> tuple[int, bytes]:
        """With these somebody else can take the session over."""
        return self._client.client_id or (0, b"")

    async def begin(self, timeout_s: float) -> None:
        """Connect. Raises StoreUnavailable if that does not succeed in time."""
        self._client.start_async()
        self._mind_the_silence()
        await self._settled(timeout_s)
        self._check()

    async def end(self) -> None:
        """Close the session, so that its ephemeral nodes go at once; if nobody listens, it expires some time."""
        self._finish(says_goodbye=self.state is not SessionState.LOST)
        self._become(SessionState.LOST)
        if self._ending is not None:
            await asyncio.shield(self._ending)

    def abandon(self) -> None:
        """Hang up without a word, as a process does that is killed: the server will miss us. Nobody is told."""
        self.on_state = lambda state: None
        self._handler.hang_up()
        self._finish(says_goodbye=False)
        self._become(SessionState.LOST)

    # --- questions ----------------------------------------------------------------------------------------------

    async def ask(self, question: Question) -> Any:
        """The answer; a kazoo exception may be one. Raises StoreUnavailable, SessionLost."""
        return (await self.ask_all([question]))[0]

    async def ask_all(self, questions: Sequence[Question]) -> list[Any]:
        """The answers, in order. The questions are sent without waiting for answers in between."""
        await self._await_connection()
        answers: list[Any] = []
        for first in range(0, len(questions), WINDOW):
            answers += await self._ask_some(questions[first : first + WINDOW])
        return answers

    async def _ask_some(self, questions: Sequence[Question]) -> list[Any]:
        sent: list[_Sent] = []
        await _in_a_task()
        try:
            async with asyncio.timeout(OPERATION_S):
                for question in questions:
                    await self._room.acquire()
                    sent.append(self._send(question))
                return await asyncio.gather(*(each.future for each in sent))
        except TimeoutError:
            for each in sent:
                if not each.is_answered:
                    each.is_overdue = True
                    self._overdue_count += 1
            raise StoreUnavailable(
                f"ZooKeeper has not answered within {OPERATION_S:g} s: nobody knows what was done"
            ) from None

    def _send(self, question: Question) -> _Sent:
        sent = _Sent(self._loop.create_future())
        try:
            self._check()  # it may have changed while this waited for room
            result = question(self._client)
        except BaseException:
            self._room.release()
            raise
        self._in_flight_count += 1
        result.rawlink(lambda result: self.post(self._take, sent, result))
        return sent

    def _take(self, sent: _Sent, result: Any) -> None:
        if sent.is_answered:
            return  # kazoo sometimes says twice that it is closed
        sent.is_answered = True
        self._in_flight_count -= 1
        self._overdue_count -= sent.is_overdue
        self._room.release()
        if not sent.future.done():
            # An exception too is a result here: nobody may be left who would retrieve it.
            sent.future.set_result(result.value if result.exception is None else result.exception)

    async def _await_connection(self) -> None:
        if self.state is SessionState.SUSPENDED:
            await self._settled(RECONNECTION_S)
        self._check()

    async def _settled(self, seconds: float) -> None:
        """Wait, but not longer. `asyncio.wait_for` may overhear that whoever waits is to stop."""
        await _in_a_task()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_settled.wait()

    def _check(self) -> None:
        if self.state is SessionState.LOST:
            raise SessionLost("the session with ZooKeeper is over")
        if self.state is SessionState.SUSPENDED:
            raise StoreUnavailable("there is no connection to ZooKeeper")
        if self._overdue_count:
            raise StoreUnavailable("ZooKeeper does not answer")

    def _mind_the_silence(self) -> None:
        """A server that says nothing although it was asked is given up while the session can still be saved."""
        if self.state is SessionState.LOST:
            return
        silence_s = self.timeout_ms / 1_000 * _SILENCE
        is_silent = self._in_flight_count > 0 and self._handler.silent_s() > silence_s
        # Twice, since after a pause of our own kazoo's thread needs a moment to take what has come meanwhile.
        if is_silent and self._was_silent:
            self._handler.drop()
        self._was_silent = is_silent
        self._loop.call_later(silence_s / _LOOKS, self._mind_the_silence)

    def _attend_handshakes(self) -> None:
        """kazoo would wait a whole session timeout for the server's first word, and keeps to itself what that says of
        the timeout."""
        connection = self._client._connection
        invoke = connection._invoke

        def attended(timeout: float, request: Any, xid: Any = None) -> Any:
            if not isinstance(request, Connect):
                return invoke(timeout, request, xid)
            answer = invoke(min(timeout, _HANDSHAKE_S), request, xid)
            if answer[0].time_out > 0:
                self.timeout_ms = answer[0].time_out
            return answer

        connection._invoke = attended

    # --- the state ----------------------------------------------------------------------------------------------

    def post(self, work: Callable[..., None], *arguments: Any) -> None:
        """From any thread: have it done on the loop. A loop that is closed has nobody left who would care."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *arguments)

    def _on_kazoo(self, state: str) -> None:
        self.post(self._hear, _STATES[state], self.credentials[0])

    def _hear(self, state: SessionState, session_id: int) -> None:
        if state is SessionState.CONNECTED:
            if self.id and session_id != self.id:
                state = SessionState.LOST  # a new one, of which we were not told
            self.id = self.id or session_id
        self._become(state)

    def _become(self, state: SessionState) -> None:
        if self.state in (state, SessionState.LOST):
            return
        self.state = state
        if state is SessionState.SUSPENDED:
            self._is_settled.clear()
        else:
            self._is_settled.set()
        if state is SessionState.LOST:
            self._finish(says_goodbye=True)  # to the session that kazoo has begun by now
        self.on_state(state)

    def _finish(self, *, says_goodbye: bool) -> None:
        if self._ending is None:
            self._ending = self._loop.run_in_executor(None, self._stop, says_goodbye)

    def _stop(self, says_goodbye: bool) -> None:
        """In a thread: kazoo joins its own here. It would wait long for a server that does not answer."""
        impatience = threading.Timer(_CLOSE_S if says_goodbye else 0, self._handler.hang_up)
        impatience.start()
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            logger.exception("kazoo did not end as it should")
        finally:
            impatience.cancel()
            impatience.join()


async def _in_a_task() -> None:
    """A handler begins in no task, and a timeout needs one: it has one from here on."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with connections that do not wait too long and can be dropped."""

    def __init__(self, connect_s: float) -> None:
        super().__init__()
        self._connect_s = connect_s
        self._connection: _Connection | None = None
        self._has_hung_up = False

    def create_connection(self, *arguments: Any, **options: Any) -> "_Connection":
        if self._has_hung_up:
            raise OSError("given up")
        options["timeout"] = self._connect_s
        made = super().create_connection(*arguments, **options)
        connection = self._connection = _Connection(fileno=made.detach())
        if self._has_hung_up:  # meanwhile
            connection.close()
            raise OSError("given up")
        return connection

    def silent_s(self) -> float:
        """How long the server has said nothing."""
        return time.monotonic() - self._connection.heard_at if self._connection is not None else 0.0

    def drop(self) -> None:
        """Break the connection, if there is one. kazoo makes another."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Break the connection, and never make another."""
        self._has_hung_up = True
        self.drop()


class _Connection(socket.socket):
    """Remembers when it was heard last, and takes what there is: kazoo asks for as much as the peer has announced,
    and not every peer is ZooKeeper."""

    def __init__(self, *, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.heard_at = time.monotonic()

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(min(size, _PIECE_BYTES), flags)
        self.heard_at = time.monotonic()
        return data
