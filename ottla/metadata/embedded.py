"""The metadata store of a single node: the tree in memory, its lasting nodes in one SQLite file.

Reads are answered from memory. A write is judged there, committed to the file by another thread (SQLite syncs its
write-ahead log before a commit returns), and applied in memory after that: what can be read lasts. Ephemeral nodes
never reach the file, so those of an earlier life are gone when it is opened; the counter that creation ids come from
does reach it, with every write. The file belongs to one process at a time. `:memory:` keeps nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.core.errors import ProtocolError
from ottla.metadata.store import (
    Delete,
    Node,
    NoNode,
    Op,
    SessionLost,
    SessionState,
    SingleWrites,
    StoreUnavailable,
)
from ottla.metadata.tree import PERSISTENT, Plan, Tree, parent_of

if TYPE_CHECKING:
    import sqlite3

MEMORY = ":memory:"
APPLICATION_ID = 0x4F74746C  # "Ottl": tells our file from another program's
SCHEMA_VERSION = 1
SCHEMA = f"""
BEGIN;
CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('change_id', 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


class EmbeddedStore(SingleWrites):
    """One session with the store. Most processes have one; `another_session` is for those that play several nodes."""

    def __init__(self, shared: "_Shared") -> None:
        self._shared = shared
        self._id = shared.begin_session()
        self._state = SessionState.CONNECTED
        self._is_closed = False
        self._listeners: list[Callable[[SessionState], None]] = []
        self._watches: list[Callable[[], None]] = []

    @classmethod
    async def open(cls, path: str, *, syncs: bool = True) -> "EmbeddedStore":
        """Open or create the file. Raises ProtocolError if it is damaged, StoreUnavailable if it is in use.

        Without `syncs` it may be lost with the power: for what is only temporary."""
        if path == MEMORY:
            return cls(_Shared(Tree(), None))
        return cls(await asyncio.to_thread(_load, path, syncs))

    def another_session(self) -> "EmbeddedStore":
        return EmbeddedStore(self._shared)

    @property
    def session(self) -> SessionState:
        return self._state

    def on_session(self, on_change: Callable[[SessionState], None]) -> None:
        self._listeners.append(on_change)

    async def get(self, path: str) -> Node:
        self._check_session()
        node = self._shared.tree.get(path)
        if node is None:
            raise NoNode(f"{path} does not exist")
        return node

    async def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        self._check_session()
        found = {path: self._shared.tree.get(path) for path in paths}
        return {path: node for path, node in found.items() if node is not None}

    async def children(self, path: str) -> list[str]:
        self._check_session()
        names = self._shared.tree.children(path)
        if names is None:
            raise NoNode(f"{path} does not exist")
        return names

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        self._check_session()
        return await self._shared.write(ops, self)

    async def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        self._check_session()
        end = self._shared.watch(path, on_change)
        self._watches.append(end)
        return end

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self.expire()
            await self._shared.end_session()

    async def expire(self) -> None:
        """End the session as a store does that has not heard from it for too long. `close` does the rest."""
        if self._state is SessionState.LOST:
            return
        for end in self._watches:
            end()
        self._state = SessionState.LOST
        await self._shared.drop_ephemeral(self._id)
        for listener in self._listeners:
            listener(self._state)

    def abandon(self) -> None:
        """Let go of the file at once, as if the process had died: nothing is ended, nobody is told."""
        self._state = SessionState.LOST
        self._is_closed = True
        self._shared.release()

    def _check_session(self) -> None:
        if self._state is SessionState.LOST:
            raise SessionLost("the session with the metadata store is over")

    @property
    def id(self) -> int:
        return self._id


class _Shared:
    """What all sessions of one process share: the tree, the file, and who watches what."""

    def __init__(self, tree: Tree, file: "_File | None") -> None:
        self.tree = tree
        self._file = file
        self._writing = asyncio.Lock()
        self._watches: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self._last_session = PERSISTENT
        self._open_sessions = 0

    def begin_session(self) -> int:
        self._last_session += 1
        self._open_sessions += 1
        return self._last_session

    async def end_session(self) -> None:
        self._open_sessions -= 1
        if self._open_sessions == 0 and self._file is not None:
            async with self._writing:
                await asyncio.to_thread(self.release)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()

    async def write(self, ops: Sequence[Op], session: EmbeddedStore) -> list[int]:
        # Whoever asked may be cancelled while the commit is under way. File and memory must not part over that.
        return await asyncio.shield(asyncio.ensure_future(self._write(ops, session)))

    async def drop_ephemeral(self, owner: int) -> None:
        async with self._writing:
            plan = self.tree.plan([Delete(path) for path in self.tree.owned_by(owner)], owner)
            self._apply(plan)  # the file knows nothing of them

    def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        self._watches[path].append(on_change)

        def end() -> None:
            if on_change in self._watches[path]:
                self._watches[path].remove(on_change)

        return end

    async def _write(self, ops: Sequence[Op], session: EmbeddedStore) -> list[int]:
        async with self._writing:
            session._check_session()  # it may have ended while this waited its turn
            plan = self.tree.plan(ops, session.id)
            if plan.changes and self._file is not None:
                await asyncio.to_thread(self._file.write, plan)
            self._apply(plan)
            return plan.results

    def _apply(self, plan: Plan) -> None:
        if not plan.changes:
            return
        self.tree.apply(plan)
        touched = {change.path for change in plan.changes}
        touched |= {parent_of(change.path) for change in plan.changes if change.is_birth}
        loop = asyncio.get_running_loop()
        for path in touched & self._watches.keys():
            for on_change in self._watches[path]:
                loop.call_soon(on_change)


class _File:
    """The SQLite file. Used by one thread at a time."""

    def __init__(self, path: str, connection: "sqlite3.Connection") -> None:
        self._path = path
        self._connection = connection

    def write(self, plan: Plan) -> None:
        """Commit a plan. If it fails, the file is as before, unless the power goes now."""
        import sqlite3

        lasting = {c.path: c.node for c in plan.changes if c.owner == PERSISTENT}
        rows = [(path, *node) for path, node in lasting.items() if node is not None]
        gone = [(path,) for path, node in lasting.items() if node is None]
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?)", rows)
                self._connection.executemany("DELETE FROM node WHERE path = ?", gone)
                execute("UPDATE counter SET value = ? WHERE name = 'change_id'", (plan.change_id,))
                execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the metadata store {self._path} cannot be written: {error}") from error

    def close(self) -> None:
        self._connection.close()


