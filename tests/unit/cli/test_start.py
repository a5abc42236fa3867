"""`ottla start`, as a function with a broker that only pretends, and as a process with a real one."""

import asyncio
import errno
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import types
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import listeners_of
from ottla.cli.main import main
from ottla.cli.start import Ending, done_before, explained
from ottla.core.errors import OttlaError
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.paths import BrokerNode, ControllerNode
from ottla.metadata.served import StoreServer
from ottla.storage.lock import DirectoryInUseError

LINE = re.compile(r"Ottla listens on 127\.0\.0\.1:(\d+); its data is in (.*?)(?:; metrics are at (\S+))?\n")


class Pretended:
    """A broker without anything in it. Once it serves, the process gets SIGTERM."""

    made: "list[Pretended]" = []
    failure: "BaseException | None" = None
    fails_later = False

    def __init__(self, config, *, on_progress):
        self.config, self.on_fatal = config, None
        self.listeners: list = []
        self.http_port = None
        self.stopped = self.is_known_to_others = False
        on_progress(0, 1)
        Pretended.made.append(self)

    async def start(self):
        if self.failure is not None:
            raise self.failure
        self.listeners = [listener.bound(listener.port or 4711) for listener in listeners_of(self.config)]
        self.http_port = 4712 if self.config.http_listen else None
        after = self.on_fatal if self.fails_later else lambda: os.kill(os.getpid(), signal.SIGTERM)
        asyncio.get_running_loop().call_soon(after)

    async def stop(self):
        self.stopped = True


@pytest.fixture
def pretended(monkeypatch):
    module = types.ModuleType("ottla.broker.broker")
    module.Broker = Pretended  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ottla.broker.broker", module)
    monkeypatch.setattr(Pretended, "made", [])
    monkeypatch.setattr(Pretended, "failure", None)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Pretended
    root.handlers[:] = handlers
    root.setLevel(level)


def test_one_line_says_where_it_listens_and_where_its_data_is(pretended, capsys):
    assert main(["start", "--port", "0", "--data-dir", "somewhere"]) == 0
    out, err = capsys.readouterr()
    assert out == f"Ottla listens on 127.0.0.1:4711; its data is in {Path('somewhere').absolute()}\n"
    assert err == ""
    assert pretended.made[0].stopped


