"""Brokers that `kafka-server-start` runs in processes of their own, and the directory where they are written down."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.cli.classic.server_registry import servers
from ottla.core.errors import OttlaError

OTTLA = [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.exit(main())"]
PATIENCE_S = 60
PROPERTIES = """
broker.id=7
listeners=PLAINTEXT://127.0.0.1:0
log.dirs={data}
unknown.to.everybody=1
"""


class Home:
    """A server.properties, and where brokers write what they are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.properties = path / "server.properties"
        self.properties.write_text(PROPERTIES.format(data=path / "data"))
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(path / "run"), "LOG_DIR": str(path / "logs")}
        (path / "run").mkdir()
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*OTTLA, *words], env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """In the foreground. Its first line is where it listens."""
        process = subprocess.Popen(
            [*OTTLA, "kafka-server-start", str(self.properties), *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def home(tmp_path, monkeypatch):
    made = Home(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    yield made
    made.close()
    with suppress(OttlaError, OSError):  # some tests spoil the directory
        for server in servers():
            os.kill(server.pid, signal.SIGKILL)  # one in the background, of a test that failed
