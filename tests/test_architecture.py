"""Imports point down only, and a few things are allowed in one place only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ottla"

LAYERS = [
    "core",
    "protocol records assignors tally",
    "storage network metadata",
    "replication groups transactions controller",
    "broker client",
    "cli console audit spark testing",
]
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer.split()}
NEIGHBOURS_APART = [{"broker", "client"}, {"protocol", "records"}]
"""Packages of one layer that must not know each other."""

BRAINS = set(LAYERS[3].split())
FORBIDDEN_TO_BRAINS = {"asyncio", "socket", "os", "time", "threading", "random", "datetime", "subprocess"}
"""Brains get time and chance as arguments, and do no I/O."""

CORE_DEPENDENCIES = {"click", "cramjam", "fastcrc", "rich", "uvloop"}
ANNOTATIONS_ONLY = {"mypy_extensions"}  # imported under TYPE_CHECKING, never at run time
FOREIGN = {
    PACKAGE / "testing" / "plugin.py": {"pytest"},  # nobody but pytest imports its plugin
    PACKAGE / "core" / "patterns.py": {"re2"},  # an extra, imported when the first pattern comes
    # An extra, imported when the first session with ZooKeeper begins.
    PACKAGE / "metadata" / "zookeeper_requests.py": {"kazoo"},
    PACKAGE / "metadata" / "zookeeper_session.py": {"kazoo"},
    # An extra, imported by who names a Redis by its URL.
    PACKAGE / "client" / "helpers" / "claims_redis.py": {"redis"},
}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str | None:
    """The package of a module, None for those directly in `ottla`."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that is imported, wherever in the file, and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            module = node.module or ""
            if module == "ottla":
                yield from ((f"ottla.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno


def ottla_imports() -> Iterator[tuple[str, str, str]]:
    """(where, importing package, imported package)"""
    for path in sources():
        here = package_of(path)
        for module, line in imports(path):
            parts = module.split(".")
            if here is not None and parts[0] == "ottla" and len(parts) > 1 and parts[1] in RANK:
                yield f"{path.relative_to(ROOT)}:{line}", here, parts[1]


def test_every_package_has_a_layer():
    found = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert found <= RANK.keys()


def test_imports_point_down():
    for where, here, there in ottla_imports():
        assert RANK[there] <= RANK[here], f"{where}: {here} may not import {there}"


def test_some_neighbours_do_not_know_each_other():
    for where, here, there in ottla_imports():
        assert here == there or {here, there} not in NEIGHBOURS_APART, (
            f"{where}: {here} may not import {there}"
        )


def test_nothing_imports_the_programs_and_kits():
    top = set(LAYERS[-1].split())
    for where, here, there in ottla_imports():
        assert there not in top or here in top, f"{where}: {there} is for users, not for {here}"


def test_the_core_install_needs_its_five_dependencies_only():
    standard = set(__import__("sys").stdlib_module_names)
    for path in sources():
        for module, line in imports(path):
            top = module.split(".")[0]
            allowed = standard | CORE_DEPENDENCIES | ANNOTATIONS_ONLY | {"ottla"} | FOREIGN.get(path, set())
            assert top in allowed, f"{path.relative_to(ROOT)}:{line}: {top}"


def test_brains_do_no_io_and_read_no_clock():
    for path in sources():
        if package_of(path) in BRAINS:
            for module, line in imports(path):
                assert module.split(".")[0] not in FORBIDDEN_TO_BRAINS, f"{path}:{line}: {module}"


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Names of functions that are called, as they are written, and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def test_storage_opens_files_in_one_module_only():
    allowed = {
        PACKAGE / "storage" / "files.py",
        PACKAGE / "storage" / "cleaning" / "worker.py",  # a process of its own, which it slows down and ends
    }
    for path in sources():
        if package_of(path) == "storage" and path not in allowed:
            for module, line in imports(path):
                assert module not in {"os", "mmap", "pathlib", "shutil", "tempfile"}, (
                    f"{path}:{line}: {module}"
                )
            assert not [line for name, line in calls(path) if name == "open"], path


@pytest.mark.parametrize("name", ["exec", "eval", "compile", "pickle.loads", "pickle.load", "marshal.loads"])
def test_bytes_never_become_code(name):
    allowed = {PACKAGE / "protocol" / "codec.py"} if name in ("exec", "compile") else set()
    for path in sources():
        if path not in allowed:
            assert name not in {called for called, _ in calls(path)}, f"{path.relative_to(ROOT)} calls {name}"