def test_the_line_says_where_the_metrics_are_and_what_clients_are_told(pretended, capsys):
    assert main(["start", "--listen", "0.0.0.0:9092", "--advertise", "gate", "--http", "0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Ottla listens on 0.0.0.0:9092 (for clients: gate:9092); its data is in ")
    assert out.endswith("; metrics are at http://127.0.0.1:4712/metrics\n")


def test_settings_come_from_everywhere(pretended, tmp_path, monkeypatch):
    file = tmp_path / "server.properties"
    file.write_text("broker.id=5\nlog.dirs=/x\nnum.partitions=2\n", encoding="utf-8")
    monkeypatch.setenv("OTTLA_NUM_PARTITIONS", "3")
    arguments = ["--config", str(file), "--set", "log.segment.bytes=2 MiB", "--port", "0"]
    assert main(["start", *arguments]) == 0
    config = pretended.made[0].config
    assert (config.node_id, config.log_dirs, config.num_partitions) == (5, ("/x",), 3)
    assert config["log.segment.bytes"] == 2 << 20


def test_unknown_keys_of_a_file_are_warned_about(pretended, tmp_path, capsys):
    file = tmp_path / "server.properties"
    file.write_text("listener.name.x.ssl=1\n", encoding="utf-8")
    assert main(["start", "--config", str(file), "--log-format", "json"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"].endswith("listener.name.x.ssl is not a known setting; it is ignored")


def test_dev_data_is_temporary(pretended, capsys):
    assert main(["start", "--dev", "--port", "0"]) == 0
    (path,) = pretended.made[0].config.log_dirs
    assert "ottla-dev-" in path
    assert not Path(path).exists()


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--set", "nope=1"], "ottla start: nope is not a known setting"),
        (["--set", "nope"], "ottla start: --set nope has no value"),
        (["--listen", "0.0.0.0:9092"], "--advertise HOST"),
        (["--listen", "x"], "ottla start: --listen is 'x', but must be host:port"),
        (["--port", "70000"], "70000"),
        (["--dev", "--data-dir", "x"], "leave out --data-dir"),
        (["--config", "/nowhere"], "/nowhere"),
        (["--config", "{latin}"], "is not a text in UTF-8"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(pretended, capsys, tmp_path, arguments, sentence):
    latin = tmp_path / "latin.properties"
    latin.write_bytes(b"broker.rack=\xe9\n")
    assert main(["start", *(argument.format(latin=latin) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert sentence in line
    assert pretended.made == []


@pytest.mark.parametrize(
    "failure, sentence",
    [
        (DirectoryInUseError("/x", 17), "ottla: the data directory /x is in use by process 17"),
        (
            OSError(
                errno.EADDRINUSE, "error while attempting to bind on address ('127.0.0.1', 9092): in use"
            ),
            "ottla: port 9092 is in use; choose another with --port, or 0 for a free one",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "ottla: /x: Permission denied"),
    ],
)
def test_what_prevents_a_start_is_one_line_and_exit_code_1(pretended, monkeypatch, capsys, failure, sentence):
    monkeypatch.setattr(pretended, "failure", failure)
    assert main(["start"]) == 1
    assert capsys.readouterr().err == f"{sentence}\n"


def test_a_broker_whose_last_directory_fails_ends_with_1(pretended, monkeypatch, capsys):
    monkeypatch.setattr(pretended, "fails_later", True)
    assert main(["start"]) == 1
    assert "every log directory has failed" in capsys.readouterr().err


def test_sockets_that_cannot_be_opened_are_explained():
    config = BrokerConfig({"http.listen": "9000"})

    def said(code: int, where: str) -> str:
        error = OSError(code, f"error while attempting to bind on address {where}: x")
        explanation = explained(error, config)
        assert isinstance(explanation, OttlaError)
        return str(explanation)

    assert "--http" in said(errno.EADDRINUSE, "('127.0.0.1', 9000)")
    assert "above 1023" in said(errno.EACCES, "('127.0.0.1', 80)")
    assert said(errno.EADDRNOTAVAIL, "('10.9.9.9', 80)") == "this machine has no address 10.9.9.9"
    other = OSError(errno.EIO, "x")
    assert explained(other, config) is other


def test_the_first_signal_asks_and_the_second_insists():
    async def run() -> None:
        ending = Ending()
        never = asyncio.Event()

        async def slow() -> None:
            ending.ask()
            await never.wait()

        assert await done_before(slow(), ending.first) is False
        assert not ending.second.is_set()
        assert await done_before(slow(), ending.second) is False
        assert await done_before(asyncio.sleep(0), never) is True

    asyncio.run(run())


def test_without_uvloop_it_runs_on_the_loop_of_python(pretended, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert main(["start"]) == 0


# --- as a process -------------------------------------------------------------------------------------------------


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ottla.cli.main", "start", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> re.Match[str]:
    assert process.stdout is not None
    line = process.stdout.readline()
    match = LINE.fullmatch(line)
    assert match, line or process.communicate()[1]
    return match


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_stops_cleanly_when_it_is_told_to(tmp_path, number):
    with started("--port", "0", "--data-dir", str(tmp_path / "d"), "--http", "0") as process:
        match = line_of(process)
        assert match[2] == str(tmp_path / "d")
        socket.create_connection(("127.0.0.1", int(match[1])), timeout=30).close()
        with urllib.request.urlopen(match[3], timeout=30) as response:
            assert b"ottla_connections" in response.read()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    assert (tmp_path / "d" / ".kafka_cleanshutdown").exists()


def test_two_brokers_do_not_share_a_data_directory(tmp_path):
    with started("--port", "0", "--data-dir", str(tmp_path)) as first:
        line_of(first)
        with started("--port", "0", "--data-dir", str(tmp_path)) as second:
            out, err = second.communicate(timeout=60)
            assert (second.returncode, out) == (1, "")
            assert err == f"ottla: the data directory {tmp_path} is in use by process {first.pid}\n"


def test_a_taken_port_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started("--port", str(port), "--data-dir", str(tmp_path)) as process:
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out) == (1, "")
            assert err == f"ottla: port {port} is in use; choose another with --port, or 0 for a free one\n"


def test_dev_data_is_gone_when_the_process_has_ended():
    with started("--dev", "--port", "0") as process:
        path = Path(line_of(process)[2])
        assert path.is_dir()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert not path.exists()


STUCK = """
import asyncio, sys, threading, types
from ottla.cli.main import main

class Stuck:
    listeners, http_port, is_known_to_others = [], None, False
    def __init__(self, config, *, on_progress): self.config = config
    async def start(self): await self.wait("start")
    async def stop(self): await self.wait("stop")
    async def wait(self, where):
        print(where, *self.config.log_dirs, flush=True)
        if where == sys.argv[1]:
            await asyncio.to_thread(threading.Event().wait)

sys.modules["ottla.broker.broker"] = types.ModuleType("ottla.broker.broker")
sys.modules["ottla.broker.broker"].Broker = Stuck
sys.exit(main(["start", "--dev"]))
"""


@contextmanager
def stuck(where: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", STUCK, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_long_recovery_can_be_interrupted():
    with stuck("start") as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert not path.exists()


def test_a_second_signal_does_not_wait_for_the_end():
    with stuck("stop") as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().split()[1])
        assert process.stdout.readline().startswith("Ottla listens on ")
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline().startswith("stop ")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert not path.exists()


def test_a_broker_that_is_stopped_while_it_starts_takes_leave_of_the_others(tmp_path):
    """They do not count on it until its session times out, which is never in this test."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(MEMORY)
        server = StoreServer(store)
        port = await server.start()
        boss = store.another_session()  # of a controller that never tells anybody anything
        await boss.create("/controller", ControllerNode.encode(0, 0), ephemeral=True)
        settings = [f"metadata.store.connect=127.0.0.1:{port}", "broker.session.timeout.ms=3600000"]
        arguments = [argument for setting in settings for argument in ("--set", setting)]
        where = ["--port", "0", "--data-dir", str(tmp_path), "--broker-id", "1"]
        command = [sys.executable, "-m", "ottla.cli.main", "start", *where, *arguments]
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        try:
            async with asyncio.timeout(60):
                while not await store.get_all([BrokerNode.path(1)]):
                    await asyncio.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            _, err = await process.communicate()
            assert (process.returncode, err) == (0, b"")
            assert not await store.get_all([BrokerNode.path(1)])
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
            await server.close()
            await boss.close()
            await store.close()

    asyncio.run(scenario())
