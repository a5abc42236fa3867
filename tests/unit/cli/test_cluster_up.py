"""`ottla cluster up` runs brokers as processes, says when one dies, and takes all of them down again."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from ottla.cli.cluster_up import Plan, check_data, defaults
from ottla.cli.main import main
from ottla.cli.remote import Failed
from ottla.testing.zookeeper import JARS
from tests.unit.cli.states import Asked, runner

_HAS_ZOOKEEPER = (JARS / "zookeeper.jar").exists() and shutil.which("java") is not None


class Running:
    """The command in a process, and what it says."""

    def __init__(self, directory, *args):
        command = [
            sys.executable,
            "-m",
            "ottla.cli.main",
            "cluster",
            "up",
            "--data-dir",
            str(directory),
            *args,
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
        )

    def healthy(self):
        """What it says when it is."""
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def line(self, part):
        """The next line on stderr that has this in it."""
        for line in self.process.stderr:
            if part in line:
                return line
        raise AssertionError(f"it never said {part!r}")

    def end(self, *signals):
        """Returns the exit code and the rest of stderr."""
        for number in signals:
            self.process.send_signal(number)
        rest = self.process.communicate()[1]
        return self.process.returncode, rest


@contextlib.contextmanager
def running(directory, *args):
    """Whatever happens, it is gone in the end; its brokers die with it."""
    run = Running(directory, "--port", "0", "--json", *args)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.communicate(timeout=60)
        run.process.kill()
        run.process.communicate()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cluster_comes_up_goes_down_and_finds_everything_again(tmp_path, capsys):
    with running(tmp_path / "data") as run:
        told = run.healthy()
        assert [row["broker"] for row in told["brokers"]] == [1, 2, 3]
        ottla = runner(capsys, told["bootstrap_servers"])
        assert ottla("cluster", "health", "--brokers", "3").code == 0
        controller = ottla("cluster", "brokers", "--json").json["controller"]
        asked = Asked(next(row["address"] for row in told["brokers"] if row["broker"] == controller))
        asked.create("orders", 3)
        code, rest = run.end(signal.SIGTERM)
        assert (code, "stopping" in rest, "ended by itself" in rest) == (0, True, False)
        assert not any(is_alive(row["pid"]) for row in told["brokers"])
    with running(tmp_path / "data") as run:
        ottla = runner(capsys, run.healthy()["bootstrap_servers"])
        health = ottla("cluster", "health", "--json").json
        assert (health["is_healthy"], health["partitions"]) == (True, 3)
        assert run.end(signal.SIGINT)[0] == 0


def test_a_broker_that_dies_is_reported_and_the_others_go_on(tmp_path, capsys):
    with running(tmp_path / "data", "--nodes", "2", "--set", "broker.session.timeout.ms=2000") as run:
        told = run.healthy()
        os.kill(told["brokers"][1]["pid"], signal.SIGKILL)
        assert str(tmp_path / "data" / "broker-2.log") in run.line("broker 2 has ended by itself")
        assert main(["cluster", "brokers", "-b", told["brokers"][0]["address"]]) == 0
        assert run.end(signal.SIGTERM)[0] == 3
        assert not any(is_alive(row["pid"]) for row in told["brokers"])


def test_told_twice_it_ends_at_once(tmp_path):
    with running(tmp_path / "data", "--nodes", "1") as run:
        told = run.healthy()
        os.kill(told["brokers"][0]["pid"], signal.SIGSTOP)  # it does not hear that it should stop
        run.process.send_signal(signal.SIGTERM)
        run.line("stopping")
        assert run.end(signal.SIGTERM)[0] == 130
        assert not is_alive(told["brokers"][0]["pid"])


def test_told_to_stop_while_it_starts_it_stops(tmp_path):
    with running(tmp_path / "data") as run:
        run.line("starting 3 brokers")
        code, rest = run.end(signal.SIGTERM)
        assert (code, "stopping" in rest) == (0, True)


def test_without_any_broker_left_it_ends(tmp_path):
    with running(tmp_path / "data", "--nodes", "1") as run:
        os.kill(run.healthy()["brokers"][0]["pid"], signal.SIGKILL)
        code, rest = run.end()
        assert code == 1
        assert "ottla: no broker is left\n" in rest


def test_settings_hold_for_all_brokers(tmp_path, capsys):
    with running(tmp_path / "data", "--nodes", "2", "--set", "num.partitions=7") as run:
        from ottla.protocol.messages.configs import DescribeConfigsRequest

        for row in run.healthy()["brokers"]:
            resource = DescribeConfigsRequest.Resource(
                resource_type=4,
                resource_name=str(row["broker"]),
                configuration_keys=["num.partitions", "default.replication.factor"],
            )
            (answer,) = Asked(row["address"]).send(DescribeConfigsRequest(resources=[resource])).results
            found = {each.name: each.value for each in answer.configs}
            assert found == {"num.partitions": "7", "default.replication.factor": "2"}


@pytest.mark.skipif(not _HAS_ZOOKEEPER, reason="there is no ZooKeeper here")
def test_a_zookeeper_is_started_along_and_keeps_its_data(tmp_path, capsys):
    with running(tmp_path / "data", "--nodes", "1", "--zookeeper") as run:
        (row,) = run.healthy()["brokers"]
        Asked(row["address"]).create("orders")
        assert run.end(signal.SIGTERM)[0] == 0
    with running(tmp_path / "data", "--nodes", "1", "--zookeeper") as run:
        told = runner(capsys, run.healthy()["bootstrap_servers"])("cluster", "health", "--json").json
        assert (told["is_healthy"], told["partitions"]) == (True, 1)
        assert run.end(signal.SIGTERM)[0] == 0


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_named_with_a_way_out(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert main(["cluster", "up", "--nodes", "1", "--data-dir", str(tmp_path), "--port", str(port)]) == 1
    err = capsys.readouterr().err
    assert f"port {port} of the loopback is in use" in err
    assert "choose others with --port, or --port 0 for free ones" in err
    assert "Traceback" not in err


def test_a_directory_in_use_is_refused(tmp_path, capsys):
    from ottla.storage.files import OsFiles
    from ottla.storage.lock import DirectoryLock

    lock = DirectoryLock(OsFiles(), str(tmp_path))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli.main", "cluster", "up", "--data-dir", str(tmp_path), "--port", "0"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        lock.close()
    assert done.returncode == 1
    assert f"the data directory {tmp_path} is in use by process {os.getpid()}" in done.stderr


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--nodes", "3", "--port", "65534"], "there are no 3 ports from 65534 on"),
        (["--set", "nonsense"], "--set nonsense has no value"),
        (["--set", "no.such.key=1"], "no.such.key"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "listeners=PLAINTEXT://:1"], "--set listeners: it is different in every broker"),
        (["--set", "broker.id=1"], "--set node.id: it is different in every broker"),
    ],
)
def test_options_that_make_no_sense_get_a_sentence(tmp_path, capsys, args, sentence):
    assert main(["cluster", "up", "--data-dir", str(tmp_path / "data"), *args]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def plan(directory, nodes=3, zookeeper=None):
    return Plan(nodes, zookeeper, directory, (), {}, False)


def test_the_data_of_something_else_is_left_alone(tmp_path):
    check_data(plan(tmp_path / "new"))
    for number in (1, 2, 3):
        (tmp_path / f"broker-{number}").mkdir()
    (tmp_path / "broker-9.log").touch()
    check_data(plan(tmp_path))
    check_data(plan(tmp_path, nodes=4))
    with pytest.raises(Failed, match="has the data of 3 brokers: say --nodes 3"):
        check_data(plan(tmp_path, nodes=2))
    (tmp_path / "metadata.db").touch()
    with pytest.raises(Failed, match="is not in ZooKeeper: leave out --zookeeper"):
        check_data(plan(tmp_path, zookeeper="localhost:2181"))
    (tmp_path / "zookeeper").mkdir()
    with pytest.raises(Failed, match="is in ZooKeeper: say --zookeeper"):
        check_data(plan(tmp_path))
    (tmp_path / "meta.properties").touch()
    with pytest.raises(Failed, match="has the data of a single broker"):
        check_data(plan(tmp_path))


def test_small_clusters_have_as_many_replicas_as_can_be():
    assert defaults(1)["offsets.topic.replication.factor"] == 1
    assert defaults(5)["default.replication.factor"] == 3
    assert defaults(2)["transaction.state.log.min.isr"] == 2
