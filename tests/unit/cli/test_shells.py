"""Commands in odd surroundings: no terminal, no streams, readers that hang up, no home, an impatient user."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from ottla.testing import Broker

OTTLA = [sys.executable, "-m", "ottla.cli.main"]
LISTING = [["topic", "ls"], ["topic", "describe", "orders"], ["kafka-topics", "--list"], ["group", "ls"]]


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        running.create_topic("orders")
        yield running


@pytest.fixture
def environment(broker, tmp_path):
    return {**os.environ, "HOME": str(tmp_path), "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap_server}


def told(words, broker):
    """With the address, as each kind of tool wants it."""
    name = "--bootstrap-server" if words[0].startswith("kafka-") else "-b"
    return [*OTTLA, *words, name, broker.bootstrap_server]


def in_shell(words, broker, how):
    command = " ".join(told(words, broker))
    return subprocess.run(
        ["bash", "-c", f"{command} {how}"],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("words", LISTING, ids=" ".join)
@pytest.mark.parametrize("how", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(words, broker, how):
    done = in_shell(words, broker, how)
    assert (done.returncode, done.stderr) == (0, "")
    if ">&-" not in how.replace("2>&-", ""):
        assert "orders" in done.stdout or words[0] == "group"


@pytest.mark.parametrize("words", LISTING, ids=" ".join)
def test_a_reader_that_hangs_up_hears_no_complaint(words, broker):
    done = in_shell(words, broker, "| head -c 0; exit ${PIPESTATUS[0]}")
    assert done.returncode in (0, 1), "it may be through before the reader has gone"
    assert done.stderr == ""


@pytest.mark.parametrize("words", [["topic", "ls"], ["kafka-topics", "--list"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_named(words):
    with Broker() as broker:
        broker.create_topic("orders")
        done = in_shell(words, broker, ">/dev/full")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_failures_without_stderr_keep_their_exit_code():
    command = f"{' '.join(OTTLA)} topic ls -b 127.0.0.1:1 <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=120).returncode == 6


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

WAITING = [
    ["topic", "ls"],
    ["topic", "describe", "orders"],
    ["topic", "compact", "orders", "--wait"],
    ["topic", "clone", "a", "b", "--records"],
    ["group", "lag", "billing"],
    ["cluster", "health", "--wait"],
    ["txn", "ls"],
    ["bench", "e2e"],
    ["consume", "orders"],
    ["produce", "orders", "-v", "one"],
    ["config", "get", "topic", "orders"],
    ["group", "reset", "billing", "--topic", "orders", "--to", "start"],
    ["cat", "-L"],
]


@pytest.mark.parametrize("words", WAITING, ids=" ".join)
def test_ctrl_c_ends_a_command_that_waits_for_an_answer(words):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        command = [*OTTLA, *words, "-b", f"127.0.0.1:{server.getsockname()[1]}"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                with server.accept()[0] as connection:
                    connection.settimeout(60)
                    assert connection.recv(4)  # now it waits for us
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=60)
            finally:
                process.kill()
    assert (process.returncode, out, err) == (130, "", "")


# --- homes ------------------------------------------------------------------------------------------------------------


def run(environment, *words):
    return subprocess.run([*OTTLA, *words], env=environment, capture_output=True, text=True, timeout=120)


def test_without_a_home_commands_work(environment):
    del environment["HOME"]
    assert run(environment, "topic", "ls").returncode == 0


def test_a_home_that_is_not_there_is_no_obstacle_to_reading(environment):
    environment["HOME"] = "/nonexistent/home"
    assert run(environment, "topic", "ls").returncode == 0
    assert run(environment, "profile", "ls").returncode == 0


def test_a_home_that_cannot_be_written_is_named(environment, tmp_path):
    file = tmp_path / "file"
    file.touch()
    environment["HOME"] = str(file)
    assert run(environment, "topic", "ls").returncode == 0
    for words in (
        ("profile", "add", "prod", "-b", "a:1"),
        ("profile", "use", "--none"),
        ("completion", "install", "--shell", "bash"),
        ("shims", "install"),
    ):
        done = run(environment, *words)
        if words != ("profile", "use", "--none"):
            assert done.returncode == 1, words
            assert str(file) in done.stderr
        assert "a bug" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        (b"a=\\uZZZZ\n", 2, "client.properties, line 1"),
        (b"\xff\xfe\n", 2, "client.properties is not a text in UTF-8"),
        (b"security.protocol=NONSENSE\n", 2, "security.protocol"),
        (b"sasl.jaas.config=nothing\n", 2, "sasl.jaas.config"),
        (b"unknown.to.us=1\n\n\n# fine\n", 0, ""),
        (b"", 0, ""),
    ],
)
def test_a_broken_client_properties_is_named(environment, tmp_path, text, code, sentence):
    place = tmp_path / ".config" / "ottla"
    place.mkdir(parents=True)
    (place / "client.properties").write_bytes(text)
    done = run(environment, "topic", "ls")
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr and "a bug" not in done.stderr


@pytest.mark.parametrize(
    "words", [("topic", "ls"), ("topic", "create", "x"), ("bench", "e2e"), ("txn", "ls")]
)
def test_a_profile_that_does_not_exist_is_not_found(environment, words):
    done = run(environment, "--profile", "nowhere", *words)
    assert done.returncode == 4
    assert done.stderr == (
        "ottla: there is no profile 'nowhere'; `ottla profile add nowhere -b HOST:PORT` makes it\n"
    )


def test_a_profile_in_use_that_is_gone_is_named(environment, tmp_path):
    place = tmp_path / ".config" / "ottla"
    place.mkdir(parents=True)
    (place / "profile").write_text("gone\n")
    assert run(environment, "topic", "ls").returncode == 4
    (place / "profile").write_bytes(b"\xff")
    assert run(environment, "topic", "ls").returncode == 0
    assert run(environment, "profile", "use", "--none").returncode == 0


def test_eighty_columns_are_enough_for_every_help():
    from ottla.cli.main import COMMANDS

    for name in ("--help", *COMMANDS):
        words = [name] if name == "--help" else [name, "--help"]
        done = subprocess.run(
            [*OTTLA, *words],
            env={**os.environ, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert max(map(len, done.stdout.splitlines())) <= 80, name
