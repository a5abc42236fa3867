"""One broker of a cluster as a process: it is started, stopped, killed, paused; its ports and its data stay its own.

The ports are kept for it while it is down, by sockets that are bound and do not listen: nobody else gets them, and
whoever connects is refused as by a machine whose broker is down. Everything here runs on one event loop.
"""

import asyncio
import contextlib
import enum
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.core.errors import OttlaError

LOOPBACK = "127.0.0.1"
READY = "listens on"
"""What a broker says when clients may come."""
_POLL_SECONDS = 0.02
_TAIL_LINES = 30
_TAIL_BYTES = 16 * 1024


class ClusterError(OttlaError):
    """The cluster is not as it should be. The message says what is wrong, and what brokers have written."""


class NodeState(enum.Enum):
    """What became of a broker's process."""

    RUNNING = "running"
    PAUSED = "paused"
    DOWN = "down"
    """Not started yet, stopped, or killed."""
    FAILED = "failed"
    """It ended without being told to."""


class Port:
    """A port of the loopback that stays ours while nobody listens on it."""

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, number))
        except OSError as error:
            self._socket.close()
            raise ClusterError(f"port {number} of the loopback is in use: {error}") from error
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


class ClusterNode:
    """A broker of a cluster."""

    def __init__(
        self, id: int, directory: Path, config: Mapping[str, object], ports: Mapping[str, Port]
    ) -> None:
        self.id = id
        self.data_dir = directory / f"broker-{id}"
        self.output_path = directory / f"broker-{id}.log"
        """What the process has written to stdout and stderr, in all its lives."""
        self.config: dict[str, object] = dict(config)
        """Its settings. What is changed here holds from the next start."""
        self._ports = ports
        self._process: subprocess.Popen[bytes] | None = None
        self._output_start = 0
        self._is_paused = False
        self._is_wanted = False

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.bootstrap_server}, {self.state.value}>"

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._ports["PLAINTEXT"].number

    @property
    def bootstrap_server(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def http_port(self) -> int | None:
        """Where `/metrics` and `/readyz` are served, if they are."""
        return self._ports["HTTP"].number if "HTTP" in self._ports else None

    @property
    def pid(self) -> int | None:
        """The process, while it is there."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def state(self) -> NodeState:
        if self.pid is None:
            return NodeState.FAILED if self._is_wanted else NodeState.DOWN
        return NodeState.PAUSED if self._is_paused else NodeState.RUNNING

    def output(self) -> str:
        """The last lines that it has written in its latest life."""
        with contextlib.suppress(FileNotFoundError), open(self.output_path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._output_start, size - _TAIL_BYTES))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:])
        return ""

    # --- life ---------------------------------------------------------------------------------------------------

    def spawn(self) -> None:
        """Start the process. `until_ready` waits for the broker."""
        if self.pid is not None:
            raise ClusterError(f"broker {self.id} runs already")
        settings = [f"--set={key}={_text(value)}" for key, value in self.config.items()]
        with open(self.output_path, "ab") as output:
            self._output_start = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.testing.broker_process", str(os.getpid()), "start",
                 "--broker-id", str(self.id), "--data-dir", str(self.data_dir), *settings],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_environment(),
                process_group=0,  # Ctrl-C is for whoever started the cluster: it stops its brokers in its own order
            )  # fmt: skip
        self._is_wanted, self._is_paused = True, False

    async def until_ready(self, seconds: float) -> None:
        """Return when it serves clients. Raises ClusterError with what it has written instead."""
        deadline = asyncio.get_running_loop().time() + seconds
        while READY not in (said := self.output()):
            if self.pid is None:
                raise ClusterError(f"broker {self.id} did not start: {self.ending()}\n{self.output()}")
            if asyncio.get_running_loop().time() > deadline:
                raise ClusterError(f"broker {self.id} is not ready after {seconds:.0f} s. It said:\n{said}")
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self, seconds: float) -> None:
        """Have it hand over what it leads and end. Raises ClusterError if it does not, and kills it."""
        self.resume()
        self._is_wanted = False
        if self.pid is None:
            return
        self._signal(signal.SIGTERM)
        if not await self._ended(seconds):
            said = self.output()
            await self.kill()
            raise ClusterError(f"broker {self.id} did not stop within {seconds:.0f} s. It said:\n{said}")

    async def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self._is_wanted, self._is_paused = False, False
        self._signal(signal.SIGKILL)
        await self._ended(float("inf"))

    def pause(self) -> None:
        """SIGSTOP: it stands still, its connections stay open."""
        self._signal(signal.SIGSTOP)
        self._is_paused = self.pid is not None

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self._is_paused = False

    def kill_at_once(self) -> None:
        """Without an event loop: for the end of the program."""
        self._is_wanted = False
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def let_go(self) -> None:
        """Give the ports back."""
        for port in self._ports.values():
            port.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.pid is not None:
            self._process.send_signal(number)

    async def _ended(self, seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.pid is not None:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def ending(self) -> str:
        """How the process ended."""
        code = self._process.returncode if self._process is not None else None
        return (
            f"it was ended by signal {-code}" if code is not None and code < 0 else f"it exited with {code}"
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _environment() -> dict[str, str]:
    """Ours, but for settings of brokers that somebody has left there: a test says itself what it wants."""
    kept = ("OTTLA_LOG_LEVEL", "OTTLA_LOG_FORMAT", "OTTLA_TRACEBACK", "OTTLA_EXPECT_COMPILED")
    return {
        name: value for name, value in os.environ.items() if not name.startswith("OTTLA_") or name in kept
    }
