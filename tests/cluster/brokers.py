"""Brokers on hosts: processes that are killed, stopped and started again.

Everything that one of them ever said is in a file. It is ended by its process id, and by nothing else; `kill` ends it
whatever state it is in, a stopped one included.
"""

import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster.hosts import Host

START_SECONDS_MAX = 120.0
STEP_SECONDS = 0.05
BROKER_PORT, HTTP_PORT = 9092, 9644
_pause = threading.Event()


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = START_SECONDS_MAX) -> None:
    """Return when it is so. Whoever waits in vain says for what."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        _pause.wait(STEP_SECONDS)


class BrokerHost:
    """`ottla start` on a host. `launch` and `start` may be called again after it has ended."""

    def __init__(
        self,
        host: Host,
        number: int,
        zookeeper: str,
        data_dir: Path,
        output: Path,
        settings: Mapping[str, object],
    ) -> None:
        self.host = host
        self.number = number
        self.data_dir = data_dir
        self.output = output
        program = [sys.executable, "-m", "ottla.cli.main", "start", "--zookeeper", zookeeper]
        program += ["--broker-id", str(number), "--listen", self.address, "--data-dir", str(data_dir)]
        program += ["--http", f"{host.address}:{HTTP_PORT}", "--log-level", "info"]
        for key, value in settings.items():
            program += ["--set", f"{key}={value}"]
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host.address}:{BROKER_PORT}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it, and do not wait."""
        assert not self.is_running, f"{self.host.name} runs already"
        with self.output.open("ab") as output:
            command = self.host.command(*self._program)
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def start(self) -> None:
        """Return when it serves clients."""
        self.launch()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        wait_until(self._is_ready, f"{self.host.name} is ready")

    def _is_ready(self) -> bool:
        assert self.is_running, f"{self.host.name} has ended: {self.last_words()}"
        try:
            self._page("readyz")
        except OSError:
            return False
        return True

    def metric(self, name: str) -> float:
        """The sum of a number over its labels."""
        lines = [line for line in self._page("metrics").splitlines() if re.match(rf"{name}[ {{]", line)]
        return sum(float(line.rsplit(maxsplit=1)[1]) for line in lines)

    def _page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.host.address}:{HTTP_PORT}/{path}", timeout=5) as page:
            return str(page.read().decode())

    def last_words(self) -> str:
        return self.output.read_text(errors="replace")[-2000:] if self.output.exists() else "nothing"

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """Ask it to end, and wait until it has. Its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            process.send_signal(how)
            try:
                return process.wait(START_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    def stop(self) -> None:
        """SIGSTOP: it does nothing, and its connections stay."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, what: signal.Signals) -> None:
        assert self._process is not None, f"{self.host.name} does not run"
        self._process.send_signal(what)
