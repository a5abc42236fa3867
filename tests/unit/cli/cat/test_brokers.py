import os
import signal
import subprocess
import sys

import pytest

from ottla.cli.cat.brokers import cluster
from ottla.client import Admin, Producer


@pytest.fixture
def started():
    """`ottla cat -M 1`, and the line that it has printed."""
    command = [sys.executable, "-m", "ottla.cli.main", "cat", "-M", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process, process.stdout.readline().decode()
        finally:
            process.kill()


def test_the_brokers_are_named_and_live_until_stdin_ends(started):
    process, line = started
    name, _, servers = line.strip().partition("=")
    assert name == "BROKERS"
    with Producer(bootstrap_servers=servers) as producer:
        assert producer.send("new", b"a").result(30).topic == "new"
    with Admin(bootstrap_servers=servers) as admin:
        assert len(admin.describe_topics(["new"])["new"].partitions) == 4
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.decode().startswith(f"% Cluster started with bootstrap.servers={servers}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_them_in_order(started, number):
    process, _ = started
    os.kill(process.pid, number)
    assert process.wait(60) == 0


def test_several_are_one_cluster():
    with cluster(2) as servers, Admin(bootstrap_servers=servers) as admin:
        assert len(servers.split(",")) == 2
        assert len(admin.describe_cluster().brokers) == 2
