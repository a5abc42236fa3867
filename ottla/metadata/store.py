"""What a cluster must remember, and agree on: a tree of small nodes with versions, as ZooKeeper has it.

The rules, which every store keeps and `tests/unit/metadata/store_contract.py` holds against each of them:

- A node has data, a version that counts its changes from 0, and a creation id. Creation ids come from one counter that
  grows with every change of the tree and never goes back, also over restarts: the younger of two nodes has the larger.
- A write lasts when it returns. `multi` happens whole or not at all. A version of ANY_VERSION always fits.
- A parent must exist before its child, and outlives it; ephemeral nodes have no children.
- An ephemeral node goes with the session that made it: when it is closed, expires, or its process dies.
- `watch` is a subscription: `on_change` is called on the event loop some time after the node at `path` was created,
  changed or deleted, or one of its children came or went. Several changes may become one call, and it does not say what
  changed: read again. Watch first, read second, and nothing slips between. It must return at once: work comes later.
- StoreUnavailable on a write means that nobody knows: the write may have happened. Read back before trying again.

Nothing here knows what the nodes mean; that is in `paths`.
"""

import abc
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.core.errors import OttlaError

ANY_VERSION = -1


class StoreError(OttlaError):
    """The store refused. The message names the path."""


class NodeExists(StoreError):
    """There is a node at that path already."""


class NoNode(StoreError):
    """There is no node at that path, or no parent for it."""


class BadVersion(StoreError):
    """Somebody has changed the node since it was read."""


class NotEmpty(StoreError):
    """The node has children."""


class EphemeralParent(StoreError):
    """Ephemeral nodes have no children."""


class SessionLost(StoreError):
    """The session is over, and its ephemeral nodes are gone. Begin again with a new one."""


class StoreUnavailable(StoreError):
    """No answer from the store, or its disk failed. Whether a write happened is not known."""


class SessionState(enum.Enum):
    """What a store knows of its session."""

    CONNECTED = enum.auto()
    SUSPENDED = enum.auto()  # no connection; the session may live on or be over: stop what only one may do
    LOST = enum.auto()  # over


class Node(NamedTuple):
    """A node as it was read. `created` is its creation id."""

    data: bytes
    version: int
    created: int


class Create(NamedTuple):
    """Make a node. Fails with NodeExists, NoNode (no parent), EphemeralParent."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class Set(NamedTuple):
    """Replace a node's data. Fails with NoNode, BadVersion."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a node. Fails with NoNode, BadVersion, NotEmpty."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Change nothing, but fail the others with BadVersion or NoNode if the node is not at this version."""

    path: str
    version: int


Op = Create | Set | Delete | Check


class MetadataStore(Protocol):
    """One session with a store."""

    @property
    def session(self) -> SessionState: ...

    def on_session(self, on_change: Callable[[SessionState], None]) -> None:
        """Call `on_change`, on the event loop, whenever the state of the session changes."""

    async def get(self, path: str) -> Node:
        """Raises NoNode."""

    async def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        """Many nodes at about the cost of one; those that do not exist are missing. Not one moment in time."""

    async def children(self, path: str) -> list[str]:
        """Names, not paths, in alphabetical order. Raises NoNode."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> int:
        """Returns the creation id."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Returns the new version."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        """All or nothing. For each operation: the creation id of a Create, the new version of a Set, else 0."""

    async def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        """Subscribe, see above; the node need not exist. Returns what ends the subscription."""

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes."""


class SingleWrites(abc.ABC):
    """Writes of one operation, for stores that have `multi`."""

    @abc.abstractmethod
    async def multi(self, ops: Sequence[Op]) -> list[int]: ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> int:
        return (await self.multi([Create(path, data, ephemeral)]))[0]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        return (await self.multi([Set(path, data, version)]))[0]

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])
