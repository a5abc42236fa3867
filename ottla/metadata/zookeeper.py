"""The metadata store of a cluster: nodes in Apache ZooKeeper, where Kafka's tools find them too.

A node's version is ZooKeeper's data version, its creation id the zxid that created it. Everything lies below the path
at the end of the connect string, which is made if it is missing. `zookeeper_session` keeps the connection, and this
module the contract.

ZooKeeper's watches tell once. A subscription is kept by watching again before anybody is told: who then reads sees
what changed, and the next change tells again. ZooKeeper forgets watches with a connection; after it is back all are
set again, and everybody is told, since something may have changed meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.core.errors import ConfigError
from ottla.metadata.store import (
    Create,
    Node,
    NoNode,
    Op,
    SessionLost,
    SessionState,
    SingleWrites,
    StoreError,
    StoreUnavailable,
)
from ottla.metadata.tree import check_path
from ottla.metadata.zookeeper_address import Address, parse, why_not

if TYPE_CHECKING:
    from ottla.metadata.zookeeper_session import Session

logger = logging.getLogger(__name__)

_MS = 1_000
_REARM_S = 0.2  # between attempts to watch again while the connection stands


@dataclass(slots=True, eq=False)
class _Watched:
    """Who is to be told of a path. `watcher` is what kazoo calls, the same for both kinds of watch."""

    watcher: Callable[[Any], None]
    subscribers: list[Callable[[], None]] = field(default_factory=list)


class ZooKeeperStore(SingleWrites):
    """One session with ZooKeeper."""

    def __init__(self, session: "Session", root: str) -> None:
        from ottla.metadata import zookeeper_requests

        self._requests = zookeeper_requests
        self._session = session
        self._root = root
        self._listeners: list[Callable[[SessionState], None]] = []
        self._watched: dict[str, _Watched] = {}
        self._stale: dict[str, None] = {}  # to be watched again, and then told
        self._is_stale = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        session.on_state = self._follow_session

    @classmethod
    async def open(
        cls, connect: str, *, session_timeout_ms: int, connection_timeout_ms: int
    ) -> "ZooKeeperStore":
        """Begin a session. Raises ConfigError, or StoreUnavailable with what is wrong at each address."""
        address = parse(connect)
        session = _session(address, session_timeout_ms)
        try:
            await session.begin(connection_timeout_ms / _MS)
            store = cls(session, address.root)
            await store._make_root()
            # Servers may be behind each other by seconds: what others knew before we came, we are to know, too.
            await store._answer(store._requests.sync(address.root or "/"), address.root or "/")
            return store
        except (StoreUnavailable, SessionLost) as error:
            await session.end()
            why = await why_not(address.servers)
            raise StoreUnavailable(
                f"no session with ZooKeeper within {connection_timeout_ms} ms: {why}"
            ) from error
        except BaseException:
            session.abandon()
            raise

    @property
    def session(self) -> SessionState:
        return self._session.state

    @property
    def id(self) -> int:
        """The session's id, as ZooKeeper's own tools show it in hex."""
        return self._session.id

    @property
    def session_timeout_ms(self) -> int:
        """How long ZooKeeper believes in us without a word: it has bounds of its own for what it is asked for."""
        return self._session.timeout_ms

    def on_session(self, on_change: Callable[[SessionState], None]) -> None:
        self._listeners.append(on_change)

    # --- reads --------------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        return self._node(path, await self._session.ask(self._requests.get(self._full(path))))

    async def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        wanted = list(dict.fromkeys(paths))
        answers = await self._session.ask_all([self._requests.get(self._full(path)) for path in wanted])
        found: dict[str, Node] = {}
        for path, answer in zip(wanted, answers, strict=True):
            try:
                found[path] = self._node(path, answer)
            except NoNode:
                continue
        return found

    async def children(self, path: str) -> list[str]:
        answer = await self._session.ask(self._requests.children(self._full(path)))
        if isinstance(answer, BaseException):
            raise self._requests.refusal(answer, path)
        return sorted(answer)

    def _node(self, path: str, answer: Any) -> Node:
        if isinstance(answer, BaseException):
            raise self._requests.refusal(answer, path)
        data, stat = answer
        return Node(data or b"", stat.version, stat.czxid)

    # --- writes -------------------------------------------------------------------------------------------------

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        wanted = list(ops)
        for op in wanted:
            if isinstance(op, Create):
                check_path(op.path)
        if not wanted:
            await self._session.ask_all([])
            return []
        results = await self._session.ask(self._requests.transaction(wanted, self._root))
        if isinstance(results, BaseException):
            raise self._requests.refusal(results, wanted[0].path)
        failed = self._requests.failure(results)
        if failed is not None:
            index, error = failed
            raise self._refused(wanted[index], error)
        return list(results)

    def _refused(self, op: Op, error: Exception) -> StoreError:
        refusal = self._requests.refusal(error, op.path)
        if isinstance(op, Create) and isinstance(refusal, NoNode):
            return NoNode(f"{op.path} has no parent")
        return refusal

    async def _make_root(self) -> None:
        """Make the path that ours begin with, node by node; several brokers may do so at once."""
        names = self._root.split("/")
        for depth in range(2, len(names) + 1):
            path = "/".join(names[:depth])
            if await self._answer(self._requests.exists(path), path) is None:
                try:
                    await self._answer(self._requests.create(path), path)
                except StoreError:
                    # Somebody else was faster, unless it is still not there.
                    if await self._answer(self._requests.exists(path), path) is None:
                        raise

    async def _answer(self, question: Any, path: str) -> Any:
        answer = await self._session.ask(question)
        if isinstance(answer, BaseException):
            raise self._requests.refusal(answer, path)
        return answer

    # --- watches ------------------------------------------------------------------------------------------------

    async def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep_watching())
        watched = self._watched.get(path)
        if watched is None:
            watched = self._watched[path] = _Watched(self._requests.watcher(lambda: self._fire(path)))
        # Before it is watched: should the connection break now, it is among those that are watched again.
        watched.subscribers.append(on_change)

        def end() -> None:
            if on_change in watched.subscribers:
                watched.subscribers.remove(on_change)
            if not watched.subscribers and self._watched.get(path) is watched:
                del self._watched[path]

        try:
            await self._arm([path])
        except BaseException:
            end()
            raise
        return end

    async def _arm(self, paths: Sequence[str]) -> None:
        """Have ZooKeeper tell of the next change of each path, and of its children."""
        questions = []
        for path in paths:
            if (watched := self._watched.get(path)) is not None:
                questions.append(self._requests.exists(self._full(path), watched.watcher))
                questions.append(self._requests.children(self._full(path), watched.watcher))
        for answer in await self._session.ask_all(questions):
            if isinstance(answer, BaseException):
                refusal = self._requests.refusal(answer, "a watched node")
                if not isinstance(refusal, NoNode):  # it has no children, and we hear when it is made
                    raise refusal

    def _fire(self, path: str) -> None:
        """In kazoo's thread: something happened."""
        self._session.post(self._expect, [path])

    def _expect(self, paths: Iterable[str]) -> None:
        self._stale.update(dict.fromkeys(path for path in paths if path in self._watched))
        self._is_stale.set()

    async def _keep_watching(self) -> None:
        """Watch again what has fired, then tell."""
        loop = asyncio.get_running_loop()
        while True:
            await self._is_stale.wait()
            self._is_stale.clear()
            stale, self._stale = self._stale, {}
            try:
                await self._arm(list(stale))
            except SessionLost:
                return
            except StoreError:
                self._stale = stale | self._stale
                if self.session is SessionState.CONNECTED:  # else the return of the connection wakes us
                    loop.call_later(_REARM_S, self._is_stale.set)
                continue
            for path in stale:
                if (watched := self._watched.get(path)) is not None:
                    for on_change in watched.subscribers:
                        loop.call_soon(_tell, watched, on_change)

    # --- the session --------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the session, also one that is lost: what is left of it in this process goes."""
        self._end_watches()
        await self._session.end()

    def abandon(self) -> None:
        """Hang up, as if the process had died: nothing is ended, nobody is told. The session will expire."""
        self._listeners.clear()
        self._end_watches()
        self._session.abandon()

    def _end_watches(self) -> None:
        for watched in self._watched.values():
            watched.subscribers.clear()
        self._watched.clear()
        if self._keeper is not None:
            self._keeper.cancel()

    def _follow_session(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            logger.warning("there is no connection to ZooKeeper")
        elif state is SessionState.CONNECTED:
            logger.info("the connection to ZooKeeper is back")
            self._expect(list(self._watched))
        else:
            self._end_watches()
        for listener in list(self._listeners):
            listener(state)

    def _full(self, path: str) -> str:
        return self._requests.below(self._root, path)


def _tell(watched: _Watched, on_change: Callable[[], None]) -> None:
    if on_change in watched.subscribers:  # it may have ended just now
        on_change()


def _session(address: Address, session_timeout_ms: int) -> "Session":
    try:
        from ottla.metadata.zookeeper_session import Session  # here: the core install has no kazoo
    except ImportError:
        raise ConfigError("ZooKeeper needs kazoo: pip install 'ottla[cluster]'") from None
    return Session(address, session_timeout_ms)
