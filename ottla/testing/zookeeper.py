"""Real Apache ZooKeeper servers for tests: one, or an ensemble, as processes that can be killed, paused and restarted.

    with ZooKeeper(servers=3) as zookeeper:
        store = await ZooKeeperStore.open(zookeeper.connect_string, session_timeout_ms=2_000, ...)
        zookeeper.kill(zookeeper.leader())

What a server has written it finds again when it is started again: its directory stays until `close`. By default all
are on the loopback; `hosts` and `prefixes` put them into network namespaces. Where ZooKeeper is not installed,
`ensure` fetches Debian's package if it may, else it raises `Unavailable`, which is a reason to skip a test.

Ports are taken below those that the system gives to outgoing connections: whoever tries to reach a killed server on
the loopback again and again may otherwise be given just that port, and be connected to himself.
"""

import atexit
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.core.errors import OttlaError

JARS = Path("/usr/share/java")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOOPBACK = "127.0.0.1"
PORTS = range(15_000, 32_000)
OWN_HOST_PORTS = (2181, 2888, 3888)
"""Of a server that has a network to itself: for clients, for its followers, for elections."""
PATIENCE_S = 60.0
_POLL_S = 0.05
_WORD_S = 2.0  # a server that was paused accepts a connection, and says nothing
_STARTS = 3  # somebody else may take a port between its choice and the start
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as peer:
    peer.sendall(sys.argv[3].encode())
    while data := peer.recv(65536):
        sys.stdout.buffer.write(data)
"""


class Unavailable(OttlaError):
    """ZooKeeper cannot be run here. The message says why, in one sentence."""


def ensure() -> list[str]:
    """The command that runs a ZooKeeper server, but for its configuration. Installs the package if that is possible."""
    if not (JARS / "zookeeper.jar").exists() or shutil.which("java") is None:
        _install()
    java = shutil.which("java")
    if java is None or not (JARS / "zookeeper.jar").exists():
        raise Unavailable(
            f"ZooKeeper needs Java and {JARS}/zookeeper.jar, and the package did not bring them"
        )
    # Without a binding for its logging a server that fails would not say why.
    classpath = f"{JARS}/zookeeper.jar:{JARS}/slf4j-simple.jar"
    return [java, *_JVM, "-cp", classpath, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def _install() -> None:
    apt_get = shutil.which("apt-get")
    if apt_get is None or os.geteuid() != 0:
        raise Unavailable("ZooKeeper is not installed, and only root can install it, with apt-get")
    with _one_at_a_time():
        if (JARS / "zookeeper.jar").exists() and shutil.which("java"):
            return
        install = [apt_get, "install", "-y", "--no-install-recommends", "zookeeper"]
        if not _succeeds(install):
            _succeeds([apt_get, "update"])
            if not _succeeds(install):
                raise Unavailable("ZooKeeper is not installed, and apt-get cannot fetch it")


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Workers of one test run, which all miss the package at once, fetch it once."""
    with open(Path(tempfile.gettempdir()) / "ottla-zookeeper.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _succeeds(command: Sequence[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode == 0


class _Server:
    """One server: where it is, and its process while it runs."""

    def __init__(self, index: int, host: str, prefix: Sequence[str], directory: Path) -> None:
        self.index, self.host, self.prefix, self.directory = index, host, list(prefix), directory
        self.process: subprocess.Popen[bytes] | None = None
        self.port, self.quorum_port, self.election_port = OWN_HOST_PORTS

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self, command: Sequence[str]) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *command, MAIN, str(self.directory / "zoo.cfg")],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C must not take it away before those who need it have ended
            )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None and self.is_running, f"server {self.index} does not run"
        self.process.send_signal(number)
        if number is signal.SIGSTOP:  # its threads do not all stand still at once
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, word: str) -> str:
        """What it answers to one of ZooKeeper's words of four letters; nothing if it does not answer."""
        if self.prefix:
            command = [*self.prefix, sys.executable, "-c", _ASK, self.host, str(self.port), word]
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), _WORD_S) as peer:
            peer.sendall(word.encode())
            while data := peer.recv(1 << 16):
                answer += data
        return answer.decode()

    def mode(self) -> str:
        """`leader`, `follower` or `standalone`; empty while it serves nobody."""
        lines = self.ask("srvr").splitlines() if self.is_running else []
        return next((line.split(": ")[1] for line in lines if line.startswith("Mode: ")), "")


