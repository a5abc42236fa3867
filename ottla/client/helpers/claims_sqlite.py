"""Claims in SQLite: in a file of their own, or in the application's own transactions.

SqliteStore(path)              survives restarts; shared by processes of one machine
SharedSqliteStore(connection)  the id is written by the transaction that writes the effect: both or neither
"""

import os
import re
import sqlite3
import threading
import time
import uuid

from ottla.client.errors import IllegalStateError
from ottla.client.helpers.claims import Claim
from ottla.core.errors import ConfigError

_MS = 1000
_PRUNE_EVERY = 256  # confirmed messages: one statement over an index
_TABLE = "ottla_messages"


def _create(connection: sqlite3.Connection, table: str) -> None:
    """`token` names who has claimed the message, and is NULL for one that is done."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table} (id TEXT PRIMARY KEY, token TEXT, moment INTEGER NOT NULL) WITHOUT ROWID"
    )
    connection.execute(f"CREATE INDEX IF NOT EXISTS {table}_moment ON {table} (moment)")


def checked_table(name: str) -> str:
    """Names of tables cannot be parameters of a statement: only plain ones pass."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise ConfigError(f"{name!r} cannot be the name of a table: letters, digits and underscores only")
    return name


def _prune(
    connection: sqlite3.Connection, table: str, count_max: int | None, window_ms: float | None
) -> None:
    if window_ms is not None:
        connection.execute(
            f"DELETE FROM {table} WHERE token IS NULL AND moment < ?", (_now_ms() - round(window_ms),)
        )
    if count_max is not None:
        connection.execute(
            f"DELETE FROM {table} WHERE token IS NULL AND id NOT IN "
            f"(SELECT id FROM {table} WHERE token IS NULL ORDER BY moment DESC LIMIT ?)",
            (count_max,),
        )


class SqliteStore:
    """In a file; every call is a transaction of its own. For any thread, and for several processes."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lease_ms: float = 60_000,
        count_max: int | None = None,
        window_ms: float | None = None,
        table: str = _TABLE,
    ) -> None:
        """A claim whose owner has crashed lapses after `lease_ms`: longer than any message takes. Messages that are
        done are remembered for `window_ms`, and about the last `count_max` of them; without either, for ever."""
        self._table, self._lease_ms = checked_table(table), lease_ms
        self._count_max, self._window_ms = count_max, window_ms
        self._token = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._confirmed = 0
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        _create(self._connection, self._table)

    def claim(self, message_id: str) -> Claim:
        now = _now_ms()
        with self._lock:
            taken = self._connection.execute(
                f"INSERT INTO {self._table} VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE "
                "SET token = excluded.token, moment = excluded.moment WHERE token IS NOT NULL AND moment <= ?",
                (message_id, self._token, now, now - round(self._lease_ms)),
            )
            if taken.rowcount == 1:
                return Claim.OURS
            row = self._connection.execute(
                f"SELECT token FROM {self._table} WHERE id = ?", (message_id,)
            ).fetchone()
        return Claim.DONE if row == (None,) else Claim.BUSY

    def confirm(self, message_id: str) -> None:
        with self._lock:
            self._connection.execute(
                f"INSERT OR REPLACE INTO {self._table} VALUES (?, NULL, ?)", (message_id, _now_ms())
            )
            self._confirmed += 1
            if self._confirmed % _PRUNE_EVERY == 0:
                _prune(self._connection, self._table, self._count_max, self._window_ms)

    def release(self, message_id: str) -> None:
        with self._lock:
            self._connection.execute(
                f"DELETE FROM {self._table} WHERE id = ? AND token = ?", (message_id, self._token)
            )

    def close(self) -> None:
        self._connection.close()


class SharedSqliteStore:
    """In the application's database and transactions, which it begins, commits and rolls back itself.

    The id is there when the transaction commits, and so is the effect: a message takes effect once, whatever crashes.
    Two processes that get the same message wait for each other in SQLite, and the second finds it done.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        count_max: int | None = None,
        window_ms: float | None = None,
        table: str = _TABLE,
    ) -> None:
        self._connection, self._table = connection, checked_table(table)
        self._count_max, self._window_ms = count_max, window_ms
        self._confirmed = 0
        _create(connection, self._table)

    def claim(self, message_id: str) -> Claim:
        """Begins a transaction if sqlite3 is set to do that (`isolation_level`); else one must have begun."""
        if self._connection.isolation_level is None and not self._connection.in_transaction:
            raise IllegalStateError(
                f"message {message_id!r} was to be claimed in a transaction, and none has begun"
            )
        added = self._connection.execute(
            f"INSERT INTO {self._table} VALUES (?, NULL, ?) ON CONFLICT (id) DO NOTHING",
            (message_id, _now_ms()),
        )
        return Claim.OURS if added.rowcount == 1 else Claim.DONE

    def confirm(self, message_id: str) -> None:
        """The transaction does that, when it commits."""
        self._confirmed += 1
        if self._confirmed % _PRUNE_EVERY == 0:
            _prune(self._connection, self._table, self._count_max, self._window_ms)

    def release(self, message_id: str) -> None:
        """For an application that goes on in the same transaction; to roll back does the same."""
        if self._connection.in_transaction:
            self._connection.execute(f"DELETE FROM {self._table} WHERE id = ?", (message_id,))


def _now_ms() -> int:
    return round(time.time() * _MS)
