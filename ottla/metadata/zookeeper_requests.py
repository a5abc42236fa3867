"""What is asked of ZooKeeper, and what it answers, in the words of the contract. No connection here.

ZooKeeper's transactions do not tell the creation ids of what they create, and somebody else may have replaced a node
before it can be read back. But a creation id is the zxid of the transaction that created the node, and the header of
every answer has the zxid up to which the server had done everything when it answered: of a write, its own, since
servers apply one after the other. `_Transaction` looks there.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kazoo import exceptions as refusals  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.client import KazooClient  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.protocol import serialization as wire  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.protocol.states import EventType, ZnodeStat  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.security import OPEN_ACL_UNSAFE  # type: ignore[import-untyped]  # kazoo has no types

from ottla.metadata.store import (
    BadVersion,
    Check,
    Create,
    EphemeralParent,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionLost,
    Set,
    StoreError,
    StoreUnavailable,
)

REQUEST_BYTES_MAX = 0xFFFFF  # jute.maxbuffer: a server hangs up on more, without a word
_EPHEMERAL = 1
_REFUSALS: dict[type[Exception], tuple[type[StoreError], str]] = {
    refusals.NoNodeError: (NoNode, "does not exist"),
    refusals.NodeExistsError: (NodeExists, "exists already"),
    refusals.BadVersionError: (BadVersion, "is not at that version"),
    refusals.NotEmptyError: (NotEmpty, "has children"),
    refusals.NoChildrenForEphemeralsError: (EphemeralParent, "would be the child of an ephemeral node"),
    refusals.NoAuthError: (StoreError, "may not be touched: ZooKeeper refuses access"),
}

Question = Callable[[KazooClient], Any]
"""Sends a request, returns kazoo's AsyncResult."""


def refusal(error: BaseException, path: str) -> StoreError:
    """What kazoo says about a path, in our words."""
    for theirs, (ours, sentence) in _REFUSALS.items():
        if isinstance(error, theirs):
            return ours(f"{path} {sentence}")
    if isinstance(error, refusals.SessionExpiredError | refusals.ConnectionClosedError):
        return SessionLost("the session with ZooKeeper is over")
    if isinstance(error, refusals.ConnectionLoss):
        return StoreUnavailable("the connection to ZooKeeper broke: nobody knows what was done")
    return StoreUnavailable(f"ZooKeeper failed at {path}: {error!r}")


def below(root: str, path: str) -> str:
    """A path of ours, as ZooKeeper knows it."""
    return f"{root}{path}" if path != "/" or not root else root


def get(path: str) -> Question:
    """Answers (data, stat)."""
    return lambda client: client.get_async(path)


def children(path: str, watcher: Callable[[Any], None] | None = None) -> Question:
    """Answers names."""
    return lambda client: client.get_children_async(path, watcher)


def exists(path: str, watcher: Callable[[Any], None] | None = None) -> Question:
    """Answers a stat, or None."""
    return lambda client: client.exists_async(path, watcher)


def create(path: str) -> Question:
    return lambda client: client.create_async(path)


def sync(path: str) -> Question:
    """Answered when the server has heard of everything that was written before. Answers the path."""
    return lambda client: client.sync_async(path)


def watcher(tell: Callable[[], None]) -> Callable[[Any], None]:
    """For `children` and `exists`. kazoo calls it in a thread of its own, also when it forgets it: that is not news."""
    return lambda event: None if event.type == EventType.NONE else tell()


def transaction(ops: Iterable[Op], root: str) -> Question:
    """Answers for each operation its result, or exceptions if all of it failed. Raises StoreError if too large."""
    request = _Transaction([_request(op, below(root, op.path)) for op in ops])
    size = len(request.serialize())
    if size > REQUEST_BYTES_MAX:
        raise StoreError(f"{size} bytes in one change of the metadata: ZooKeeper takes {REQUEST_BYTES_MAX}")

    def send(client: KazooClient) -> Any:
        result = client.handler.async_result()
        client._call(request, result)
        return result

    return send


def failure(results: Sequence[Any]) -> tuple[int, Exception] | None:
    """Which operation failed, and why; for the others ZooKeeper only says that they were not done."""
    bystanders = (refusals.RolledBackError, refusals.RuntimeInconsistency)
    failed = [(i, each) for i, each in enumerate(results) if isinstance(each, Exception)]
    return next(
        (each for each in failed if not isinstance(each[1], bystanders)), failed[0] if failed else None
    )


def _request(op: Op, path: str) -> Any:
    if isinstance(op, Create):
        return wire.Create(path, op.data, OPEN_ACL_UNSAFE, _EPHEMERAL if op.ephemeral else 0)
    if isinstance(op, Set):
        return wire.SetData(path, op.data, op.version)
    if isinstance(op, Check):
        return wire.CheckVersion(path, op.version)
    return wire.Delete(path, op.version)


class _Transaction(wire.Transaction):  # type: ignore[misc]  # kazoo has no types
    """A transaction with the creation id of what it creates, and the version of what it changes."""

    __slots__ = ()

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        reply, _ = wire.ReplyHeader.deserialize(data, 0)  # kazoo has read it too, and does not hand it on
        results: list[Any] = []
        header, offset = wire.MultiHeader.deserialize(data, offset)
        while not header.done:
            result: Any = 0
            if header.type == wire.Create.type:
                result = reply.zxid
                _, offset = wire.read_string(data, offset)
            elif header.type == wire.SetData.type:
                result = ZnodeStat._make(wire.stat_struct.unpack_from(data, offset)).version
                offset += wire.stat_struct.size
            elif header.type == -1:
                result = refusals.EXCEPTIONS[wire.int_struct.unpack_from(data, offset)[0]]()
                offset += wire.int_struct.size
            results.append(result)
            header, offset = wire.MultiHeader.deserialize(data, offset)
        return results
