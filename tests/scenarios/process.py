"""A broker in a process of its own, so that its memory can be told from that of the test."""

import os
import subprocess
import sys
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROGRAM = """
import asyncio, json, logging, sys
from ottla.testing import AsyncBroker

async def main():
    async with AsyncBroker(config=json.loads(sys.argv[1])) as broker:
        print(broker.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)

logging.basicConfig(level=logging.INFO)
try:
    import uvloop as loops
except ImportError:
    loops = asyncio
with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
    runner.run(main())
"""


class BrokerProcess:
    """Runs for as long as the `with` lasts; what it logged is in `log` afterwards."""

    def __init__(self, directory: Path, config: str = "{}") -> None:
        self._stderr = (directory / "broker.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, config],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise AssertionError(f"the broker did not start: {self.log[-2000:]}")
        self.port = int(line)
        self.log = ""

    def __enter__(self) -> "BrokerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """It stops cleanly when nobody holds its standard input any more."""
        with self._process:
            self._process.stdin.close()
            self._process.wait(60)
        self._stderr.seek(0)
        self.log = self._stderr.read()
        self._stderr.close()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE_BYTES

    @property
    def rss_peak_bytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    @property
    def file_count(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))
