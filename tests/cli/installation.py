"""Kafka as it is installed by hand: a home with bin/ and config/, a ZooKeeper, and brokers started from there.

Three clusters share the ZooKeeper, as in the texts: one at its root, two under paths of their own.
"""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ottla.cli.main import main
from tests.cli.seed_lines import START, Line, Places, placed

PATIENCE_S = 60
PROPERTIES = """
broker.id=0
listeners=PLAINTEXT://127.0.0.1:0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
log.cleaner.enable=true
log.index.interval.bytes=100
zookeeper.connect={zookeeper}
zookeeper.connection.timeout.ms=30000
delete.topic.enable=true
group.initial.rebalance.delay.ms=0
"""


class Installation:
    """Made by `installed`. `clusters` are addresses of brokers by the path in ZooKeeper."""

    def __init__(self, home: Path, zookeeper: str) -> None:
        self.home, self.zookeeper = home, zookeeper
        self.clusters: dict[str, str] = {}
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self._environment = {
            **os.environ,
            "PATH": path,
            "XDG_RUNTIME_DIR": str(home / "run"),
            "LOG_DIR": str(home / "logs"),
        }

    def words(self, line: Line, index: str = "") -> tuple[list[str], Path]:
        """What to run, and in which directory: those that begin with bin/ in the home, the others in bin/ itself."""
        text = placed(line, Places(self.zookeeper, self.clusters.get("", ""), index))
        where = self.home if " bin/" in f" {line.text}" else self.home / "bin"
        return shlex.split(text), where

    def run(
        self, line: Line, *more: str, says: str = "", index: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """A line as it is written, with `more` behind it."""
        words, where = self.words(line, index)
        return self.tool(*words, *more, where=where, says=says)

    def tool(
        self, *words: str, where: Path | None = None, says: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words,
            cwd=where or self.home,
            env=self._environment,
            input=says,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
        )

    @contextmanager
    def going_on(self, line: Line) -> Iterator["subprocess.Popen[str]"]:
        """A line that does not end by itself."""
        words, where = self.words(line)
        process = subprocess.Popen(
            words,
            cwd=where,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def start_more(self, path: str, broker_ids: list[int]) -> None:
        """Brokers in the background, in the cluster at this path of ZooKeeper."""
        for each in broker_ids:
            data = self.home / f"data{path.replace('/', '-')}-{each}"
            done = self.tool(
                "bin/kafka-server-start.sh",
                "-daemon",
                "config/server.properties",
                *("--override", f"broker.id={each}", "--override", f"log.dirs={data}"),
                *("--override", f"zookeeper.connect={self.zookeeper}{path}"),
            )
            assert done.returncode == 0, done.stderr
            self.clusters[path] = address_in(done.stdout)

    def stop(self) -> None:
        """All that run, until none does."""
        deadline = time.monotonic() + PATIENCE_S
        while (done := self.tool("bin/kafka-server-stop.sh")).returncode == 0:
            assert time.monotonic() < deadline, "brokers do not stop"
        assert (done.stdout, done.stderr) == ("No kafka server to stop\n", "")


def address_in(announcement: str) -> str:
    """Where a broker says that it listens."""
    assert " listens on " in announcement, announcement
    return announcement.partition(" listens on ")[2].partition(";")[0]


def first_line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline()


@contextmanager
def installed(home: Path, zookeeper: str) -> Iterator[Installation]:
    """With three clusters that serve: at the root by the line in the text, and under /kafka100 and /kafka."""
    (home / "config").mkdir()
    (home / "run").mkdir()
    (home / "config" / "server.properties").write_text(
        PROPERTIES.format(data=home / "data", zookeeper=zookeeper)
    )
    assert main(["--quiet", "shims", "install", "--dir", str(home / "bin")]) == 0
    found = Installation(home, zookeeper)
    with found.going_on(START) as broker:
        try:
            found.clusters[""] = address_in(first_line(broker.stdout))
            found.start_more("/kafka100", [0, 1])
            found.start_more("/kafka", [0])
            yield found
        finally:
            found.stop()
        assert broker.wait(PATIENCE_S) == 0
    for each in home.glob("data*"):
        shutil.rmtree(each)  # a million records need not wait for the next but two runs


def interrupt(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """As Ctrl-C does; what it said from then on."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    return out, err