class ZooKeeper:
    """Servers 0 to `servers` - 1, an ensemble if there are several. A context manager that starts and ends them.

    `hosts` are their addresses, `prefixes` what their commands begin with, such as `["ip", "netns", "exec", "zk"]`:
    it must become the server's process, not its parent. `syncs=False` is quicker, and forgets when the power fails."""

    def __init__(
        self,
        servers: int = 1,
        *,
        tick_ms: int = 500,
        directory: str | os.PathLike[str] | None = None,
        hosts: Sequence[str] | None = None,
        prefixes: Sequence[Sequence[str]] | None = None,
        syncs: bool = True,
    ) -> None:
        self._command = [*ensure(), f"-Dzookeeper.forceSync={'yes' if syncs else 'no'}"]
        self._tick_ms = tick_ms
        self._is_ours = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="ottla-zookeeper-"))
        hosts = hosts or [LOOPBACK] * servers
        prefixes = prefixes or [[]] * servers
        self._servers = [
            _Server(index, host, prefix, self.directory / str(index))
            for index, host, prefix in zip(range(servers), hosts, prefixes, strict=True)
        ]
        self._is_placed = False

    def __enter__(self) -> "ZooKeeper":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._servers)

    @property
    def connect_string(self) -> str:
        """As `zookeeper.connect` wants it."""
        return ",".join(f"{server.host}:{server.port}" for server in self._servers)

    def address(self, index: int) -> tuple[str, int]:
        return self._servers[index].host, self._servers[index].port

    def pid(self, index: int) -> int | None:
        process = self._servers[index].process
        return process.pid if process is not None else None

    def start(self) -> "ZooKeeper":
        """Start all, and wait until they serve."""
        atexit.register(self.close)
        for attempt in range(_STARTS):
            self._place()
            for server in self._servers:
                server.start(self._command)
            try:
                self.wait_until_serving()
                break
            except Unavailable:
                self.kill_all()
                if attempt + 1 == _STARTS:
                    self.close()
                    raise
        return self

    def start_server(self, index: int) -> None:
        """Start one that was killed; it finds what it knew. `wait_until_serving` waits for it."""
        server = self._servers[index]
        assert not server.is_running, f"server {index} runs"
        server.start(self._command)

    def restart(self, index: int) -> None:
        """Kill it and start it again, and wait until it serves."""
        self.kill(index)
        self.start_server(index)
        self.wait_until_serving([index])

    def kill(self, index: int) -> None:
        """As `kill -9` does."""
        self._servers[index].kill()

    def kill_all(self) -> None:
        for server in self._servers:
            server.kill()

    def pause(self, index: int) -> None:
        """It keeps its connections, and does nothing any more, until `resume`."""
        self._servers[index].signal(signal.SIGSTOP)

    def resume(self, index: int) -> None:
        self._servers[index].signal(signal.SIGCONT)

    def ask(self, index: int, word: str) -> str:
        """What a server answers to a word of four letters, such as `mntr`; nothing if it does not answer."""
        return self._servers[index].ask(word)

    def leader(self) -> int | None:
        """Which of them leads; a single one always does."""
        modes = [server.mode() for server in self._servers]
        return next((i for i, mode in enumerate(modes) if mode in ("leader", "standalone")), None)

    def wait_until_serving(
        self, servers: Sequence[int] | None = None, *, timeout_s: float = PATIENCE_S
    ) -> None:
        """Wait until these, or all that run, serve clients. Raises Unavailable with the end of a server's log."""
        wanted = [self._servers[i] for i in servers] if servers is not None else self._servers
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        for server in wanted:
            if servers is None and server.process is None:
                continue
            while not server.mode():
                if not server.is_running or time.monotonic() > deadline:
                    raise Unavailable(f"ZooKeeper server {server.index} does not serve: {_tail(server.log)}")
                pause.wait(_POLL_S)

    def close(self) -> None:
        """End all. The directory goes if it was not given."""
        atexit.unregister(self.close)
        self.kill_all()
        if self._is_ours:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _place(self) -> None:
        """Choose ports, and write what each server must know of itself and the others."""
        ports = iter(_free_ports(3 * len(self._servers)))
        for server in self._servers:
            if server.host == LOOPBACK:
                server.port, server.quorum_port, server.election_port = next(ports), next(ports), next(ports)
        for server in self._servers:
            server.directory.mkdir(parents=True, exist_ok=True)
            (server.directory / "myid").write_text(f"{server.index + 1}\n")
            (server.directory / "zoo.cfg").write_text(self._config(server))

    def _config(self, server: _Server) -> str:
        lines = [
            f"dataDir={server.directory}",
            f"clientPort={server.port}",
            f"clientPortAddress={server.host}",
            f"tickTime={self._tick_ms}",
            f"minSessionTimeout={self._tick_ms}",
            "initLimit=20",  # ticks; a loaded machine needs a while
            "syncLimit=10",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "standaloneEnabled=true",
        ]
        if len(self._servers) > 1:
            lines += [
                f"server.{each.index + 1}={each.host}:{each.quorum_port}:{each.election_port}"
                for each in self._servers
            ]
        return "\n".join(lines) + "\n"


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(ports) == count:
            break
        with socket.socket() as probe:
            # As the server will: connections of its predecessor may still linger.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                ports.append(port)
    return ports


def _tail(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-3:]) or "it says nothing"
