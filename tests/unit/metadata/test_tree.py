"""The tree of nodes against a model that is too simple to be wrong, and the file against the tree."""

import asyncio
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Set,
    StoreError,
)
from ottla.metadata.tree import PERSISTENT, Tree, parent_of

PATHS = ["/a", "/b", "/a/a", "/a/b", "/a/a/a"]
paths = st.sampled_from(PATHS)
versions = st.sampled_from([ANY_VERSION, 0, 1, 2])
ops = st.one_of(
    st.builds(Create, paths, st.binary(max_size=2), st.booleans()),
    st.builds(Set, paths, st.binary(max_size=2), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
multis = st.lists(st.lists(ops, min_size=1, max_size=5), max_size=12)
Model = dict[str, tuple[bytes, int, bool]]


def do(model: Model, op: Op) -> None:
    """What an operation does to path -> (data, version, is ephemeral)."""
    if isinstance(op, Create):
        parent = parent_of(op.path)
        if parent != "/" and parent not in model:
            raise NoNode
        if parent != "/" and model[parent][2]:
            raise EphemeralParent
        if op.path in model:
            raise NodeExists
        model[op.path] = (op.data, 0, op.ephemeral)
        return
    if op.path not in model:
        raise NoNode
    _, version, ephemeral = model[op.path]
    if op.version not in (ANY_VERSION, version):
        raise BadVersion
    if isinstance(op, Set):
        model[op.path] = (op.data, version + 1, ephemeral)
    if isinstance(op, Delete):
        if any(path.startswith(op.path + "/") for path in model):
            raise NotEmpty
        del model[op.path]


def do_all(model: Model, wanted: list[Op]) -> tuple[Model, type[StoreError] | None]:
    after = dict(model)
    try:
        for op in wanted:
            do(after, op)
    except StoreError as error:
        return model, type(error)
    return after, None


@given(multis)
def test_the_tree_does_what_the_model_does(history):
    tree, model = Tree(), Model()
    for wanted in history:
        model, refusal = do_all(model, wanted)
        if refusal is None:
            tree.apply(tree.plan(wanted, session=1))
        else:
            with pytest.raises(refusal):
                tree.plan(wanted, session=1)
        found = {path: tree.get(path) for path in PATHS}
        assert {p: (n.data, n.version) for p, n in found.items() if n} == {p: v[:2] for p, v in model.items()}
        assert {p for p in model if model[p][2]} == set(tree.owned_by(1))
        for path in ("/", *model):
            names = {p.rpartition("/")[2] for p in model if parent_of(p) == path}
            assert tree.children(path) == sorted(names)


@settings(max_examples=25, deadline=None)
@given(multis)
def test_a_store_that_is_opened_again_holds_what_it_held_but_for_ephemeral_nodes(history):
    async def scenario(path: str) -> None:
        store, model = await EmbeddedStore.open(path), Model()
        for wanted in history:
            model, refusal = do_all(model, wanted)
            if refusal is None:
                await store.multi(wanted)
        before = await store.get_all(PATHS)
        store.abandon()
        store = await EmbeddedStore.open(path)
        lasting = {p: node for p, node in before.items() if not model[p][2]}
        assert await store.get_all(PATHS) == lasting
        newest = max((node.created for node in before.values()), default=0)
        assert await store.create("/new") > newest
        await store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(scenario(f"{directory}/metadata.db"))


def test_a_plan_changes_nothing():
    tree = Tree()
    plan = tree.plan([Create("/a", b"x"), Create("/a/b")], PERSISTENT)
    assert len(tree) == 0
    tree.apply(plan)
    assert len(tree) == 2


def test_nodes_are_restored_parents_first():
    tree = Tree(9)
    tree.restore([("/a", b"x", 3, 7), ("/a/b", b"", 0, 8)])
    assert tree.get("/a") == (b"x", 3, 7)
    assert tree.children("/a") == ["b"]
    with pytest.raises(NoNode, match="/c/d"):
        tree.restore([("/c/d", b"", 0, 1)])


@pytest.mark.parametrize("path", ["a", "/a/", "//a", "/", "/a\0"])
def test_a_broken_path_is_our_own_bug(path):
    with pytest.raises(AssertionError):
        Tree().plan([Create(path)], PERSISTENT)
