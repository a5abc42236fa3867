"""Which brokers `kafka-server-start` has started here: a small file for each, in a directory that is the user's alone.

`kafka-server-stop` reads them. A number of a process says little, for it is given to others in time; so a file also
keeps when the process began, and whoever reads it believes it only of a process that began just then.
"""

import json
import logging
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ottla.core.errors import OttlaError

_STARTED_AT = 19  # of the fields behind the name in /proc/PID/stat: the 22nd in all
_RECORD_BYTES_MAX = 1 << 16
_ASKED = ".asked"
"""Beside the file of a broker that has been told to stop."""


class Server(NamedTuple):
    """A broker that runs."""

    pid: int
    began: str
    node_id: int
    roles: tuple[str, ...]
    config: str


def directory() -> Path:
    """Made if it is not there. Raises OttlaError if it is somebody else's."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(base, "ottla") if base else Path(os.environ.get("TMPDIR") or "/tmp", f"ottla-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OttlaError(
            f"{path} must be a directory that only you can write to: set XDG_RUNTIME_DIR to another"
        )
    return path


@contextmanager
def registered(node_id: int, roles: tuple[str, ...], config: str) -> Iterator[None]:
    """While this process is a broker."""
    try:
        path = _write(node_id, roles, config)
    except (OSError, OttlaError) as error:
        # A broker that serves is worth more than one that can be found.
        logging.getLogger(__name__).warning("kafka-server-stop will not find this broker: %s", error)
        yield
        return
    try:
        yield
    finally:
        _forget(path)


def _write(node_id: int, roles: tuple[str, ...], config: str) -> Path:
    pid = os.getpid()
    path = directory() / f"broker-{pid}.json"
    _forget(path)
    record = {"pid": pid, "began": _began(pid), "node_id": node_id, "roles": roles, "config": config}
    new = path.with_suffix(".new")
    new.write_text(json.dumps(record))
    new.replace(path)
    return path


def servers() -> list[Server]:
    """Those that run. What is left of others is removed."""
    found = []
    for path in sorted(directory().glob("broker-*.json")):
        record = _record(path)
        if record is None or record["began"] is None or _began(record["pid"]) != record["began"]:
            _forget(path)
            continue
        found.append(
            Server(
                record["pid"], record["began"], record["node_id"], tuple(record["roles"]), record["config"]
            )
        )
    return found


def ask_to_stop(server: Server) -> None:
    """Once: a second signal would tell it to leave everything as it is."""
    with _held(server.pid) as ask:
        if _began(server.pid) != server.began:
            return
        try:
            (directory() / f"broker-{server.pid}{_ASKED}").touch(exist_ok=False)
        except FileExistsError:
            return
        with suppress(ProcessLookupError):
            ask(signal.SIGTERM)


@contextmanager
def _held(pid: int) -> Iterator[Callable[[int], None]]:
    """What sends a signal to this process and, where the system can hold on to one, to no later one of its number."""
    if not hasattr(os, "pidfd_open"):
        yield partial(os.kill, pid)
        return
    try:
        held = os.pidfd_open(pid)
    except OSError:  # it has gone, or this kernel knows no such thing
        yield partial(os.kill, pid)
        return
    try:
        yield partial(signal.pidfd_send_signal, held)
    finally:
        os.close(held)


def _forget(path: Path) -> None:
    for each in (path, path.with_suffix(_ASKED)):
        each.unlink(missing_ok=True)


def _record(path: Path) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            record = json.loads(file.read(_RECORD_BYTES_MAX))
        right = isinstance(record["pid"], int) and record["pid"] > 1 and isinstance(record["began"], str)
        right = right and isinstance(record["node_id"], int) and isinstance(record["roles"], list)
        return record if right and isinstance(record["config"], str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _began(pid: int) -> str | None:
    """What no other process with this number shares; None if there is none, or if it has ended."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else f"{boot} {fields[_STARTED_AT - 1]}"
    if os.path.isdir("/proc/self"):
        return None
    done = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None
