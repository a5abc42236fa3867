"""Where ZooKeeper is: the string that Kafka calls `zookeeper.connect`, and why nobody answers there.

`host:port,host:port/path`: every server of the ensemble, and the node below which everything of ours lies. A port may
be left out. An address of IPv6 stands in brackets.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Sequence
from typing import NamedTuple

from ottla.core.errors import ConfigError

DEFAULT_PORT = 2181
PORT_MAX = 65_535
_KEY = "zookeeper.connect"
_LABEL = r"[\w-]{1,63}"  # longer ones cannot be asked for
_SERVER = re.compile(rf"(?P<host>{_LABEL}(\.{_LABEL})*\.?|\[[\w:.%]+\])(:(?P<port>\d{{1,5}}))?", re.ASCII)
_PROBE_S = 1.0
_ANSWER_BYTES_MAX = 4_096


class Server(NamedTuple):
    """One of them. `host` without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(NamedTuple):
    """All servers, and the path that ours begin with: empty, or with a slash in front."""

    servers: list[Server]
    root: str

    @property
    def hosts(self) -> str:
        return ",".join(map(str, self.servers))


def parse(connect: str) -> Address:
    """Raises ConfigError, in a sentence."""
    hosts, slash, path = connect.strip().partition("/")
    servers = [_server(part.strip(), connect) for part in hosts.split(",")]
    root = f"/{path.rstrip('/')}" if path.rstrip("/") else ""
    if any(name in ("", ".", "..") for name in root[1:].split("/")) and root:
        raise ConfigError(f"{_KEY}: {slash}{path} is not a path in ZooKeeper")
    return Address(servers, root)


def _server(part: str, connect: str) -> Server:
    match = _SERVER.fullmatch(part)
    if match is None:
        raise ConfigError(
            f"{_KEY}: {part!r} in {connect!r} is not a host with a port, such as localhost:2181"
        )
    port = int(match["port"] or DEFAULT_PORT)
    if not 0 < port <= PORT_MAX:
        raise ConfigError(f"{_KEY}: there is no port {port}")
    return Server(match["host"].strip("[]"), port)


async def why_not(servers: Sequence[Server]) -> str:
    """What is wrong with each of them, for somebody who could not begin a session."""
    reasons = await asyncio.gather(*(_why_not(server) for server in servers))
    return "; ".join(f"{server} {reason}" for server, reason in zip(servers, reasons, strict=True))


async def _why_not(server: Server) -> str:
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection(server.host, server.port)
    except socket.gaierror:
        return "has a host name that is not known"
    except ConnectionRefusedError:
        return "has nobody who listens"
    except (TimeoutError, OSError) as error:
        return f"cannot be reached ({error})" if str(error) else "cannot be reached"
    try:
        answer = await _ask(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if answer is None:
        return "accepts connections, but does not answer"
    if b"not currently serving" in answer:
        return "answers, but serves nobody: it has no quorum"
    if b"ookeeper" in answer or b"whitelist" in answer:
        return "answers, but gave us no session in time"
    return "answers, but not as ZooKeeper does"


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    """What it says of itself; None if it says nothing in time. A server without a quorum may hang up at once."""
    try:
        async with asyncio.timeout(_PROBE_S):
            writer.write(
                b"srvr"
            )  # the one word of four letters that every server answers unless told otherwise
            return await reader.read(_ANSWER_BYTES_MAX)
    except TimeoutError:
        return None
    except OSError:
        return b""
