import os
import shutil
import subprocess
import threading

import pytest

from ottla.testing import zookeeper as module
from ottla.testing.zookeeper import Unavailable, ZooKeeper


def servers(count: int = 1, **options) -> ZooKeeper:
    try:
        return ZooKeeper(count, syncs=False, **options)
    except Unavailable as reason:
        pytest.skip(str(reason))


def wait(is_true) -> None:
    pause = threading.Event()
    for _ in range(1_200):
        if is_true():
            return
        pause.wait(0.05)
    raise AssertionError("it did not happen within a minute")


def test_one_server_serves_and_leaves_nothing_behind():
    with servers() as zookeeper:
        assert len(zookeeper) == 1
        assert zookeeper.ask(0, "ruok") == "imok"
        assert zookeeper.leader() == 0
        assert zookeeper.connect_string == "{}:{}".format(*zookeeper.address(0))
        pid, directory = zookeeper.pid(0), zookeeper.directory
    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert zookeeper.ask(0, "ruok") == ""


def test_a_killed_server_comes_back_where_it_was(tmp_path):
    with servers(directory=tmp_path) as zookeeper:
        address = zookeeper.address(0)
        zookeeper.kill(0)
        assert (zookeeper.pid(0), zookeeper.leader()) == (None, None)
        zookeeper.start_server(0)
        zookeeper.wait_until_serving([0])
        assert (zookeeper.address(0), zookeeper.leader()) == (address, 0)
        before = zookeeper.pid(0)
        zookeeper.restart(0)
        assert zookeeper.pid(0) != before
    assert (tmp_path / "0" / "version-2").exists()


def test_three_servers_have_one_leader_and_elect_another():
    with servers(3) as zookeeper:
        assert len(set(zookeeper.connect_string.split(","))) == 3
        first = zookeeper.leader()
        zookeeper.kill(first)
        wait(lambda: zookeeper.leader() is not None)
        assert zookeeper.leader() != first
        zookeeper.start_server(first)
        zookeeper.wait_until_serving()
        assert "follower" in zookeeper.ask(first, "srvr")
        zookeeper.kill_all()
        assert zookeeper.leader() is None


def test_a_paused_server_says_nothing_until_it_goes_on(monkeypatch):
    monkeypatch.setattr(module, "_WORD_S", 0.1)
    with servers() as zookeeper:
        zookeeper.pause(0)
        assert zookeeper.ask(0, "ruok") == ""
        zookeeper.resume(0)
        wait(lambda: zookeeper.ask(0, "ruok") == "imok")
        zookeeper.pause(0)  # and it can be ended so


def test_a_server_that_cannot_start_says_why():
    zookeeper = servers(prefixes=[["false"]])
    with pytest.raises(Unavailable, match="server 0 does not serve"):
        zookeeper.start()
    assert not zookeeper.directory.exists()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces need root and ip")
def test_a_server_may_live_on_another_host():
    name = f"ottla-zk-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here")
    inside = ["ip", "netns", "exec", name]
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        with servers(hosts=["127.0.0.2"], prefixes=[inside]) as zookeeper:
            assert zookeeper.connect_string == "127.0.0.2:2181"
            assert zookeeper.leader() == 0
            zookeeper.restart(0)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_where_it_is_missing_and_cannot_be_fetched_the_reason_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "JARS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    with pytest.raises(Unavailable, match=r"^ZooKeeper is not installed, and only root can install it"):
        module.ensure()


def test_it_is_fetched_once_with_a_second_attempt_after_an_update(tmp_path, monkeypatch):
    commands: list[str] = []
    monkeypatch.setattr(module, "JARS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")

    def run(command) -> bool:
        commands.append(command[1])
        if commands == ["install", "update", "install"]:
            (tmp_path / "zookeeper.jar").touch()
        return (tmp_path / "zookeeper.jar").exists()

    monkeypatch.setattr(module, "_succeeds", run)
    assert module.ensure()[0] == "/bin/java"
    assert commands == ["install", "update", "install"]
    module.ensure()
    assert len(commands) == 3


def test_ports_are_not_among_those_that_the_system_gives_away():
    ports = module._free_ports(9)
    assert len(set(ports)) == 9
    assert max(ports) < 32_768
