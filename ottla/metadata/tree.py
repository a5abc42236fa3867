"""The tree of nodes in memory, and the rules by which it changes. No I/O: a store makes its changes last.

`plan` judges operations and changes nothing; `apply` changes and judges nothing. Between the two a store writes the
changes down.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Set,
)

PERSISTENT = 0
ROOT = "/"


@dataclass(slots=True)
class TreeNode:
    """A node, the session that owns it (PERSISTENT if none does), and the names below it."""

    data: bytes
    version: int
    created: int
    owner: int = PERSISTENT
    children: set[str] = field(default_factory=set)


class Change(NamedTuple):
    """What becomes of one path: a node, or None where it goes. `is_birth`: its parent gets or loses a child."""

    path: str
    node: Node | None
    owner: int
    is_birth: bool


class Plan(NamedTuple):
    """Operations that were found possible: their results, and what they change, in order."""

    change_id: int
    results: list[int]
    changes: list[Change]


class Tree:
    """All nodes. The root is always there."""

    def __init__(self, change_id: int = 0) -> None:
        self.change_id = change_id
        self._nodes = {ROOT: TreeNode(b"", 0, 0)}

    def __len__(self) -> int:
        return len(self._nodes) - 1

    def restore(self, nodes: Iterable[tuple[str, bytes, int, int]]) -> None:
        """Fill an empty tree with (path, data, version, created), parents first. Raises NoNode for an orphan."""
        for path, data, version, created in nodes:
            parent = self._nodes.get(parent_of(path))
            if parent is None:
                raise NoNode(f"{path} has no parent")
            self._nodes[path] = TreeNode(data, version, created)
            parent.children.add(path[path.rindex("/") + 1 :])

    def get(self, path: str) -> Node | None:
        node = self._nodes.get(path)
        return Node(node.data, node.version, node.created) if node is not None else None

    def children(self, path: str) -> list[str] | None:
        node = self._nodes.get(path)
        return sorted(node.children) if node is not None else None

    def owned_by(self, session: int) -> Iterator[str]:
        return (path for path, node in self._nodes.items() if node.owner == session)

    def plan(self, ops: Sequence[Op], session: int) -> Plan:
        """Judge operations one after the other, as if those before had happened."""
        draft = _Draft(self._nodes, self.change_id + 1, session)
        return Plan(draft.created, [draft.judge(op) for op in ops], draft.changes)

    def apply(self, plan: Plan) -> None:
        """Do what was planned; nothing else may have been done since."""
        assert plan.change_id == self.change_id + 1, "a plan is made for one state of the tree"
        self.change_id = plan.change_id
        for path, node, owner, is_birth in plan.changes:
            name = path[path.rindex("/") + 1 :]
            if node is None:
                del self._nodes[path]
                self._nodes[parent_of(path)].children.discard(name)
            elif is_birth:
                self._nodes[path] = TreeNode(node.data, node.version, node.created, owner)
                self._nodes[parent_of(path)].children.add(name)
            else:
                old = self._nodes[path]
                old.data, old.version = node.data, node.version


class _Draft:
    """The tree as it would be after the operations judged so far."""

    def __init__(self, nodes: dict[str, TreeNode], created: int, session: int) -> None:
        self._nodes = nodes
        self._session = session
        self._drafted: dict[str, tuple[Node | None, int]] = {}
        self._child_counts: dict[str, int] = {}
        self.created = created
        self.changes: list[Change] = []

    def judge(self, op: Op) -> int:
        """The operation's result. Raises if it cannot be."""
        if isinstance(op, Create):
            return self._create(op)
        node, owner = self._find(op.path)
        if node is None:
            raise NoNode(f"{op.path} does not exist")
        if op.version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{op.path} is at version {node.version}, not {op.version}")
        if isinstance(op, Check):
            return 0
        if isinstance(op, Set):
            return self._set(op, node, owner)
        return self._delete(op)

    def _create(self, op: Create) -> int:
        check_path(op.path)
        parent, parent_owner = self._find(parent_of(op.path))
        if parent is None:
            raise NoNode(f"{op.path} has no parent")
        if parent_owner != PERSISTENT:
            raise EphemeralParent(f"{op.path} would be the child of an ephemeral node")
        if self._find(op.path)[0] is not None:
            raise NodeExists(f"{op.path} exists already")
        owner = self._session if op.ephemeral else PERSISTENT
        self._put(op.path, Node(op.data, 0, self.created), owner, birth=1)
        return self.created

    def _set(self, op: Set, node: Node, owner: int) -> int:
        self._put(op.path, node._replace(data=op.data, version=node.version + 1), owner, birth=0)
        return node.version + 1

    def _delete(self, op: Delete) -> int:
        if op.path == ROOT or self._child_count(op.path):
            raise NotEmpty(f"{op.path} has children")
        self._put(op.path, None, PERSISTENT, birth=-1)
        return 0

    def _find(self, path: str) -> tuple[Node | None, int]:
        if path in self._drafted:
            return self._drafted[path]
        node = self._nodes.get(path)
        return (Node(node.data, node.version, node.created), node.owner) if node else (None, PERSISTENT)

    def _child_count(self, path: str) -> int:
        node = self._nodes.get(path)
        return (len(node.children) if node else 0) + self._child_counts.get(path, 0)

    def _put(self, path: str, node: Node | None, owner: int, *, birth: int) -> None:
        self._drafted[path] = (node, owner)
        if birth:
            parent = parent_of(path)
            self._child_counts[parent] = self._child_counts.get(parent, 0) + birth
        self.changes.append(Change(path, node, owner, is_birth=birth != 0))


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or ROOT


def check_path(path: str) -> None:
    """Our own code makes the paths; a broken one is our bug."""
    assert path.startswith("/") and not path.endswith("/") and "//" not in path and "\0" not in path, path