def _load(path: str, syncs: bool) -> _Shared:
    import sqlite3  # here, because a broker that keeps its data in memory or in ZooKeeper never needs it

    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the metadata store {path} cannot be opened: {error}") from error
    try:
        return _Shared(_read(path, connection, syncs), _File(path, connection))
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise StoreUnavailable(f"the metadata store {path} cannot be opened: {error}") from error
        if isinstance(error, sqlite3.DatabaseError | NoNode | TypeError):
            raise ProtocolError(f"the metadata store {path} is damaged: {error}") from error
        raise


def _read(path: str, connection: "sqlite3.Connection", syncs: bool) -> Tree:
    """The tree in the file; a new file gets its tables."""
    connection.execute(
        "PRAGMA locking_mode = EXCLUSIVE"
    )  # a second process is refused; no shared memory file
    connection.execute(f"PRAGMA synchronous = {'FULL' if syncs else 'OFF'}")
    connection.execute("PRAGMA journal_mode = WAL")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        connection.executescript(SCHEMA)
    elif application != APPLICATION_ID or version != SCHEMA_VERSION:
        raise ProtocolError(
            f"{path} is not a metadata store of this version (it says {application:#x}, {version})"
        )
    row = connection.execute("SELECT value FROM counter WHERE name = 'change_id'").fetchone()
    if row is None or not isinstance(row[0], int):
        raise ProtocolError(f"the metadata store {path} is damaged: it has lost its counter")
    tree = Tree(row[0])
    # Sorted by path, so that parents come before their children.
    # Somebody who helps himself with an SQL shell is likely to leave text where we write bytes.
    rows = connection.execute("SELECT path, CAST(data AS BLOB), version, created FROM node ORDER BY path")
    tree.restore(rows)
    return tree
