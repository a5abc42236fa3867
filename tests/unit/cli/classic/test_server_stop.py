"""`kafka-server-stop`: it ends brokers of `kafka-server-start`, and never anything else."""

import json
import os
import signal
import subprocess
import sys

import pytest

from ottla.cli.classic import server_registry
from ottla.cli.main import main
from ottla.core.errors import OttlaError
from tests.unit.cli.classic.servers import PATIENCE_S, home

__all__ = ["home"]


@pytest.fixture
def stop(home, capsys):
    def run(*words):
        code = main(["kafka-server-stop", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def stranger():
    """A process that is none of ours."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def started(home, node_id):
    process = home.start(
        "--override", f"broker.id={node_id}", "--override", f"log.dirs={home.path}/data-{node_id}"
    )
    assert process.stdout.readline()
    return process


def test_where_none_runs_there_is_none_to_stop(stop):
    assert stop() == (1, "No kafka server to stop\n", "")


def test_all_of_them_are_stopped_or_those_that_are_meant(home, stop):
    first, second = started(home, 1), started(home, 2)
    assert stop("--node-id", "3") == (1, "No kafka server to stop\n", "")
    assert stop("--process-role=observer") == (1, "No kafka server to stop\n", "")
    assert stop("--node-id=2") == (0, "", "")
    assert second.wait(PATIENCE_S) == 0
    assert first.poll() is None
    assert stop("--process-role", "broker") == (0, "", "")
    assert first.wait(PATIENCE_S) == 0
    assert stop() == (1, "No kafka server to stop\n", "")


def test_who_is_stopping_is_not_asked_twice(home, stop):
    process = started(home, 1)
    os.kill(process.pid, signal.SIGSTOP)
    assert stop() == (0, "", "")
    assert stop() == (0, "", ""), "it is still there"
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(PATIENCE_S) == 0, "a second signal would have ended it with 130"
    assert list(server_registry.directory().iterdir()) == []


def test_a_process_that_got_the_number_of_a_broker_is_left_alone(stop, stranger):
    place = server_registry.directory()
    record = {
        "pid": stranger.pid,
        "began": "some other time",
        "node_id": 1,
        "roles": ["broker"],
        "config": "x",
    }
    path = place / f"broker-{stranger.pid}.json"
    path.write_text(json.dumps(record))
    assert stop() == (1, "No kafka server to stop\n", "")
    assert stranger.poll() is None
    assert not path.exists()


def test_a_process_that_got_the_number_since_somebody_looked_is_left_alone(home, stranger):
    server_registry.ask_to_stop(server_registry.Server(stranger.pid, "some other time", 1, ("broker",), "x"))
    assert stranger.poll() is None
    assert list(server_registry.directory().iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": -1, "began": null}', "\udcff"])
def test_a_file_that_makes_no_sense_is_removed(stop, text):
    path = server_registry.directory() / "broker-1.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert stop() == (1, "No kafka server to stop\n", "")
    assert not path.exists()


def test_a_directory_that_others_can_write_to_is_not_believed(home, monkeypatch):
    (home.path / "run" / "ottla").mkdir()
    os.chmod(home.path / "run" / "ottla", 0o777)
    with pytest.raises(OttlaError, match="only you can write to"):
        server_registry.servers()


def test_a_broker_that_cannot_be_written_down_serves_all_the_same(home, caplog):
    (home.path / "run" / "ottla").write_text("a file is in the way")
    with server_registry.registered(1, ("broker",), "x"):
        assert "kafka-server-stop will not find this broker" in caplog.text


def test_a_number_that_is_none_is_refused(stop):
    code, _, err = stop("--node-id", "one")
    assert code == 1
    assert 'For input string: "one"' in err
